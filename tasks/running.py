"""Run a build: the stages of a recipe in sequence, by Prefect's tasks or in this process."""

from zyda_flows.tasks import pipeline
from zyda_flows.tasks.accounts.ledger import Ledger, make_ledger
from zyda_flows.tasks.dedup.reference.matches import load_references
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.planning.watching import record_last_build
from zyda_flows.tasks.publish.built_corpus import BuiltCorpus
from zyda_flows.tasks.publish.corpus import publish_corpus
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.groups import receipts_of
from zyda_flows.tasks.stage.results import BuildStep, Results, Runner
from zyda_flows.tasks.stage.stage import Stage


def run_stage(step: BuildStep, results: Results, runner: Runner) -> None:
    """Run a stage for all its sources or for the corpus, and add its results."""
    for call in results.calls(step):
        results.add(step, call, runner.submit(step.work, step.subject, *call.inputs))


def run_pipeline(recipe: Recipe, runner: Runner, *, replace: bool = False) -> Ledger:
    """Run every enabled stage that is not finished, and publish the corpus."""
    pipeline.check(recipe)
    recipe.deny_lists  # noqa: B018 (read once before the recipe is sent to workers, so that all use the same lists)
    submit, result = runner.submit, runner.result
    plans = result(submit(prepare, recipe, replace=replace))
    references = result(submit(load_references, recipe)) if recipe.is_against_others else {}
    results, about_corpus = Results(plans, references), dict[str, str]()
    for step in pipeline.steps(recipe):
        if not isinstance(step.work, Stage):  # a check, which would never run after a failed stage
            results.receipts(runner)
            result(submit(step.work, recipe, results.all_trails()))
            continue
        run_stage(step, results, runner)
        if step.work.published_as:
            about_corpus[step.subject.name_of(step.work.published_as)] = step.name

    receipts = results.receipts(runner)
    # Stages about the corpus have no source in their receipts, and no line in the ledger.
    ledger = make_ledger(stage_receipts for stage_receipts in receipts.values() if stage_receipts[0].source)
    corpus_receipts = {folder: receipts[name][0] for folder, name in about_corpus.items()}
    built = BuiltCorpus(
        recipe=recipe,
        ledger=ledger,
        plans=plans,
        references=references,
        corpus_receipts=corpus_receipts,
        publish_receipts=receipts["publish"],
        reasons=pipeline.reasons(recipe),
    )
    result(submit(publish_corpus, recipe, built))
    # Last, because `zyda watch`, `verify` and `clean` take this record as the mark of a finished build.
    result(submit(record_last_build, recipe, plans, references, receipts_of(receipts.values())))
    return ledger
