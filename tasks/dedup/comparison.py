"""Comparison: the rule by which the documents of a cluster are compared, by their order or by their texts.

The documents of a contested cluster are tested in the order of preference. `Comparison` decides by this order
alone: all other documents are removed for the most preferred document. `tasks.dedup.verify` decides by their texts:
a document is removed if a kept document is similar enough.
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

ROW_BYTES = 64  # of a document that is decided by preference alone, about
SIMILARITIES = pa.schema([("jaccard", pa.float32()), ("containment", pa.float32())])
COMPARISONS = pa.schema([("doc_id", pa.uint64()), ("kept_doc_id", pa.uint64()), *SIMILARITIES])


@dataclass(frozen=True)
class InOrder:
    """The documents of clusters, cluster by cluster, the most preferred first.

    rows: (n,), their positions in the table that was read. groups: (n,), ascending in a cluster: a document is
    removed only for a document of a smaller group. is_removable: (n,), whether it may be removed. starts: (c + 1,),
    the position of each cluster's first document here, then n.
    """

    doc_ids: Ids
    rows: NDArray[np.int64]
    groups: NDArray[np.int64]
    is_removable: NDArray[np.bool_]
    starts: NDArray[np.int64]


def in_order(rows: pa.Table, order: Preference, dedup: Dedup) -> InOrder:
    places = order.order(rows, ["cluster_id", "piece"])
    doc_ids = rows.column("doc_id").to_numpy()[places]
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = False
    for name in ("cluster_id", "piece"):
        ordered_values = rows.column(name).to_numpy()[places]
        is_first[1:] |= ordered_values[1:] != ordered_values[:-1]
    groups = np.arange(len(places))
    if dedup.scope == "across":
        groups = (order.priority(doc_ids) >> np.uint64(SOURCE_SHIFT)).astype(np.int64)
    starts = np.append(np.flatnonzero(is_first), len(places))
    return InOrder(doc_ids, places, groups, ~order.is_protected(doc_ids), starts)


@dataclass(frozen=True)
class Comparison:
    """Compare the documents of a cluster by their order alone; subclasses override this rule.

    columns: of the documents, which the rule reads. evidence: the columns that are published for a pair.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    evidence: ClassVar[pa.Schema] = pa.schema([])

    dedup: Dedup

    @property
    def shingles(self) -> Any:
        """The parameters of the shingles that the rule reads, or None."""
        return None

    @property
    def rule(self) -> list[Any]:
        """All of the recipe by which documents are compared, except the order of preference."""
        return [self.dedup.model_dump(include={"verify", "scope"}), self.shingles]

    @property
    def is_by_ids(self) -> bool:
        """Whether documents' ids alone decide, without any of their columns."""
        return not self.columns and self.dedup.prefer == ("source",)

    def size(self, counts: Counts, contested: int) -> float:
        """Return the bytes that the contested documents take, about. counts: counts of all documents."""
        return contested * ROW_BYTES

    def cut(self, pieces: NDArray[np.uint32]) -> list[Any]:
        """Return the parameters by which clusters are cut. pieces: (c,), the number of pieces of each cluster."""
        return []

    def pieces(self, documents: pa.Table, pieces: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the piece of each document in its cluster. pieces: the number of the cluster's pieces, (n,)."""
        return np.zeros(len(pieces), np.uint32)

    def compare(self, members: InOrder, texts: TextFile) -> Iterator[tuple[pa.Table, ByIndex]]:
        """Compare the documents of clusters: yields COMPARISONS, and the counts of decisions by an index.

        All documents of a later group than the first of their cluster are removed for it, if they may be.
        """
        sizes = np.diff(members.starts)
        firsts = np.repeat(members.starts[:-1], sizes)
        rows = np.flatnonzero((members.groups > members.groups[firsts]) & members.is_removable)
        ids, nothing = members.doc_ids, pa.nulls(len(rows), pa.float32())
        columns = [pa.array(ids[rows]), pa.array(ids[firsts[rows]]), nothing, nothing]
        yield pa.table(columns, schema=COMPARISONS), ByIndex()
