"""A build from the terminal: a Prefect server if there is none, little on the screen, plain errors."""

import logging
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.console import Console

from flows.local_server import prefect_server

if TYPE_CHECKING:
    from tasks.ledger import Ledger
    from tasks.recipe import Recipe

CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"


def run_build(
    recipe: str, storage: str | None, sample: float | None, plan: "Recipe", *, replace: bool = False
) -> "Ledger":
    """Run the build flow here, with what it logs in the dashboard and not on the screen.

    plan: the recipe as the flow will read it, by which its cluster is chosen.
    """
    os.environ.setdefault(CONSOLE_LEVEL, "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW", "ignore")
    console = Console(stderr=True, soft_wrap=True)
    with ExitStack() as stack:
        with console.status("starting Prefect"):
            api_url = stack.enter_context(prefect_server())
            from flows.build import build
            from tasks.cluster import task_runner, threads_for
        console.print(f"dashboard: {api_url.removesuffix('/api')}/runs", highlight=False)
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        runner = task_runner(threads_for(plan))
        return build.with_options(task_runner=runner)(recipe, storage, sample, replace)
