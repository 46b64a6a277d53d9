"""The flow that builds a corpus: from a recipe to a published corpus with its accounts."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from operator import methodcaller
from time import process_time
from typing import Annotated, Any

from prefect import flow
from prefect.futures import PrefectFuture
from pydantic import Field

from zyda_flows.flows.dashboard.artifact_keys import keys_like
from zyda_flows.flows.dashboard.live_artifact import live_page
from zyda_flows.flows.dashboard.progress_bars import pass_on_warnings, progress_bars
from zyda_flows.flows.dashboard.run_artifacts import as_failed, make_report, show_ledger
from zyda_flows.flows.dashboard.state import BuildState
from zyda_flows.flows.reporting.markdown import LOST, MOST_LOSSES
from zyda_flows.flows.server.cluster_trouble import watch_cluster
from zyda_flows.flows.server.exclusion import build_lock
from zyda_flows.flows.server.history import forget_runs, moment_of
from zyda_flows.flows.server.run_names import name_by_corpus
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.ledger_summary import large_losses
from zyda_flows.tasks.erasure.removal_certificate import unfinished_certificates
from zyda_flows.tasks.errors import ZydaError, all_but_poison
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.planning.spending import Spending, keep_spending
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.stage.jobs import forget_attempts
from zyda_flows.tasks.stage.prefect_cache import keep_results_in_corpus
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.stage.results import Runner, Work, flat_receipts, task_of
from zyda_flows.tasks.stage.runner import task_runner
from zyda_flows.tasks.storage.artifacts import Receipt
from zyda_flows.tasks.storage.forgetting import forget_results_of_nothing
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.workers.dask_cluster import cores

Sample = Annotated[float, Field(gt=0, le=1)]


@flow(name="build", flow_run_name=name_by_corpus("build"), task_runner=task_runner(), persist_result=False)
def build(
    recipe: str, storage: str | None = None, sample: Sample | None = None, replace: bool = False
) -> Ledger:
    """Build the corpus that a recipe describes. Results of earlier builds are reused.

    Args:
        recipe: The recipe's YAML file, as a path on the machine that runs the flow.
        storage: The folder of the corpus, instead of the recipe's `storage`: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a separate corpus.
        replace: Replace a corpus of this name that was built from other sources.
    """
    corpus_recipe = None
    try:
        corpus_recipe = load_recipe(recipe, storage=storage, sample=sample)
        ledger = build_and_show(corpus_recipe, replace=replace)
        return completed_state(ledger, *outcome(corpus_recipe, ledger))
    except ZydaError as error:
        return as_failed(error, recipe, corpus_recipe)


def outcome(recipe: Recipe, ledger: Ledger) -> list[str]:
    """Return the sentences of the state of a complete build: first large losses of sources, then the total."""
    counts = ledger.of(ledger.stages[-1])
    losses = [f"{LOST} {loss}." for loss in large_losses(ledger)[:MOST_LOSSES]]
    return [*losses, f"{counts.sentence().capitalize()} are published in {recipe.folder.url}/published."]


def build_and_show(recipe: Recipe, *, replace: bool) -> Ledger:
    """Build a corpus in the current flow run, and show its accounts and report in the dashboard.

    The report is made after the build has ended: the next build of the corpus does not wait for it.
    """
    ledger = build_alone(recipe, replace=replace)
    with watch_cluster():
        fault = make_report.submit(recipe).result(raise_on_failure=False)
    if isinstance(fault, BaseException):  # the corpus and its accounts are complete without a report
        warn(f"the report could not be made: {fault}; zyda report makes it")
    return ledger


def build_alone(recipe: Recipe, *, replace: bool) -> Ledger:
    """Build a corpus while no other flow run builds it, and show its progress and its accounts."""
    state = BuildState(recipe)
    with (
        ExitStack() as stack,
        live_page(recipe, state),
        build_lock(recipe, state.wait),
        watch_cluster(),
        progress_bars(state),
        pass_on_warnings(),
    ):
        recipe.folder.clear_scratch()
        forget_attempts(recipe.folder)
        stack.callback(recipe.folder.clear_scratch)  # workers that died leave scratch files
        forget_results_of_nothing(recipe.folder)
        keep_results_in_corpus(recipe)
        with keeping_spending(recipe, state):
            ledger = rebuilding_damaged(
                recipe.folder, lambda: run_pipeline(recipe, on_prefect(state), replace=replace)
            )
        forget_attempts(recipe.folder)
        show_ledger.submit(recipe, ledger).result()
        if begun := unfinished_certificates(recipe.folder):
            forget_runs(recipe, keys_like(recipe), max(moment_of(request.asked_at) for request in begun))
    return ledger


@contextmanager
def keeping_spending(recipe: Recipe, state: BuildState) -> Iterator[None]:
    """Store the costs of the block that builds the corpus, also if the block raises."""
    is_over = False
    try:
        yield
        is_over = True
    finally:
        run = Spending(
            recipe=digest_of(recipe.as_written),
            runs=1,
            seconds=state.clock() - state.started,
            threads=cores(),
            flow=process_time(),
            stages=state.spending(),
        )
        with suppress(ZydaError):  # an error of this write must not replace the error of the build
            keep_spending(recipe.folder, run, is_over=is_over)


def on_prefect(state: BuildState) -> Runner:
    """Return a runner that submits the stages as Prefect's tasks, and adds each task to the state of the build."""
    state.begin()

    def submit(work: Work, subject: Subject, *inputs: Any, **options: Any) -> PrefectFuture[Any]:
        future = task_of(work).submit(subject, *inputs, **options)
        state.wait_for(subject.name_of(work.name), future)
        return future

    return Runner(submit=submit, result=methodcaller("result"), finished=wait_for_receipts)


def wait_for_receipts(step: Sequence[PrefectFuture[Any]]) -> list[Receipt]:
    """Wait for all tasks of a stage and return its receipts; raise the exception of a failed task.

    The exception is raised after all tasks have ended, so that no task still runs when the stage is retried.
    """
    for future in step:
        future.wait()
    return flat_receipts(all_but_poison([future.result for future in step]))
