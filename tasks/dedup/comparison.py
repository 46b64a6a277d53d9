"""Comparison: the rule by which documents of a cluster are removed, by their order or by their texts.

The documents of a contested cluster are tested in the order of preference. `Comparison` compares no texts: all
other documents are removed for the most preferred document. `TextComparison` in `tasks.dedup.verify` compares the
texts: a document is removed if a kept document is similar enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.audited import IndexCounts
from zyda_flows.tasks.dedup.preference import Preference
from zyda_flows.tasks.ids import SOURCE_SHIFT, Ids
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import TextFile

ROW_BYTES = 64  # estimated bytes of memory for a contested document that is decided by preference alone
SIMILARITIES = pa.schema([("jaccard", pa.float32()), ("containment", pa.float32())])


@dataclass(frozen=True)
class RankedMembers:
    """The documents of clusters, sorted by cluster, piece of the cluster, and preference: the most preferred first.

    doc_ids: (n,). table_rows: (n,), the row of each document in the table that was read. removal_groups: (n,),
    ascending in a piece; a document is removed only for a document of a smaller group. A group is a source in scope
    `across`, otherwise a single document. is_removable: (n,), whether the document may be removed: it is not
    protected. starts: (c + 1,), the index of the first document of each piece, then n.
    """

    doc_ids: Ids
    table_rows: NDArray[np.int64]
    removal_groups: NDArray[np.int64]
    is_removable: NDArray[np.bool_]
    starts: NDArray[np.int64]


def rank_members(table: pa.Table, preference: Preference, dedup: Dedup) -> RankedMembers:
    """Sort documents by cluster, piece and preference.

    table: `doc_id`, `cluster_id`, `piece`, and the columns of `Preference.values`.
    """
    row_order = preference.order(table, ["cluster_id", "piece"])
    doc_ids = table.column("doc_id").to_numpy()[row_order]
    is_first = np.ones(len(row_order), np.bool_)
    is_first[1:] = False
    for name in ("cluster_id", "piece"):
        ordered_values = table.column(name).to_numpy()[row_order]
        is_first[1:] |= ordered_values[1:] != ordered_values[:-1]
    removal_groups = np.arange(len(row_order))
    if dedup.scope == "across":
        removal_groups = (preference.priority(doc_ids) >> np.uint64(SOURCE_SHIFT)).astype(np.int64)
    starts = np.append(np.flatnonzero(is_first), len(row_order))
    return RankedMembers(doc_ids, row_order, removal_groups, ~preference.is_protected(doc_ids), starts)


@dataclass(frozen=True)
class Comparison:
    """Remove documents of a cluster by their order alone, without a look at their texts; subclasses compare texts.

    columns: columns of the documents that the comparison reads. evidence_schema: columns of similarities that are
    published for a removed document.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    evidence_schema: ClassVar[pa.Schema] = pa.schema([])

    dedup: Dedup

    @property
    def schema(self) -> pa.Schema:
        """The schema of the removed documents."""
        return pa.schema([("doc_id", pa.uint64()), ("kept_doc_id", pa.uint64()), *self.evidence_schema])

    @property
    def shingles(self) -> Any:
        """The shingle settings of the recipe, or None if the comparison needs no shingles."""
        return None

    @property
    def key_settings(self) -> list[Any]:
        """The settings of the recipe that change the result, for keys; the order of preference is not included."""
        return [self.dedup.model_dump(include={"verify", "scope"}), self.shingles]

    @property
    def rows_key(self) -> Any:
        """A JSON value of all that changes the rows of contested documents, beside the order and the pieces."""
        return bool(self.columns)

    def added_columns(self, folder: Folder, doc_ids: Ids) -> dict[str, pa.Array]:
        """Return columns of documents that are not in their shard. doc_ids: (n,), ascending."""
        return {}

    @property
    def needs_only_ids(self) -> bool:
        """Whether ids alone decide: no column is read, and only the order of sources is preferred."""
        return not self.columns and self.dedup.prefer == ("source",)

    def memory_bytes(self, counts: Counts, contested_documents: int) -> float:
        """Estimate the bytes of memory that the contested documents need. counts: counts of all documents."""
        return contested_documents * ROW_BYTES

    def cut_settings(self, piece_counts: NDArray[np.uint32]) -> list[Any]:
        """Return the settings by which large clusters are cut into pieces, for keys; empty here: none is cut.

        piece_counts: (n,), the number of pieces of each document's cluster.
        """
        return []

    def assign_pieces(self, documents: pa.Table, piece_counts: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the piece of its cluster to which each document belongs: (n,), all 0 here: no cluster is cut.

        piece_counts: (n,), the number of pieces of each document's cluster.
        """
        return np.zeros(len(piece_counts), np.uint32)

    def compare(
        self, members: RankedMembers, rows: pa.Table, texts: TextFile
    ) -> Iterator[tuple[pa.Table, IndexCounts]]:
        """Yield tables of removed documents, `schema`, each with the counts of decisions by an index.

        Here the first document of a cluster is kept. Each other document is removed for it if it is removable and
        in a later group. rows: the table of the members, without texts.
        """
        sizes = np.diff(members.starts)
        firsts = np.repeat(members.starts[:-1], sizes)
        is_later = members.removal_groups > members.removal_groups[firsts]
        removed = np.flatnonzero(is_later & members.is_removable)
        columns = [pa.array(members.doc_ids[removed]), pa.array(members.doc_ids[firsts[removed]])]
        yield pa.table(columns, schema=self.schema), IndexCounts()
