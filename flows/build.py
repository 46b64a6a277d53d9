"""The flow that a person starts: from a recipe to a published corpus with its accounts."""

from collections.abc import Sequence
from operator import methodcaller
from typing import Annotated, Any

from prefect import Task, flow
from prefect.futures import PrefectFuture
from prefect.logging import get_run_logger
from pydantic import Field

from flows.dashboard.live_artifact import live_page
from flows.dashboard.progress_bars import pass_on_warnings, progress_bars
from flows.dashboard.run_artifacts import as_failed, make_report, show_ledger
from flows.dashboard.state import BuildState
from flows.server.cluster_trouble import on_a_cluster
from flows.server.exclusion import one_at_a_time
from flows.server.run_names import by_corpus
from tasks import pipeline
from tasks.accounts.ledger import Ledger, make_ledger
from tasks.errors import ZydaError
from tasks.pipeline import (
    AUDITED_PAIRS,
    against,
    audit,
    check_losses,
    clusters,
    decisions,
    edges,
    index,
    ingest,
    matches,
    minhash,
    note_built,
    other_corpora,
    prepare,
    publish,
    publish_corpus,
    removals,
)
from tasks.recipe.fields import Recipe
from tasks.recipe.loading import load_recipe
from tasks.stage.groups import in_groups, receipts_of
from tasks.stage.healing import healed
from tasks.stage.remembered import results_beside_manifests
from tasks.stage.runner import task_runner
from tasks.stage.task import Runner, opened
from tasks.storage.artifacts import Receipt, forget_results_of_nothing

Sample = Annotated[float, Field(gt=0, le=1)]


@flow(name="build", flow_run_name=by_corpus("build"), task_runner=task_runner(), persist_result=False)
def build(
    recipe: str, storage: str | None = None, sample: Sample | None = None, replace: bool = False
) -> Ledger:
    """Build the corpus that a recipe describes. What was built before is not built again.

    Args:
        recipe: The recipe's YAML file, as the machine that runs the flow sees it.
        storage: Where the corpus goes, instead of where the recipe says: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a corpus of its own.
        replace: Build it also where a corpus of other sources is published under its name, which goes.
    """
    plan = None
    try:
        plan = load_recipe(recipe, storage=storage, sample=sample)
        return built(plan, replace=replace)
    except ZydaError as error:
        return as_failed(error, recipe, plan)


def built(plan: Recipe, *, replace: bool) -> Ledger:
    """Build a corpus in this flow run, and show it there."""
    state = BuildState(plan)
    with (
        live_page(plan, state),
        one_at_a_time(plan, state.wait),
        on_a_cluster(),
        progress_bars(state),
        pass_on_warnings(),
    ):
        plan.folder.clear_scratch()
        forget_results_of_nothing(plan.folder)
        results_beside_manifests(plan)
        ledger = healed(plan.folder, lambda: made(plan, on_prefect(state), replace=replace))
        show_ledger.submit(plan, ledger).result()
        fault = make_report.submit(plan).result(raise_on_failure=False)
        if isinstance(fault, BaseException):  # the corpus is there, and so are its accounts
            get_run_logger().warning("the report could not be made: %s", fault)
    return ledger


def on_prefect(state: BuildState) -> Runner:
    """Return what runs the stages as Prefect's tasks, and lets the page of the build know of each."""
    state.begin()

    def submit(stage: Task[..., Any], recipe: Recipe, *inputs: Any, **options: Any) -> PrefectFuture[Any]:
        future = stage.submit(recipe, *inputs, **options)
        state.wait_for(recipe.called(pipeline.name_of(stage)), future)
        return future

    return Runner(submit=submit, result=methodcaller("result"), finished=finished)


def finished(step: Sequence[PrefectFuture[Any]]) -> list[Receipt]:
    """Wait for a stage and return its receipts; raise what one of its tasks raised.

    Raises only when all of the stage's tasks have ended, so that nothing of it runs beside a second try.
    """
    for future in step:
        future.wait()
    return opened([future.result() for future in step])


def made(plan: Recipe, stages: Runner, *, replace: bool = False) -> Ledger:
    """Do every stage of every source that has not been done, and publish the corpus."""
    pipeline.stages()  # raises where one cannot be run
    submit, result = stages.submit, stages.result
    sources = result(submit(prepare, plan, replace=replace))
    others = result(submit(other_corpora, plan)) if plan.is_against_others else {}

    groups = in_groups(sources)
    steps = [[submit(ingest, plan, group) for group in groups]]
    trails = [[step] for step in steps[0]]

    def look_with(stage: Any, *inputs: Any, by: Recipe = plan) -> list[Any]:
        """Have a stage look at what is left of each source of which the recipe asks for that."""
        looks = [
            (trail, submit(stage, by, [*trail], *inputs))
            for group, trail in zip(groups, trails, strict=True)
            if any(stage.fn.asked(by, source.source) for source in group)
        ]
        steps.append([look for _, look in looks])
        return looks

    def judge_with(stage: Any, *inputs: Any, by: Recipe = plan) -> None:
        """Have a stage say which documents go; those after it see what is left then."""
        for trail, judging in look_with(stage, *inputs, by=by):
            trail.append(judging)

    def of_all(stage: Any, by: Recipe, *inputs: Any) -> Any:
        """Have a stage look at all sources together."""
        steps.append([submit(stage, by, *inputs)])
        return steps[-1][0]

    def so_far() -> list[list[Any]]:
        return [[*trail] for trail in trails]

    for stage in pipeline.BEFORE_DEDUP:
        judge_with(stage)

    about_all = dict[str, Any]()  # what is published about all sources, by its folder
    for of_round in plan.each_round():
        if asked := [others[url] for url in of_round.dedup.against]:
            matching = of_all(matches, of_round, so_far(), sources, asked)
            judge_with(against, matching, asked, by=of_round)

        sketching = [sketch for _, sketch in look_with(minhash, by=of_round)]
        edging = of_all(edges, of_round, sketching)
        clustering = of_all(clusters, of_round, edging)
        deciding = of_all(decisions, of_round, so_far(), clustering, sources)
        about_all[of_round.called("clusters")] = clustering

        judge_with(removals, deciding, by=of_round)
        if not of_round.dedup.exact:
            about_all[of_round.called("audit")] = of_all(audit, of_round, so_far(), AUDITED_PAIRS)

    if plan.has_max_loss:
        for step in steps:
            stages.finished(step)  # raises what made a stage fail, before somebody waits for it in vain
        result(submit(check_losses, plan, so_far()))
    for stage in pipeline.AFTER_DEDUP:
        judge_with(stage)
    for of_round in plan.each_round() if plan.publish_bands else ():
        about_all[of_round.called("bands")] = of_all(index, of_round, so_far(), sources)
    look_with(publish)

    receipts = [stages.finished(step) for step in steps if step]
    if plan.has_max_loss:
        result(submit(check_losses, plan, so_far()))
    # Stages about all sources have no source in their receipts, and no line in the ledger.
    ledger = make_ledger(of_stage for of_stage in receipts if of_stage[0].source)
    files = (receipts[0], {place: result(step) for place, step in about_all.items()}, receipts[-1])
    result(submit(publish_corpus, plan, ledger, sources, others, *files, pipeline.reasons(plan)))
    # Last: whoever watches, verifies or cleans takes it for a build that came to its end.
    result(submit(note_built, plan, sources, others, receipts_of(receipts)))
    return ledger
