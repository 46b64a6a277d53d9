"""The stages that documents pass, in their order: `flows.build.made` wires them, and all else reads `stages`.

Near-duplicates are found over all sources together; before and after that, each stage looks at what is left of
one source and says which documents go: a function `(recipe, trail) -> Receipt`, where the trail is the
receipts of the stages before it (see `tasks.stage.verdicts`). A new one is a file of its own and a line here.
Its line in the ledger, its reasons in `removed/` and what `zyda explain` says of them come by themselves.
"""

from typing import Any, NamedTuple

from tasks.dedup.audit import PAIRS as AUDITED_PAIRS
from tasks.dedup.audit import audit
from tasks.dedup.clusters import clusters
from tasks.dedup.decisions import decisions
from tasks.dedup.losses import check_losses
from tasks.dedup.removals import OF_EXACT, REASONS, removals
from tasks.documents.rules import rules
from tasks.intake.ingest import ingest
from tasks.intake.prepare import prepare
from tasks.intake.watching import note_built
from tasks.others.against import OF_EXACT as OF_OTHERS
from tasks.others.against import REASONS as REASONS_OF_OTHERS
from tasks.others.against import against
from tasks.others.matches import matches, other_corpora
from tasks.publish.corpus import publish_corpus
from tasks.publish.files import publish
from tasks.quality.classify import classify
from tasks.quality.filter import filter_documents
from tasks.recipe.fields import Recipe
from tasks.signatures.edges import edges
from tasks.signatures.index import index
from tasks.signatures.minhash import minhash

__all__ = [
    "AFTER_DEDUP", "AUDITED_PAIRS", "BEFORE_DEDUP", "against", "audit", "check_losses", "clusters", "decisions",
    "edges", "index", "ingest", "matches", "minhash", "note_built", "other_corpora", "prepare", "publish",
    "publish_corpus", "reasons", "removals", "stages",
]  # fmt: skip

BEFORE_DEDUP: tuple[Any, ...] = (rules,)
AFTER_DEDUP: tuple[Any, ...] = (classify, filter_documents)
ON_REQUEST = (
    "rules",
    "matches",
    "against",
)  # of a recipe with steps on documents; of a round that names corpora


def stages() -> tuple[Any, ...]:
    """Return all the stages of a build in their order. Raises TypeError where one is none, or two have one name."""
    in_order = (
        prepare, ingest, *BEFORE_DEDUP, matches, against, minhash, edges, clusters, decisions, removals, audit,
        *AFTER_DEDUP, index, publish,
    )  # fmt: skip
    for stage in (*BEFORE_DEDUP, *AFTER_DEDUP):
        if not hasattr(getattr(stage, "fn", None), "reasons"):
            raise TypeError(f"{stage} is no stage: it lacks @task or @leaves_manifest")
    names = [name_of(stage) for stage in in_order]
    for name in names:
        if names.count(name) > 1:
            raise TypeError(f"two stages are called {name}")
    return in_order


def name_of(stage: Any) -> str:
    return str(stage.fn.__name__)


def names() -> tuple[str, ...]:
    """Return the names of the stages in order, but for those without a manifest or that few recipes ask for."""
    named = (name_of(stage) for stage in stages() if hasattr(stage.fn, "of_all"))
    return tuple(name for name in named if name not in ON_REQUEST)


class Step(NamedTuple):
    """A stage of a build, and the sources that it looks at one by one: none where it is about all together."""

    name: str
    sources: tuple[str, ...]


def of_build(recipe: Recipe) -> list[Step]:
    """Return what a build of a recipe does, in that order: the stages that the recipe asks for."""
    each_round = list(recipe.each_round())
    stages_in_rounds = [(prepare, recipe), *((stage, recipe) for stage in (ingest, *BEFORE_DEDUP))]
    for of_round in each_round:
        first = [matches, against] if of_round.dedup.against else []
        last = [] if of_round.dedup.exact else [audit]
        of_this = (*first, minhash, edges, clusters, decisions, removals, *last)
        stages_in_rounds += [(stage, of_round) for stage in of_this]
    stages_in_rounds += [(stage, recipe) for stage in AFTER_DEDUP]
    stages_in_rounds += [(index, of_round) for of_round in each_round if recipe.publish_bands]
    steps = [step_of(stage, of_round) for stage, of_round in (*stages_in_rounds, (publish, recipe))]
    return [step for step in steps if step]


def step_of(stage: Any, recipe: Recipe) -> Step | None:
    """Return a stage as a recipe has it, or None where it asks for it of no source."""
    name = recipe.called(name_of(stage))
    if getattr(stage.fn, "of_all", True):
        return Step(name, ())
    asked = tuple(source.name for source in recipe.sources if stage.fn.asked(recipe, source.name))
    return Step(name, asked) if asked else None


def reasons(recipe: Recipe) -> dict[str, dict[str, str]]:
    """Return why documents go: of each stage, for each reason that stands in `removed/`, a sentence about one."""
    found = {name_of(stage): stage.fn.reasons(recipe) for stage in BEFORE_DEDUP}
    for of_round in recipe.each_round():
        if of_round.dedup.against:
            reason = OF_OTHERS[of_round.dedup.exact]
            found[of_round.called("against")] = {reason: REASONS_OF_OTHERS[reason]}
        reason = OF_EXACT[of_round.dedup.exact]
        found[of_round.called("removals")] = {reason: REASONS[reason]}
    found |= {name_of(stage): stage.fn.reasons(recipe) for stage in AFTER_DEDUP}
    return {name: its_reasons for name, its_reasons in found.items() if its_reasons}
