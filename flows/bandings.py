"""The flow that tries several bandings on a corpus: what each would take."""

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
from zyda_flows.flows.server.run_states import completed
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.dedup.reference.matches import load_references
from zyda_flows.tasks.planning.bandings import (
    STAGES,
    Tried,
    TriedBandings,
    keep,
    make_keys,
    tried,
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
    """Try what deduplication takes at several thresholds, each with the bands and rows that suit it.

    Nothing that is published changes. What is made on the way is found by a build with the same bands and rows.

    Args:
        recipe: The recipe's YAML file, as the machine that runs the flow sees it.
        thresholds: Jaccard similarities from which on pairs are wanted.
        storage: Where the corpus is, instead of where the recipe says: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a corpus of its own.
    """
    corpus_recipe = load_recipe(recipe, storage=storage, sample=sample)
    round_to_try(corpus_recipe)
    with build_lock(corpus_recipe, lambda _: None):
        keep_results_in_corpus(corpus_recipe)
        found = run_bandings(corpus_recipe, thresholds, on_prefect())
    create_table_artifact(
        rows_of(found), artifact_key(corpus_recipe, "bandings"), "What several bandings take"
    )
    return completed(found, f"{counted(len(found.tried), 'banding')} of {corpus_recipe.corpus} were tried.")


def on_prefect() -> Runner:
    """Return what runs stages as Prefect's tasks."""

    def submit(work: Work, subject: Subject, *inputs: Any, **options: Any) -> PrefectFuture[Any]:
        return task_of(work).submit(subject, *inputs, **options)

    return Runner(submit=submit, result=methodcaller("result"), finished=wait_for_receipts)


def run_bandings(recipe: Recipe, thresholds: Sequence[float], runner: Runner) -> TriedBandings:
    """Run the stages of the first round of near-duplicates for each threshold, after those before it."""
    submit, result = runner.submit, runner.result
    recipes = {threshold: with_threshold(recipe, threshold) for threshold in sorted(set(thresholds))}
    plans = result(submit(prepare, recipe, replace=True))
    references = result(submit(load_references, recipe)) if recipe.is_against_others else {}
    number = round_to_try(recipe)
    found = list[Tried]()
    for threshold, variant in recipes.items():
        results = Results(plans, references)
        before, dedup_round = split_steps(variant, number)
        for step in before:
            run_stage(step, results, runner)
        if not found:
            results.receipts(runner)
            result(submit(make_keys, [*recipes.values()], results.all_trails()))
        for step in dedup_round:
            run_stage(step, results, runner)
        receipts = results.receipts(runner)
        name_of = Round(variant, number).name_of
        found.append(tried(variant, threshold, receipts[name_of("removals")], receipts[name_of("audit")][0]))
    return keep(recipe.folder, found)


def split_steps(recipe: Recipe, number: int) -> tuple[list[BuildStep], list[BuildStep]]:
    """Return the stages before a round that let documents go, and those of the round that are needed to try it."""
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


def rows_of(found: TriedBandings) -> list[dict[str, Any]]:
    """Return a row for each banding and source, and for all of them."""
    return [
        {"threshold": one.threshold, "bands": one.bands, "rows": one.rows, "source": source,
         "documents": removed.documents, "of": entering.documents, "tokens": removed.tokens,
         "pairs": one.pairs, "less alike": one.below}
        for one in found.tried
        for source, entering, removed in (
            *((of.source, of.entering, of.removed) for of in one.sources),
            ("all", one.entering, one.removed),
        )
    ]  # fmt: skip
