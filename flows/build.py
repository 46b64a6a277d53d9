"""The flow that a person starts: from a recipe to a published corpus with its accounts."""

from itertools import chain
from operator import methodcaller
from typing import Annotated, Any

from prefect import Task, flow
from pydantic import Field

from flows.dashboard.progress_bars import pass_on_warnings, progress_bars
from flows.dashboard.run_artifacts import finished_and_shown, show_ledger
from flows.server.cluster_trouble import on_a_cluster
from flows.server.exclusion import one_at_a_time
from tasks import pipeline
from tasks.accounts.ledger import Ledger, make_ledger
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
from tasks.stage.healing import healed
from tasks.stage.runner import task_runner
from tasks.stage.task import Runner, results_beside_manifests
from tasks.storage.artifacts import forget_results_of_nothing

Sample = Annotated[float, Field(gt=0, le=1)]


@flow(name="build", flow_run_name="build {recipe}", task_runner=task_runner(), persist_result=False)
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
    plan = load_recipe(recipe, storage=storage, sample=sample)
    with one_at_a_time(plan), on_a_cluster(), progress_bars(), pass_on_warnings():
        plan.folder.clear_scratch()
        forget_results_of_nothing(plan.folder)
        results_beside_manifests(plan)
        ledger = healed(plan.folder, lambda: made(plan, ON_PREFECT, replace=replace))
        show_ledger(plan, ledger)
    return ledger


ON_PREFECT = Runner(submit=Task.submit, result=methodcaller("result"), finished=finished_and_shown)


def made(plan: Recipe, stages: Runner, *, replace: bool = False) -> Ledger:
    """Do every stage of every source that has not been done, and publish the corpus."""
    pipeline.stages()  # raises where one cannot be run
    submit, result = stages.submit, stages.result
    sources = result(submit(prepare, plan, replace=replace))
    others = result(submit(other_corpora, plan)) if plan.is_against_others else {}

    steps = [[submit(ingest, plan, source) for source in sources]]
    trails = [[step] for step in steps[0]]

    def judge_with(stage: Any, *inputs: Any, by: Recipe = plan) -> None:
        """Have a stage look at what is left of each source."""
        steps.append([submit(stage, by, trail, *inputs) for trail in trails])
        trails[:] = [[*trail, step] for trail, step in zip(trails, steps[-1], strict=True)]

    for stage in pipeline.before_dedup(plan):
        judge_with(stage)

    about_all = dict[str, Any]()  # what is published about all sources, by its folder
    for of_round in plan.each_round():
        if named := [others[url] for url in of_round.dedup.against]:
            matching = submit(matches, of_round, [[*trail] for trail in trails], sources, named)
            steps.append([matching])
            judge_with(against, matching, named, by=of_round)

        sketching = [submit(minhash, of_round, trail) for trail in trails]
        edging = submit(edges, of_round, sketching)
        clustering = submit(clusters, of_round, edging)
        deciding = submit(decisions, of_round, [[*trail] for trail in trails], clustering, sources)
        steps += [sketching, [edging, clustering, deciding]]
        about_all[of_round.called("clusters")] = clustering

        judge_with(removals, deciding, by=of_round)
        if not of_round.dedup.exact:
            auditing = submit(audit, of_round, [[*trail] for trail in trails], AUDITED_PAIRS)
            steps.append([auditing])
            about_all[of_round.called("audit")] = auditing

    if any(plan.max_loss_of(source) is not None for source in plan.sources):
        for step in steps:
            stages.finished(plan, step)  # raises what made a stage fail, before somebody waits for it in vain
        result(submit(check_losses, plan, [[*trail] for trail in trails]))
    for stage in pipeline.AFTER_DEDUP:
        judge_with(stage)
    for of_round in plan.each_round() if plan.publish_bands else ():
        indexing = submit(index, of_round, [[*trail] for trail in trails], sources)
        steps.append([indexing])
        about_all[of_round.called("bands")] = indexing
    steps.append([submit(publish, plan, trail) for trail in trails])

    receipts = [stages.finished(plan, step) for step in steps]
    # Stages about all sources have no source in their receipts, and no line in the ledger.
    ledger = make_ledger(zip(*(of_stage for of_stage in receipts if of_stage[0].source), strict=True))
    files = (receipts[0], {place: result(step) for place, step in about_all.items()}, receipts[-1])
    result(submit(publish_corpus, plan, ledger, sources, others, *files, pipeline.reasons(plan)))
    # Last: whoever watches, verifies or cleans takes it for a build that came to its end.
    result(submit(note_built, plan, sources, others, [*chain(*receipts)]))
    return ledger
