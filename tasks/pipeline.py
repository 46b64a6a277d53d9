"""The stages that documents pass, in their order: `flows.build.made` wires them, and all else reads `stages`.

Near-duplicates are found over all sources together; before and after that, each stage looks at what is left of
one source and says which documents go: a function `(recipe, trail) -> Receipt`, where the trail is the
receipts of the stages before it (see `tasks.stage.verdicts`). A new one is a file of its own and a line here.
Its line in the ledger, its reasons in `removed/` and what `zyda explain` says of them come by themselves.
"""

from typing import Any

from tasks.dedup.audit import PAIRS as AUDITED_PAIRS
from tasks.dedup.audit import audit
from tasks.dedup.clusters import clusters
from tasks.dedup.decisions import decisions
from tasks.dedup.losses import check_losses
from tasks.dedup.removals import OF_EXACT, REASONS, removals
from tasks.intake.ingest import ingest
from tasks.intake.prepare import prepare
from tasks.intake.watching import note_built
from tasks.publish.corpus import publish_corpus
from tasks.publish.files import publish
from tasks.quality.classify import classify
from tasks.quality.filter import filter_documents
from tasks.recipe.fields import Recipe
from tasks.signatures.edges import edges
from tasks.signatures.minhash import minhash

__all__ = [
    "AFTER_DEDUP", "AUDITED_PAIRS", "BEFORE_DEDUP", "audit", "check_losses", "clusters", "decisions", "edges",
    "ingest", "minhash", "note_built", "prepare", "publish", "publish_corpus", "reasons", "removals", "stages",
]  # fmt: skip

NAMES_OF_ARTIFACTS = ("corpus", "funnel", "published", "report")  # in the dashboard, beside those of stages
BEFORE_DEDUP: tuple[Any, ...] = ()
AFTER_DEDUP: tuple[Any, ...] = (classify, filter_documents)


def stages() -> tuple[Any, ...]:
    """Return all the stages of a build in their order. Raises TypeError where one is none, or two have one name."""
    in_order = (
        prepare, ingest, *BEFORE_DEDUP, minhash, edges, clusters, decisions, removals, audit, *AFTER_DEDUP, publish,
    )  # fmt: skip
    for stage in (*BEFORE_DEDUP, *AFTER_DEDUP):
        if not hasattr(getattr(stage, "fn", None), "reasons"):
            raise TypeError(f"{stage} is no stage: it lacks @task or @leaves_manifest")
    names = [name_of(stage) for stage in in_order]
    for name in names:
        if names.count(name) > 1 or name in NAMES_OF_ARTIFACTS:
            raise TypeError(f"a stage is called {name}, as another, or as something else that a build shows")
    return in_order


def name_of(stage: Any) -> str:
    return str(stage.fn.__name__)


def names() -> tuple[str, ...]:
    """Return the names of all stages that leave a manifest, in their order, with one round of deduplication."""
    return tuple(name_of(stage) for stage in stages() if hasattr(stage.fn, "of_all"))


def accounted() -> tuple[str, ...]:
    """Return the names of those that have a line for each source in the ledger."""
    return tuple(name_of(stage) for stage in stages() if not getattr(stage.fn, "of_all", True))


def reasons(recipe: Recipe) -> dict[str, dict[str, str]]:
    """Return why documents go: of each stage, for each reason that stands in `removed/`, a sentence about one."""
    found = {name_of(stage): stage.fn.reasons for stage in BEFORE_DEDUP}
    for of_round in recipe.each_round():
        reason = OF_EXACT[of_round.dedup.exact]
        found[of_round.called("removals")] = {reason: REASONS[reason]}
    found |= {name_of(stage): stage.fn.reasons for stage in AFTER_DEDUP}
    return {name: its_reasons for name, its_reasons in found.items() if its_reasons}
