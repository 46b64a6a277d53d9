"""`zyda build`: a Prefect server if there is none, little on the screen, plain errors."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

from zyda_flows.flows.command.arguments import RecipePath, Replace, Sample, Storage, load
from zyda_flows.flows.command.ledger import show_corpus
from zyda_flows.flows.command.terminal import console, in_threads, say_if_compiling
from zyda_flows.flows.server.signals import RESUME_ADVICE, end_in_order
from zyda_flows.tasks.errors import Unavailable

if TYPE_CHECKING:
    from prefect.task_runners import TaskRunner
    from rich.console import Console

    from zyda_flows.tasks.accounts.ledger import Ledger
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = (
    "zyda build recipe.yaml",
    "zyda build recipe.yaml --sample 0.001",
    "zyda build recipe.yaml --storage s3://bucket/corpora",
)
MOST_LOOKED_INTO = 64  # files, before anything starts; of more the workers of the cluster do it, side by side
CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
# What Python's own helper process says of semaphores where a build ended suddenly: it removes them.
SEMAPHORES = "ignore::UserWarning:multiprocessing.resource_tracker"


def build(
    recipe_path: RecipePath, storage: Storage = None, sample: Sample = None, replace: Replace = False
) -> None:
    """Build the corpus, or what is missing of it, and print its ledger.

    The exit status is 0 only when the corpus is complete. Start it again after an interruption: what is
    finished is not done again.
    """
    recipe = load(recipe_path, storage, sample)
    build_if_needed(recipe_path, storage, sample, recipe, replace=replace)
    show_corpus(recipe)


def build_if_needed(
    recipe_path: str, storage: str | None, sample: float | None, recipe: "Recipe", *, replace: bool = False
) -> None:
    """Run the build flow, unless the corpus is complete."""
    from zyda_flows.tasks.planning.last_build import ledger_if_complete  # late

    if ledger_if_complete(recipe):
        typer.echo("nothing to do: the corpus is complete, and its sources have not changed", err=True)
    else:
        run_build(recipe_path, storage, sample, recipe, replace=replace)


def build_and_show(
    recipe_path: str, storage: str | None, sample: float | None, recipe: "Recipe", *, replace: bool = False
) -> None:
    run_build(recipe_path, storage, sample, recipe, replace=replace)
    show_corpus(recipe)


def run_build(
    recipe_path: str, storage: str | None, sample: float | None, recipe: "Recipe", *, replace: bool = False
) -> "Ledger":
    """Run the build flow here, with what it logs in the dashboard and not on the screen.

    recipe: the recipe as the flow will read it, by which its cluster is chosen.
    """
    err = console(stderr=True, soft_wrap=True)

    def look() -> None:
        if "DASK_SCHEDULER_ADDRESS" not in os.environ:  # workers elsewhere may see what nobody sees here
            with err.status("looking at the sources"):
                look_before(recipe, replace=replace)

    with prefect_and_cluster(recipe, "zyda_flows.flows.build", look, "build") as runner:
        from zyda_flows.flows.build import build  # late

        return build.with_options(task_runner=runner)(recipe_path, storage, sample, replace)


@contextmanager
def prefect_and_cluster(
    recipe: "Recipe", flow_module: str, look: Callable[[], object], *labels: str
) -> "Iterator[TaskRunner[Any]]":
    """Give what runs a flow's tasks, with Prefect's server there and its own lines off the screen.

    flow_module: is imported meanwhile. look: is called before anything starts. labels: tags of the run.
    """
    from zyda_flows.flows.server.local_server import prefect_server  # late
    from zyda_flows.flows.server.server_watchdog import server_watchdog  # late

    keep_prefect_off_the_screen()
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), SEMAPHORES]))
    err = console(stderr=True, soft_wrap=True)
    with end_in_order(RESUME_ADVICE), ExitStack() as stack:
        look()
        use_the_running_stack(err)
        with err.status("starting Prefect"):
            server = stack.enter_context(prefect_server(meanwhile=partial(begin_imports, flow_module)))
            from prefect import tags  # late

            from zyda_flows.tasks.stage.runner import task_runner, threads_for  # late
            from zyda_flows.tasks.workers.trouble import cluster_explained  # late
        err.print(f"dashboard: {server.api.link}", highlight=False)
        say_if_compiling(err)
        for name in ("distributed", "distributed.client"):  # Dask sets the level of each
            logging.getLogger(name).setLevel(logging.CRITICAL)
        stack.enter_context(server_watchdog(server))
        runner = task_runner(threads_for(recipe))
        stack.enter_context(cluster_explained())
        stack.enter_context(tags("zyda", *labels))  # as runs of the deployment have them
        yield runner


def keep_prefect_off_the_screen() -> None:
    """Keep Prefect's own lines in its log. Whoever imports it reads this once."""
    os.environ.setdefault(CONSOLE_LEVEL, "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW", "ignore")


def begin_imports(flow_module: str) -> None:
    """Import a flow here, and in the process that workers come from what they need."""
    from zyda_flows.tasks.workers.dask_cluster import expect_cluster  # late

    expect_cluster()
    import_module(flow_module)


def look_before(recipe: "Recipe", *, replace: bool) -> None:
    """Find what can be found in seconds before any server is started. Raises BadRecipe."""
    from zyda_flows.tasks.planning.inspection import inspect_new  # late
    from zyda_flows.tasks.planning.survey import check_sources  # late

    with suppress(Unavailable):  # the build asks again, and again
        survey = check_sources(recipe, replace=replace)
        if sum(map(len, survey.chosen)) <= MOST_LOOKED_INTO:
            inspect_new(recipe, survey, partial(in_threads, shown=False))
        survey.expect_none()


def use_the_running_stack(err: "Console") -> None:
    """Build on what `zyda up` started, where it runs and no other server or cluster is named."""
    from zyda_flows.flows.server.local_server import home  # late
    from zyda_flows.flows.server.login import configured_api  # late

    if configured_api(home()) or "DASK_SCHEDULER_ADDRESS" in os.environ:
        return
    from zyda_flows.deployments.stack import environment, running_stack  # late

    if stack := running_stack():
        os.environ.update(environment(stack))
        from prefect.context import refresh_global_settings_context  # late

        from zyda_flows.tasks.workers.dask_cluster import read_settings_again  # late

        read_settings_again()
        refresh_global_settings_context()
        err.print("on the server and the cluster of `zyda up`", highlight=False)
