"""Verify: a document of a cluster is only removed if a kept document contains enough of its shingles.

The documents of a cluster are tested in the order of preference. A document is removed if a kept document (of a
better source in scope `across`, any preferred document in `global`) contains the share of its distinct shingles
that the recipe requires, or has the required Jaccard similarity. Otherwise it is kept, and others may be removed
for it. The result depends on this order only.

A cluster of up to `cluster_bytes` of text is decided as if all pairs were compared (`textkernels.set_similarity`:
310 MiB for 8 MiB of text, if half of its shingles are shared), a larger cluster by an index (`tasks.dedup.large`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.audited import IndexCounts
from zyda_flows.tasks.dedup.comparison import SIMILARITIES, Comparison, RankedMembers
from zyda_flows.tasks.dedup.large import LargeCluster
from zyda_flows.tasks.ids import Ids, hash_ids
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.dedup import Dedup, Verify
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.parts import TextFile
from zyda_flows.textkernels.set_similarity import MISSING, find_duplicates


@dataclass(frozen=True)
class TextComparison(Comparison):
    """Compare texts: a document is removed if a kept document contains enough of its shingles."""

    columns, evidence_schema = ("text",), SIMILARITIES

    dedup: MinHashRound
    verify: Verify

    @property
    def shingles(self) -> dict[str, Any]:
        return self.dedup.shingle_parameters

    @property
    def required(self) -> dict[str, Any]:
        """The required similarity, as arguments of `textkernels.set_similarity.find_duplicates`."""
        return {"share": self.verify.share, "is_jaccard": self.verify.measure == "jaccard"}

    def memory_bytes(self, counts: Counts, contested_documents: int) -> float:
        return counts.bytes * (contested_documents / max(1, counts.documents))

    def cut_settings(self, piece_counts: NDArray[np.uint32]) -> list[Any]:
        return [self.dedup.shingle, self.dedup.width] if (piece_counts > 1).any() else []

    def assign_pieces(self, documents: pa.Table, piece_counts: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the piece of each document in its cluster, by the smallest hash of its shingles.

        Two documents have the same smallest hash with a probability of their Jaccard similarity (MinHash), so
        similar documents are in the same piece.
        """
        pieces = np.zeros(len(piece_counts), np.uint32)
        cut = np.flatnonzero(piece_counts > 1)
        texts = documents.column("text").cast(pa.large_string())
        for batch in np.array_split(cut, max(1, len(cut) // 1000)) if len(cut) else ():
            hashes, ends = shingle_sets(texts.take(pa.array(batch)).combine_chunks(), self.dedup)
            smallest = np.minimum.reduceat(hash_ids(hashes), ends[:-1])
            pieces[batch] = hash_ids(smallest) % piece_counts[batch]
        return pieces

    def compare(
        self, members: RankedMembers, rows: pa.Table, texts: TextFile
    ) -> Iterator[tuple[pa.Table, IndexCounts]]:
        sizes = texts.sizes[members.table_rows]
        for first, last in batches(members.starts, np.concatenate([[0], np.cumsum(sizes)])):
            start, end = int(members.starts[first]), int(members.starts[last])
            batch = slice(start, end)
            ids, groups, is_removable = (
                members.doc_ids[batch],
                members.removal_groups[batch],
                members.is_removable[batch],
            )
            if last - first == 1 and sizes[batch].sum() > limits().cluster_bytes:
                sets = sets_of(texts, members.table_rows[batch], sizes[batch], self.dedup)
                cluster = LargeCluster(sets, groups, is_removable, **self.required)
                removed = self.with_similarities(ids, *cluster.find_duplicates(), cluster.sizes)
                yield (
                    removed,
                    IndexCounts(clusters=1, documents=len(ids), unsure=cluster.unsure, pairs=cluster.pairs),
                )
            else:
                hashes, ends = shingle_sets(texts.take(members.table_rows[batch]), self.dedup)
                clusters = members.starts[first : last + 1] - start
                duplicates = find_duplicates(hashes, ends, groups, is_removable, clusters, **self.required)
                yield self.with_similarities(ids, *duplicates, np.diff(ends)), IndexCounts()

    def with_similarities(
        self, doc_ids: Ids, holders: NDArray[np.int64], shared: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> pa.Table:
        """Return the removed documents with their similarities; all arrays are (n,)."""
        removed_rows = np.flatnonzero(holders != MISSING)
        kept, both, size = holders[removed_rows], shared[removed_rows], sizes[removed_rows]
        jaccard = both / (size + sizes[kept] - both)
        columns = [
            doc_ids[removed_rows],
            doc_ids[kept],
            jaccard.astype(np.float32),
            (both / size).astype(np.float32),
        ]
        return pa.table([pa.array(column) for column in columns], schema=self.schema)


def comparison_of(dedup: Dedup) -> Comparison:
    """Return the rule by which a round with keys compares the documents of a cluster."""
    if isinstance(dedup, MinHashRound) and dedup.verify:
        return TextComparison(dedup, dedup.verify)
    return Comparison(dedup)


def batches(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Group clusters of at most `cluster_bytes` of text, at least one; yield the first and the end of each group.

    starts: (c + 1,), the row of each cluster's first document, then n. ends: (n + 1,), the bytes of text before
    each row.
    """
    bytes_before = ends[starts]
    first = 0
    while first < len(starts) - 1:
        most = bytes_before[first] + limits().cluster_bytes
        last = max(first + 1, int(np.searchsorted(bytes_before, most, side="right")) - 1)
        yield first, last
        first = last


def sets_of(
    texts: TextFile, rows: NDArray[np.int64], sizes: NDArray[np.int64], dedup: MinHashRound
) -> Callable[[NDArray[np.int64]], Iterator[NDArray[np.uint64]]]:
    """Return a function that yields the shingles of texts, given their positions, some MiB of text at a time."""

    def sets(places: NDArray[np.int64]) -> Iterator[NDArray[np.uint64]]:
        before = np.concatenate([[0], np.cumsum(sizes[places])])
        for first, last in batches(np.arange(len(places) + 1), before):
            hashes, ends = shingle_sets(texts.take(rows[places[first:last]]), dedup)
            for start, end in pairwise(ends):
                yield hashes[start:end]

    return sets
