"""Clusters, counted while they are read: their sizes by source, who shares them, and the largest.

CLUSTERS may have more rows than memory holds, so it is read by row group. It is sorted by doc_id: sources come
one after another, and a cluster begins with the row whose `cluster_id` is its own doc_id. That row tells all of a
cluster of one source. Those of several are counted some MiB at a time (`Limits`): the table is read once for each
such share, and once more for the members of the largest clusters.
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
from zyda_flows.tasks.ids import sources_of

LARGEST = 8  # clusters that are shown

Ids = NDArray[np.uint64]


class Limits(NamedTuple):
    """How much is in memory at once: of clusters of several sources, in bytes; in one step of arithmetic.

    small_sizes: the sizes below it are counted in an array.
    """

    counted_bytes: int = 512 << 20  # some 40 million clusters of 8 sources
    clusters: int = 1 << 16
    small_sizes: int = 1 << 12


LIMITS = Limits()


class Rows(NamedTuple):
    """Rows of CLUSTERS of one source, whose number in doc_ids is `source`; a column each, (n,)."""

    source: int
    doc_ids: Ids
    cluster_ids: Ids
    sizes: NDArray[np.uint32]
    of_sources: NDArray[np.uint16]


@dataclass
class LargeCluster:
    """One of the largest clusters: its documents, in all and by source, and the ids of its first and last."""

    cluster_id: int
    documents: int
    sources: dict[str, int] = field(default_factory=dict)
    last_id: int = 0


@dataclass
class ClusterStats:
    """What a round of deduplication put into clusters.

    sizes: for each source, (sizes, how many clusters have so many documents of it), (n,) int64 each. shared:
    (sources, sources), the clusters that hold documents of both. largest: LARGEST of them, the largest first.
    """

    clusters: int
    documents: int
    sizes: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]
    shared: NDArray[np.int64]
    largest: list[LargeCluster]


def cluster_stats(
    corpus: PublishedCorpus, place: str, sources: Sequence[str], limits: Limits = LIMITS
) -> ClusterStats | None:
    """Count the clusters of a round, or return None where it has none.

    place: their folder in the corpus. sources: their names, in the order of `shared`. Raises Denied.
    """
    numbers = {name: number for number, name in corpus.source_names.items()}
    counting = Counting(corpus, place, [numbers[source] for source in sources], limits)
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


def rows_of(corpus: PublishedCorpus, place: str) -> Iterator[Rows]:
    """Read CLUSTERS, some MiB at a time and cut where another source begins. Raises Denied."""
    last = -1
    for table in corpus.row_groups(place, CLUSTERS.names):
        columns = [column.to_numpy() for column in table.columns]
        if int(columns[0][0]) <= last:
            raise Denied(f"{corpus.root.url}: {place}/ is not sorted by doc_id; build the corpus again")
        last = int(columns[0][-1])
        sources = sources_of(columns[0])
        ends = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist(), len(sources)]
        for start, end in pairwise(ends):
            yield Rows(int(sources[start]), *(column[start:end] for column in columns))


class Histogram:
    """How often each size occurs."""

    def __init__(self, small_sizes: int) -> None:
        self.small, self.large = np.zeros(small_sizes, np.int64), Counter[int]()

    def add(self, sizes: NDArray[np.uint32]) -> None:
        """Count some sizes, (c,); those that are 0 are of clusters that have no such documents."""
        is_small = sizes < len(self.small)
        self.small += np.bincount(sizes[is_small], minlength=len(self.small))
        self.large.update(sizes[~is_small].tolist())
        self.small[0] = 0

    @property
    def has_any(self) -> bool:
        return bool(self.small.any() or self.large)

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sizes, ascending, and how often each occurs: (n,) twice."""
        small, large = np.flatnonzero(self.small), sorted(self.large)
        often = [self.small[small], np.array([self.large[size] for size in large], np.int64)]
        return np.concatenate([small, np.array(large, np.int64)]), np.concatenate(often)


class Counting:
    """The counts of a table of clusters while it is read. numbers: of the sources in doc_ids, in their order."""

    def __init__(self, corpus: PublishedCorpus, place: str, numbers: Sequence[int], limits: Limits) -> None:
        self.corpus, self.place, self.numbers, self.limits = corpus, place, numbers, limits
        self.column = {number: i for i, number in enumerate(numbers)}
        self.histograms = [Histogram(limits.small_sizes) for _ in numbers]
        self.shared = np.zeros((len(numbers), len(numbers)), np.int64)
        self.clusters = self.documents = 0
        self.largest = list[LargeCluster]()

    def count(self) -> None:
        """Read the table, once and then once for each share of the clusters of several sources."""
        marks = -(-len(self.numbers) // 8)  # bytes that say of which sources a cluster has documents
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

    def count_first_rows(self, rows: Rows) -> Ids:
        """Count the clusters that begin in some rows; return the ids of those of several sources, (n,)."""
        is_first = rows.doc_ids == rows.cluster_ids
        ids, sizes, of_sources = rows.cluster_ids[is_first], rows.sizes[is_first], rows.of_sources[is_first]
        self.clusters += len(ids)
        self.documents += len(rows.doc_ids)
        self.keep_largest(ids, sizes)
        is_alone, column = of_sources == 1, self.column[rows.source]
        self.histograms[column].add(sizes[is_alone])
        self.shared[column, column] += np.count_nonzero(is_alone)
        return ids[~is_alone]

    def keep_largest(self, ids: Ids, sizes: NDArray[np.uint32]) -> None:
        """Keep the largest clusters, of those with as many documents the first. ids, sizes: (c,)."""
        least = self.largest[-1].documents if len(self.largest) == LARGEST else 0
        places = np.flatnonzero(sizes > least)
        places = places[np.argsort(-sizes[places].astype(np.int64), kind="stable")][:LARGEST]
        largest = [LargeCluster(int(ids[i]), int(sizes[i])) for i in places]
        self.largest = sorted([*self.largest, *largest], key=lambda one: -one.documents)[:LARGEST]

    def count_shared(self, ids: Ids) -> None:
        """Count the documents of each source in some clusters of several sources. ids: theirs, ascending, (n,)."""
        counts = np.zeros(len(ids), np.uint32)
        marks = np.zeros((len(ids), -(-len(self.numbers) // 8)), np.uint8)
        source = -1
        for rows in rows_of(self.corpus, self.place):
            if rows.source != source:
                self.end_source(source, counts, marks)
                source = rows.source
            is_here = (rows.of_sources > 1) & (rows.cluster_ids >= ids[0]) & (rows.cluster_ids <= ids[-1])
            # In order, so that one search is where the one before was: of 13 million clusters 10 times as fast.
            wanted = np.sort(rows.cluster_ids[is_here])
            np.add.at(counts, np.searchsorted(ids, wanted), np.uint32(1))
        self.end_source(source, counts, marks)
        at_once = self.limits.clusters
        for start in range(0, len(ids), at_once):
            has_source = np.unpackbits(marks[start : start + at_once], axis=1, count=len(self.numbers))
            # Over clusters, the product of two columns of 0 and 1 counts the clusters that have both sources. In 32
            # bits it is exact to 2**24.
            has_source = has_source.astype(np.float32)
            self.shared += (has_source.T @ has_source).astype(np.int64)

    def end_source(self, source: int, counts: NDArray[np.uint32], marks: NDArray[np.uint8]) -> None:
        """Take over how many documents of a source each cluster has, and begin anew for the next source."""
        if source < 0:
            return
        column, at_once = self.column[source], self.limits.clusters
        for start in range(0, len(counts), at_once):
            of_source = counts[start : start + at_once]
            self.histograms[column].add(of_source)
            # As `unpackbits` reads them: the first source is the highest bit.
            marks[start : start + at_once, column // 8] |= (of_source > 0) * np.uint8(128 >> column % 8)
        counts[:] = 0


def count_members(counting: Counting, names: dict[int, str]) -> None:
    """Count the documents of the largest clusters by source, and find the last of each. names: by number."""
    wanted = np.array([cluster.cluster_id for cluster in counting.largest], np.uint64)
    least = counting.largest[-1].documents
    for rows in rows_of(counting.corpus, counting.place):
        of_large = np.flatnonzero(rows.sizes >= least)
        for place, cluster in zip(wanted, counting.largest, strict=True):
            members = of_large[rows.cluster_ids[of_large] == place]
            if len(members):
                name = names[rows.source]
                cluster.sources[name] = cluster.sources.get(name, 0) + len(members)
                cluster.last_id = int(rows.doc_ids[members[-1]])
