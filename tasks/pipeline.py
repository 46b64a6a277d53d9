"""The stages of a build in their order: PIPELINE, which is read to run, show and explain them.

Near-duplicates are searched in all sources together, once in each round. Before and after the rounds, each stage
reads the remaining documents of a source and decides which of them to remove; the stages of judges run once for
each judge. To add a stage, write its file and add its name here: its progress for each source, its line in the
ledger, its reasons in `removed/` and their explanation in `zyda explain` are derived from it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from zyda_flows.tasks.dedup.audit import audit
from zyda_flows.tasks.dedup.clusters import clusters, own_clusters
from zyda_flows.tasks.dedup.decisions import decisions
from zyda_flows.tasks.dedup.losses import check_losses
from zyda_flows.tasks.dedup.overlap import overlap
from zyda_flows.tasks.dedup.reference.against import against
from zyda_flows.tasks.dedup.reference.matches import matches
from zyda_flows.tasks.dedup.removals import removals
from zyda_flows.tasks.documents.contamination import contamination
from zyda_flows.tasks.documents.decontaminate import decontaminate
from zyda_flows.tasks.documents.deny import deny
from zyda_flows.tasks.documents.rules import rules
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.ingest.ingest import ingest
from zyda_flows.tasks.labels.agreement import agreement
from zyda_flows.tasks.labels.buckets import bucket, buckets, keep_bucket
from zyda_flows.tasks.labels.join import join
from zyda_flows.tasks.passages.cuts import cuts
from zyda_flows.tasks.passages.passages import passages
from zyda_flows.tasks.planning.prepare import prepare
from zyda_flows.tasks.publish.files import publish
from zyda_flows.tasks.quality.classify import classify
from zyda_flows.tasks.quality.control import control
from zyda_flows.tasks.quality.filter import filter_documents, keep_judged
from zyda_flows.tasks.quality.vectors import vectors
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judged import judged_at
from zyda_flows.tasks.recipe.judges import Place
from zyda_flows.tasks.recipe.rounds import Subject, rounds_of
from zyda_flows.tasks.semantic.against import confirm_against, content_against, pairs_against, propose_against
from zyda_flows.tasks.semantic.confirm import confirm
from zyda_flows.tasks.semantic.links import contradictions, links
from zyda_flows.tasks.semantic.propose import propose
from zyda_flows.tasks.signatures.edges import edges
from zyda_flows.tasks.signatures.index import index
from zyda_flows.tasks.signatures.minhash import minhash
from zyda_flows.tasks.stage.results import BuildStep, PrefectTask, Work
from zyda_flows.tasks.stage.stage import Stage


class EachRound(NamedTuple):
    """Stages that run in sequence in each round of deduplication."""

    stages: tuple[Stage, ...]


class EachJudge(NamedTuple):
    """Stages that run in sequence for each judge at a place."""

    at: Place
    stages: tuple[Stage, ...]


class PipelineCheck(NamedTuple):
    """A task that waits for all earlier stages, and raises if their receipts violate the recipe."""

    task: PrefectTask
    enabled: Callable[[Recipe], bool]


LOSSES = PipelineCheck(check_losses, enabled=lambda recipe: recipe.has_max_loss)

AGAINST = (propose_against, confirm_against, pairs_against, content_against)
SEMANTIC = (*AGAINST, propose, confirm, contradictions, links)
CLUSTERING = (matches, against, minhash, edges, *SEMANTIC, clusters, decisions, own_clusters)

PIPELINE: tuple[Stage | EachRound | EachJudge | PipelineCheck, ...] = (
    ingest,
    deny,
    rules,
    contamination,
    decontaminate,
    join,
    EachJudge("ingest", (classify, control, keep_judged)),
    EachRound(
        (*CLUSTERING, overlap, agreement, removals, audit),
    ),
    LOSSES,
    EachJudge("after_dedup", (classify, control, keep_judged)),
    filter_documents,
    buckets,
    bucket,
    keep_bucket,
    passages,
    cuts,
    EachRound((index,)),
    vectors,
    publish,
    LOSSES,
)
# Inputs that exist before the first stage.
INITIAL_INPUTS = {"plan", "trail", "trails", "sources", "references"}


def stages() -> list[Stage]:
    """Return the stages in their order.

    Raises TypeError if an entry is not a stage, has the name of another stage, or has an input that no earlier
    stage returns.
    """
    in_order = list[Stage]()
    for entry in PIPELINE:
        in_order += (
            entry.stages
            if isinstance(entry, EachRound)
            or (
                isinstance(entry, EachJudge) and entry.at == "after_dedup"
            )  # both places have the same stages
            else ()
            if isinstance(entry, PipelineCheck | EachJudge)
            else (entry,)
        )
    known = {*INITIAL_INPUTS, prepare.name}
    for stage in in_order:
        if not isinstance(stage, Stage):
            raise TypeError(f"{stage} is not a stage: it lacks @stage")
        if stage.name in known:
            raise TypeError(f"two stages are called {stage.name}")
        if missing := [name for name in stage.inputs if not known.intersection(name.split("|"))]:
            raise TypeError(f"stage {stage.name} takes {missing[0]}, which no stage before it gives")
        known.add(stage.name)
    return in_order


def check(recipe: Recipe) -> None:
    """Raise TypeError if a stage is invalid, BadRecipe if a source has the name of a stage's published folder."""
    folders = {stage.published_as for stage in stages() if stage.published_as}
    for source in recipe.sources:
        if source.name.rstrip("0123456789") in folders:  # a number is the number of a round
            raise BadRecipe(
                f"source {source.name}: a stage publishes its tables in a folder of that name; choose another"
            )


def names() -> tuple[str, ...]:
    """Return the names of the stages in their order."""
    return tuple(stage.name for stage in stages())


def steps(recipe: Recipe) -> Iterator[BuildStep]:
    """Yield the steps of a build after `prepare`, in order: the stages and checks that the recipe enables."""
    for work, subject in scheduled_work(recipe):
        if not isinstance(work, Stage):
            yield BuildStep(work, recipe)
        elif work.scope == "corpus":
            if work.enabled(subject, ""):
                yield BuildStep(work, subject)
        elif sources := tuple(source.name for source in recipe.sources if work.enabled(subject, source.name)):
            yield BuildStep(work, subject, sources)


def scheduled_work(recipe: Recipe) -> Iterator[tuple[Work, Subject]]:
    """Yield each stage with its subject, the recipe, a round or a judge, and each check that the recipe enables."""
    for entry in PIPELINE:
        if isinstance(entry, PipelineCheck):
            yield from [(entry.task, recipe)] if entry.enabled(recipe) else ()
        elif isinstance(entry, EachRound):
            yield from ((stage, dedup_round) for dedup_round in rounds_of(recipe) for stage in entry.stages)
        elif isinstance(entry, EachJudge):
            judges = judged_at(recipe, entry.at)
            yield from ((stage, judged) for judged in judges for stage in entry.stages)
        else:
            yield entry, recipe


def visible_steps(recipe: Recipe) -> list[BuildStep]:
    """Return the steps of a build that are shown to people: `prepare`, and the stages that the recipe enables."""
    return [BuildStep(prepare, recipe), *(step for step in steps(recipe) if isinstance(step.work, Stage))]


def reasons(recipe: Recipe) -> dict[str, dict[str, str]]:
    """Return the reasons of each stage, as in `removed/`, each with a sentence about a removed document."""
    reasons_by_step = {
        BuildStep(work, subject).name: work.reasons_of(subject)
        for work, subject in scheduled_work(recipe)
        if isinstance(work, Stage)
    }
    return {name: step_reasons for name, step_reasons in reasons_by_step.items() if step_reasons}
