"""`zyda build`: build a corpus, with a temporary Prefect server if none runs."""

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
from zyda_flows.flows.server.signals import RESUME_ADVICE, end_on_signal
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
MOST_INSPECTED = 64  # files inspected before the cluster starts; workers inspect larger numbers in parallel
CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
# A warning of Python's resource tracker after a killed build, about semaphores that it then removes.
SEMAPHORES = "ignore::UserWarning:multiprocessing.resource_tracker"


def build(
    recipe_path: RecipePath, storage: Storage = None, sample: Sample = None, replace: Replace = False
) -> None:
    """Build the corpus, or its missing parts, and print its ledger: documents and tokens after each stage.

    The build uses the Prefect server and the workers of `zyda up` if they run, and otherwise starts its own until
    it ends. The exit status is 0 only if the corpus is complete. After an interruption, start the command again:
    finished parts are not built again.
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
    """Run the build flow in this process. Its log is in the dashboard, and not on the screen.

    recipe: the recipe as the flow will read it; the number of worker threads depends on it.
    """
    err = console(stderr=True, soft_wrap=True)

    def inspect() -> None:
        if (
            "DASK_SCHEDULER_ADDRESS" not in os.environ
        ):  # remote workers may read files that this machine cannot
            with err.status("checking the sources"):
                inspect_sources(recipe, replace=replace)

    with prefect_and_cluster(recipe, "zyda_flows.flows.build", inspect, "build") as runner:
        from zyda_flows.flows.build import build  # late

        return build.with_options(task_runner=runner)(recipe_path, storage, sample, replace)


@contextmanager
def prefect_and_cluster(
    recipe: "Recipe", flow_module: str, inspect: Callable[[], object], *labels: str
) -> "Iterator[TaskRunner[Any]]":
    """Start a Prefect server if none runs, hide Prefect's log, and yield the task runner of a flow.

    flow_module: imported while the server starts. inspect: called before the server starts. labels: tags of the
    run.
    """
    from zyda_flows.flows.server.local_server import prefect_server  # late
    from zyda_flows.flows.server.server_watchdog import server_watchdog  # late

    hide_prefect_log()
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), SEMAPHORES]))
    err = console(stderr=True, soft_wrap=True)
    with end_on_signal(RESUME_ADVICE), ExitStack() as stack:
        inspect()
        use_running_stack(err)
        with err.status("starting Prefect"):
            server = stack.enter_context(
                prefect_server(meanwhile=partial(begin_imports, recipe, flow_module))
            )
            from prefect import tags  # late

            from zyda_flows.tasks.stage.runner import task_runner, threads_for  # late
            from zyda_flows.tasks.workers.trouble import cluster_explained  # late
        err.print(f"dashboard: {server.api.link}", highlight=False)
        say_if_compiling(err)
        logging.raiseExceptions = (
            False  # else Prefect prints that it cannot send its log to a server that has ended
        )
        for name in ("distributed", "distributed.client"):  # Dask sets the level of each
            logging.getLogger(name).setLevel(logging.CRITICAL)
        stack.enter_context(server_watchdog(server))
        runner = task_runner(threads_for(recipe))
        stack.enter_context(cluster_explained())
        stack.enter_context(tags("zyda", *labels))  # the tags of the deployment's runs
        yield runner


def hide_prefect_log() -> None:
    """Hide Prefect's log on the terminal. Prefect reads these settings once, when it is imported."""
    os.environ.setdefault(CONSOLE_LEVEL, "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW", "ignore")


def begin_imports(recipe: "Recipe", flow_module: str) -> None:
    """Import a flow, and start the import of the workers' modules in the process that forks workers."""
    from zyda_flows.tasks.quality.forms import FORMS, form_of  # late
    from zyda_flows.tasks.workers.dask_cluster import expect_cluster  # late

    models = {judge.model for judge in recipe.all_judges}
    modules = {module for model in models for module in FORMS[form_of(model)].MODULES}
    expect_cluster([*sorted(modules), flow_module, "zyda_flows.flows.dashboard.report_artifact"])
    import_module(flow_module)


def inspect_sources(recipe: "Recipe", *, replace: bool) -> None:
    """Raise BadRecipe for faults of the sources that are found within seconds, before a server starts."""
    from zyda_flows.tasks.planning.inspection import inspect_new  # late
    from zyda_flows.tasks.planning.survey import check_sources  # late

    with suppress(Unavailable):  # the build retries
        survey = check_sources(recipe, replace=replace)
        if sum(map(len, survey.chosen)) <= MOST_INSPECTED:
            inspect_new(recipe, survey, partial(in_threads, shown=False))
        survey.expect_none()


def use_running_stack(err: "Console") -> None:
    """Use the server and the cluster of `zyda up` if they run and no others are configured."""
    from zyda_flows.flows.server.local_server import home  # late
    from zyda_flows.flows.server.login import configured_api  # late

    if configured_api(home()) or "DASK_SCHEDULER_ADDRESS" in os.environ:
        return
    from zyda_flows.deployments.stack import environment, running_stack  # late

    if stack := running_stack():
        os.environ.update(environment(stack))
        from prefect.context import refresh_global_settings_context  # late

        from zyda_flows.tasks.workers.scheduler_address import read_settings_again  # late

        read_settings_again()
        refresh_global_settings_context()
        err.print("using the server and the cluster of `zyda up`", highlight=False)
