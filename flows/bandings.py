"""The flow that tries several bandings on a corpus, and returns the removals of each."""

from collections.abc import Sequence
from operator import methodcaller
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.futures import PrefectFuture
from pydantic import Field

from zyda_flows.flows.build import Sample, wait_for_receipts
from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.server.exclusion import build_lock
from zyda_flows.flows.server.run_names import name_by_corpus
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.dedup.reference.matches import load_references
from zyda_flows.tasks.planning.bandings import (
    STAGES,
    BandingResult,
    TriedBandings,
    keep_results,
    make_keys,
    read_banding_result,
    with_threshold,
)
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.rounds import Round, Subject, round_to_try
from zyda_flows.tasks.running import run_stage
from zyda_flows.tasks.stage.prefect_cache import keep_results_in_corpus
from zyda_flows.tasks.stage.results import BuildStep, Results, Runner, Work, task_of
from zyda_flows.tasks.stage.runner import task_runner
from zyda_flows.tasks.stage.stage import Stage
from zyda_flows.tasks.words import counted

Threshold = Annotated[float, Field(gt=0, lt=1)]


@flow(
    name="bandings", flow_run_name=name_by_corpus("bandings"), task_runner=task_runner(), persist_result=False
)
def try_bandings(
    recipe: str,
    thresholds: Annotated[list[Threshold], Field(min_length=1, max_length=20)],
    storage: str | None = None,
    sample: Sample | None = None,
) -> TriedBandings:
    """Deduplicate at several thresholds, each with suitable bands and rows, and return the removals.

    The published corpus does not change. A later build with the same bands and rows reuses the intermediate files.

    Args:
        recipe: The recipe's YAML file, as a path on the machine that runs the flow.
        thresholds: The smallest Jaccard similarity of a pair of duplicates, for each banding.
        storage: The folder of the corpus, instead of the recipe's `storage`: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a separate corpus.
    """
    corpus_recipe = load_recipe(recipe, storage=storage, sample=sample)
    round_to_try(corpus_recipe)
    with build_lock(corpus_recipe, lambda _: None):
        keep_results_in_corpus(corpus_recipe)
        bandings = run_bandings(corpus_recipe, thresholds, on_prefect())
    create_table_artifact(
        rows_of(bandings), artifact_key(corpus_recipe, "bandings"), "Removals by several bandings"
    )
    return completed_state(
        bandings, f"{counted(len(bandings.tried), 'banding')} of {corpus_recipe.corpus} were tried."
    )


def on_prefect() -> Runner:
    """Return a runner that submits stages as Prefect's tasks."""

    def submit(work: Work, subject: Subject, *inputs: Any, **options: Any) -> PrefectFuture[Any]:
        return task_of(work).submit(subject, *inputs, **options)

    return Runner(submit=submit, result=methodcaller("result"), finished=wait_for_receipts)


def run_bandings(recipe: Recipe, thresholds: Sequence[float], runner: Runner) -> TriedBandings:
    """Run the first round of near-duplicates for each threshold, after the stages before the round."""
    submit, result = runner.submit, runner.result
    recipes = {threshold: with_threshold(recipe, threshold) for threshold in sorted(set(thresholds))}
    plans = result(submit(prepare, recipe, replace=True))
    references = result(submit(load_references, recipe)) if recipe.is_against_others else {}
    number = round_to_try(recipe)
    bandings = list[BandingResult]()
    for threshold, variant in recipes.items():
        results = Results(plans, references)
        before, dedup_round = split_steps(variant, number)
        for step in before:
            run_stage(step, results, runner)
        if not bandings:
            results.receipts(runner)
            result(submit(make_keys, [*recipes.values()], results.all_trails()))
        for step in dedup_round:
            run_stage(step, results, runner)
        receipts = results.receipts(runner)
        name_of = Round(variant, number).name_of
        bandings.append(
            read_banding_result(
                variant, threshold, receipts[name_of("removals")], receipts[name_of("audit")][0]
            )
        )
    return keep_results(recipe.folder, bandings)


def split_steps(recipe: Recipe, number: int) -> tuple[list[BuildStep], list[BuildStep]]:
    """Return the stages before a round that remove documents, and the stages of the round that a trial needs."""
    before, dedup_round = list[BuildStep](), list[BuildStep]()
    for step in pipeline.steps(recipe):
        if not isinstance(step.work, Stage):
            continue
        if isinstance(step.subject, Round) and step.subject.number == number:
            if step.work.name in (*STAGES, "matches", "against"):
                dedup_round.append(step)
        elif not dedup_round and step.work.name not in ("own_clusters", "overlap", "audit"):
            before.append(step)
    return before, dedup_round


def rows_of(bandings: TriedBandings) -> list[dict[str, Any]]:
    """Return a row for each banding and source, and a row for all sources of each banding."""
    return [
        {"threshold": banding.threshold, "bands": banding.bands, "rows": banding.rows, "source": name,
         "documents": removed.documents, "of": entering.documents, "tokens": removed.tokens,
         "pairs": banding.pairs, "less alike": banding.below}
        for banding in bandings.tried
        for name, entering, removed in (
            *((source.source, source.entering, source.removed) for source in banding.sources),
            ("all", banding.entering, banding.removed),
        )
    ]  # fmt: skip
