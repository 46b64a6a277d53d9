"""Comparison: how the documents of a cluster are compared, by their order or by their texts.

In each contested cluster the documents are looked at in the order of preference. How they are compared is the
matter of a `Comparison`. By that order alone, which is here, all go for the most preferred one of their cluster; by
their texts, which is in `tasks.dedup.verify`, those go that are like enough to one that stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.audited import ByIndex
from zyda_flows.tasks.dedup.preference import Preference
from zyda_flows.tasks.ids import SOURCE_SHIFT, Ids
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.storage.artifacts import Counts
from zyda_flows.tasks.storage.parts import TextFile

ROW_BYTES = 64  # of a document that is decided about by preference alone, about
SIMILARITIES = pa.schema([("jaccard", pa.float32()), ("containment", pa.float32())])
COMPARISONS = pa.schema([("doc_id", pa.uint64()), ("kept_doc_id", pa.uint64()), *SIMILARITIES])


@dataclass(frozen=True)
class InOrder:
    """The documents of clusters, cluster by cluster, the most preferred first.

    rows: (n,), their places among those that were read. groups: (n,), ascending in a cluster: a document goes
    only for one of a smaller group. may_go: (n,). starts: (c + 1,), the place of each cluster's first document
    here, then n.
    """

    doc_ids: Ids
    rows: NDArray[np.int64]
    groups: NDArray[np.int64]
    may_go: NDArray[np.bool_]
    starts: NDArray[np.int64]


def in_order(rows: pa.Table, order: Preference, dedup: Dedup) -> InOrder:
    places = order.order(rows, ["cluster_id", "piece"])
    doc_ids = rows.column("doc_id").to_numpy()[places]
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = False
    for name in ("cluster_id", "piece"):
        of_places = rows.column(name).to_numpy()[places]
        is_first[1:] |= of_places[1:] != of_places[:-1]
    groups = np.arange(len(places))
    if dedup.scope == "across":
        groups = (order.priority(doc_ids) >> np.uint64(SOURCE_SHIFT)).astype(np.int64)
    starts = np.append(np.flatnonzero(is_first), len(places))
    return InOrder(doc_ids, places, groups, ~order.is_protected(doc_ids), starts)


@dataclass(frozen=True)
class Comparison:
    """How the documents of a cluster are compared: by their order alone, where a class of it says nothing else.

    columns: those of the documents that have to be read for it, texts. evidence: what is said of a pair.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    evidence: ClassVar[pa.Schema] = pa.schema([])

    dedup: Dedup

    @property
    def shingles(self) -> Any:
        """What the shingles depend on that it looks at, if it does."""
        return None

    @property
    def rule(self) -> list[Any]:
        """All of the recipe by which documents are compared, but the order of preference."""
        return [self.dedup.model_dump(include={"verify", "scope"}), self.shingles]

    @property
    def is_by_ids(self) -> bool:
        """Whether documents' ids alone decide, and nothing that stands in them."""
        return not self.columns and self.dedup.prefer == ("source",)

    def size(self, of_all: Counts, contested: int) -> float:
        """Return how many bytes those of some documents take that are contested, about."""
        return contested * ROW_BYTES

    def cut(self, pieces: NDArray[np.uint32]) -> list[Any]:
        """Return by what clusters are cut: nothing, where none has to be. pieces: (c,), of each cluster."""
        return []

    def pieces(self, documents: pa.Table, pieces: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return in which piece of its cluster each document is. pieces: how many that has, (n,)."""
        return np.zeros(len(pieces), np.uint32)

    def compare(self, members: InOrder, texts: TextFile) -> Iterator[tuple[pa.Table, ByIndex]]:
        """Compare in some clusters: yields COMPARISONS, and what of it was decided by an index.

        All go for the first of their cluster that are of a later group than it, if they may.
        """
        sizes = np.diff(members.starts)
        firsts = np.repeat(members.starts[:-1], sizes)
        gone = np.flatnonzero((members.groups > members.groups[firsts]) & members.may_go)
        nothing = pa.nulls(len(gone), pa.float32())
        columns = [pa.array(members.doc_ids[gone]), pa.array(members.doc_ids[firsts[gone]]), nothing, nothing]
        yield pa.table(columns, schema=COMPARISONS), ByIndex()
