"""Count clusters: their sizes by source, the clusters that sources share, and the largest clusters.

CLUSTERS may have more rows than memory holds, so it is read by row group. It is sorted by doc_id: all rows of a
source are neighbours, and a cluster begins with the row whose `cluster_id` equals its doc_id. This row is enough to
count a cluster of one source. Clusters of several sources are counted some MiB at a time (`MemoryLimits`): the
table is read once for each of these parts, and once more for the members of the largest clusters.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.forests import CLUSTERS
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.ids import Ids, sources_of

LARGEST = 8  # clusters in the report


class MemoryLimits(NamedTuple):
    """Limits of memory.

    counted_bytes: for clusters of several sources that are counted at once. clusters: in one step of arithmetic.
    small_sizes: sizes below it are counted in an array.
    """

    counted_bytes: int = 512 << 20  # some 40 million clusters of 8 sources
    clusters: int = 1 << 16
    small_sizes: int = 1 << 12


LIMITS = MemoryLimits()


class ClusterRows(NamedTuple):
    """Rows of CLUSTERS of the source with the number `source` in doc_ids; each column (n,)."""

    source: int
    doc_ids: Ids
    cluster_ids: Ids
    sizes: NDArray[np.uint32]
    source_counts: NDArray[np.uint16]


@dataclass
class ClusterSummary:
    """One of the largest clusters: its documents, in all and by source, and the ids of its first and last one."""

    cluster_id: int
    documents: int
    sources: dict[str, int] = field(default_factory=dict)
    last_id: int = 0


@dataclass
class ClusterStats:
    """The clusters of a round of deduplication.

    sizes: for each source, (sizes, number of clusters with so many documents of the source), (n,) int64 each.
    shared: (sources, sources), number of clusters with documents of both. largest: the LARGEST largest clusters,
    sorted by falling size.
    """

    clusters: int
    documents: int
    sizes: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]
    shared: NDArray[np.int64]
    largest: list[ClusterSummary]


def cluster_stats(
    corpus: PublishedCorpus, place: str, sources: Sequence[str], limits: MemoryLimits = LIMITS
) -> ClusterStats | None:
    """Count the clusters of a round; return None if it has no clusters.

    place: their published folder. sources: the names of the sources, in the order of `shared`. Raises Denied.
    """
    numbers = {name: number for number, name in corpus.source_names.items()}
    counting = ClusterCounter(corpus, place, [numbers[source] for source in sources], limits)
    counting.count()
    if not counting.clusters:
        return None
    count_members(counting, dict(zip(counting.numbers, sources, strict=True)))
    sizes = {
        source: histogram.counts()
        for source, histogram in zip(sources, counting.histograms, strict=True)
        if histogram.has_any
    }
    return ClusterStats(counting.clusters, counting.documents, sizes, counting.shared, counting.largest)


def rows_of(corpus: PublishedCorpus, place: str) -> Iterator[ClusterRows]:
    """Read CLUSTERS by row group, cut between sources. Raises Denied if the rows are not sorted."""
    last = -1
    for table in corpus.row_groups(place, CLUSTERS.names):
        columns = [column.to_numpy() for column in table.columns]
        if int(columns[0][0]) <= last:
            raise Denied(f"{corpus.root.url}: {place}/ is not sorted by doc_id; build the corpus again")
        last = int(columns[0][-1])
        sources = sources_of(columns[0])
        ends = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist(), len(sources)]
        for start, end in pairwise(ends):
            yield ClusterRows(int(sources[start]), *(column[start:end] for column in columns))


class SizeCounts:
    """The number of occurrences of each size."""

    def __init__(self, small_sizes: int) -> None:
        self.small, self.large = np.zeros(small_sizes, np.int64), Counter[int]()

    def add(self, sizes: NDArray[np.uint32]) -> None:
        """Count sizes, (c,). A size of 0 is not counted: it is of a cluster without documents of the source."""
        is_small = sizes < len(self.small)
        self.small += np.bincount(sizes[is_small], minlength=len(self.small))
        self.large.update(sizes[~is_small].tolist())
        self.small[0] = 0

    @property
    def has_any(self) -> bool:
        return bool(self.small.any() or self.large)

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sizes, ascending, and the number of occurrences of each: (n,) twice."""
        small, large = np.flatnonzero(self.small), sorted(self.large)
        occurrences = [self.small[small], np.array([self.large[size] for size in large], np.int64)]
        return np.concatenate([small, np.array(large, np.int64)]), np.concatenate(occurrences)


class ClusterCounter:
    """The counts of a table of clusters while it is read. numbers: of the sources in doc_ids."""

    def __init__(
        self, corpus: PublishedCorpus, place: str, numbers: Sequence[int], limits: MemoryLimits
    ) -> None:
        self.corpus, self.place, self.numbers, self.limits = corpus, place, numbers, limits
        self.column = {number: i for i, number in enumerate(numbers)}
        self.histograms = [SizeCounts(limits.small_sizes) for _ in numbers]
        self.shared = np.zeros((len(numbers), len(numbers)), np.int64)
        self.clusters = self.documents = 0
        self.largest = list[ClusterSummary]()

    def count(self) -> None:
        """Read the table once, and once more for each part of the clusters of several sources."""
        marks = -(-len(self.numbers) // 8)  # bytes with a bit for each source that has documents in a cluster
        share = np.empty(max(1, self.limits.counted_bytes // (8 + 4 + marks)), np.uint64)
        filled = 0
        for rows in rows_of(self.corpus, self.place):
            ids = self.count_first_rows(rows)
            while len(ids):
                taken = ids[: len(share) - filled]
                share[filled : filled + len(taken)] = taken
                filled, ids = filled + len(taken), ids[len(taken) :]
                if filled == len(share):
                    self.count_shared(share)
                    filled = 0
        if filled:
            self.count_shared(share[:filled])

    def count_first_rows(self, rows: ClusterRows) -> Ids:
        """Count the clusters that begin in some rows; return the ids of the clusters of several sources, (n,)."""
        is_first = rows.doc_ids == rows.cluster_ids
        ids, sizes, source_counts = (
            rows.cluster_ids[is_first],
            rows.sizes[is_first],
            rows.source_counts[is_first],
        )
        self.clusters += len(ids)
        self.documents += len(rows.doc_ids)
        self.keep_largest(ids, sizes)
        is_alone, column = source_counts == 1, self.column[rows.source]
        self.histograms[column].add(sizes[is_alone])
        self.shared[column, column] += np.count_nonzero(is_alone)
        return ids[~is_alone]

    def keep_largest(self, ids: Ids, sizes: NDArray[np.uint32]) -> None:
        """Keep the largest clusters; of clusters of the same size the first. ids, sizes: (c,)."""
        least = self.largest[-1].documents if len(self.largest) == LARGEST else 0
        places = np.flatnonzero(sizes > least)
        places = places[np.argsort(-sizes[places].astype(np.int64), kind="stable")][:LARGEST]
        largest = [ClusterSummary(int(ids[i]), int(sizes[i])) for i in places]
        self.largest = sorted([*self.largest, *largest], key=lambda cluster: -cluster.documents)[:LARGEST]

    def count_shared(self, ids: Ids) -> None:
        """Count the documents of each source in clusters of several sources.

        ids: of the clusters, ascending, (n,).
        """
        counts = np.zeros(len(ids), np.uint32)
        marks = np.zeros((len(ids), -(-len(self.numbers) // 8)), np.uint8)
        source = -1
        for rows in rows_of(self.corpus, self.place):
            if rows.source != source:
                self.end_source(source, counts, marks)
                source = rows.source
            is_here = (rows.source_counts > 1) & (rows.cluster_ids >= ids[0]) & (rows.cluster_ids <= ids[-1])
            # Sorted ids are found near the place of the id before: 10 times as fast with 13 million clusters.
            wanted = np.sort(rows.cluster_ids[is_here])
            np.add.at(counts, np.searchsorted(ids, wanted), np.uint32(1))
        self.end_source(source, counts, marks)
        at_once = self.limits.clusters
        for start in range(0, len(ids), at_once):
            has_source = np.unpackbits(marks[start : start + at_once], axis=1, count=len(self.numbers))
            # The product of two columns of 0 and 1 is the number of clusters with both sources. In 32 bits it is
            # exact to 2**24.
            has_source = has_source.astype(np.float32)
            self.shared += (has_source.T @ has_source).astype(np.int64)

    def end_source(self, source: int, counts: NDArray[np.uint32], marks: NDArray[np.uint8]) -> None:
        """Add the counts of a source to its histogram, and reset them for the next source."""
        if source < 0:
            return
        column, at_once = self.column[source], self.limits.clusters
        for start in range(0, len(counts), at_once):
            sizes = counts[start : start + at_once]
            self.histograms[column].add(sizes)
            # The first source is the highest bit, as `unpackbits` reads them.
            marks[start : start + at_once, column // 8] |= (sizes > 0) * np.uint8(128 >> column % 8)
        counts[:] = 0


def count_members(counting: ClusterCounter, names: dict[int, str]) -> None:
    """Count the documents of the largest clusters by source, and set their last ids. names: by number."""
    wanted = np.array([cluster.cluster_id for cluster in counting.largest], np.uint64)
    least = counting.largest[-1].documents
    for rows in rows_of(counting.corpus, counting.place):
        large_rows = np.flatnonzero(rows.sizes >= least)
        for place, cluster in zip(wanted, counting.largest, strict=True):
            members = large_rows[rows.cluster_ids[large_rows] == place]
            if len(members):
                name = names[rows.source]
                cluster.sources[name] = cluster.sources.get(name, 0) + len(members)
                cluster.last_id = int(rows.doc_ids[members[-1]])
