"""The stages that documents pass, in their order.

Near-duplicates are found over all sources together; before and after that, each stage looks at what is left of
one source and says which documents go: a function `(recipe, trail) -> Receipt`, where the trail is the
receipts of the stages before it (see `tasks.stage.verdicts`). A new one is a file of its own and a line here.
Its line in the ledger, its reasons in `removed/` and what `zyda explain` says of them come by themselves.
"""

from typing import Any

from tasks.dedup.clusters import clusters
from tasks.dedup.decisions import decisions
from tasks.dedup.edges import edges
from tasks.dedup.minhash import minhash
from tasks.dedup.removals import removals
from tasks.intake.ingest import ingest
from tasks.intake.prepare import prepare
from tasks.intake.watching import note_built
from tasks.publish.corpus import publish_corpus
from tasks.publish.files import publish
from tasks.quality.classify import classify
from tasks.quality.filter import filter_documents

__all__ = [
    "AFTER_DEDUP", "BEFORE_DEDUP", "clusters", "decisions", "edges", "ingest", "minhash", "note_built", "prepare",
    "publish", "publish_corpus", "reasons", "removals",
]  # fmt: skip

BEFORE_DEDUP: tuple[Any, ...] = ()
AFTER_DEDUP: tuple[Any, ...] = (classify, filter_documents)


def reasons() -> dict[str, str]:
    """Return why documents go: for each reason that stands in `removed/`, a sentence about a document."""
    stages = (*BEFORE_DEDUP, removals, *AFTER_DEDUP)
    return {reason: why for stage in stages for reason, why in stage.fn.reasons.items()}
