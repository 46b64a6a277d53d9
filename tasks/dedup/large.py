"""Decide about a cluster whose shingles exceed memory, document by document, with an index of its shingles.

Each comparison is exact, so no document is removed without a valid reason. Within the bounds of `tasks.limits` the
index (`textkernels.prefix_index`) is complete, and the result equals that of comparing all pairs. Beyond the bounds
the documents that share most are compared, and `pairs` counts the pairs that were not compared although they may be
similar enough.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.limits import limits
from zyda_flows.textkernels.prefix_index import Bounds, RareIndex
from zyda_flows.textkernels.set_similarity import MISSING, can_share, shingles_needed
from zyda_flows.textkernels.sets import in_common, table_of
from zyda_flows.textkernels.shingle_lists import COUNTER_BITS, count_shingles

FIRST_MEMBERS = 4
SETS_BYTES = 256 << 20  # of cached sets of shingles of kept documents

Sets = Callable[[NDArray[np.int64]], Iterator[NDArray[np.uint64]]]


def bounds() -> Bounds:
    """Return the bounds of the index of a cluster."""
    bounds_of_cluster = limits()
    return Bounds(
        entries=bounds_of_cluster.cluster_entries,
        longest=bounds_of_cluster.cluster_list,
        column_bytes=bounds_of_cluster.cluster_column_bytes,
        words=bounds_of_cluster.cluster_words,
    )


class LargeCluster:
    """A cluster, most preferred documents first.

    sets: yields the distinct shingles of documents, given their positions. groups: (n,), ascending; a document is
    removed only for a document of a smaller group. is_removable: (n,), whether it may be removed.
    """

    def __init__(
        self,
        sets: Sets,
        groups: NDArray[np.int64],
        is_removable: NDArray[np.bool_],
        *,
        share: float,
        is_jaccard: bool,
    ) -> None:
        self.sets, self.groups, self.is_removable = sets, groups, is_removable
        self.share, self.is_jaccard = share, is_jaccard
        counters = np.zeros(1 << COUNTER_BITS, np.uint16)
        for hashes in sets(np.arange(len(groups))):
            count_shingles(hashes, counters)
        self.index = RareIndex(counters, len(groups), min(len(groups), limits().cluster_members), bounds())
        self.members_of_index = list[int]()  # positions of the members of the index
        self.skipped_groups = list[int]()  # groups of kept documents without room in the index
        self.unsure = 0  # kept documents that were not compared with all that can contain enough of them
        self.pairs = 0  # pairs of such a document and a document with which it was not compared
        self.sizes = np.zeros(len(groups), np.int64)
        self.kept_sets = OrderedDict[int, NDArray[np.uint64]]()
        self.kept_bytes = 0

    def find_duplicates(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the results of `textkernels.set_similarity.find_duplicates`."""
        holders = np.full(len(self.groups), MISSING, np.int64)
        shared = np.zeros(len(self.groups), np.int64)
        for i, hashes in enumerate(self.sets(np.arange(len(self.groups)))):
            self.sizes[i] = hashes.size
            if self.is_removable[i]:
                holders[i], shared[i] = self.find_holder(i, hashes)
            if (
                holders[i] == MISSING and self.groups[i] < self.groups[-1]
            ):  # or no later document can be removed for it
                self.add_member(i, hashes)
        return holders, shared

    def add_member(self, i: int, hashes: NDArray[np.uint64]) -> None:
        """Add a kept document to the index, if there is room. hashes: (m,), its shingles."""
        if len(self.members_of_index) == self.index.most:
            self.skipped_groups.append(int(self.groups[i]))
            return
        self.index.add(hashes, int(self.groups[i]))
        self.members_of_index.append(i)
        self.cache_shingles(i, hashes)

    def find_holder(self, i: int, hashes: NDArray[np.uint64]) -> tuple[int, int]:
        """Return the first known holder of enough of a document, or MISSING, and the number of shared shingles."""
        table, first = table_of(hashes), min(FIRST_MEMBERS, len(self.members_of_index))
        k, count = self.first_holder(range(first), i, hashes, table)
        if k != MISSING:
            return k, count
        group = int(self.groups[i])
        members, others = self.index.probe(hashes, group, self.share, self.is_jaccard)
        k, count = self.first_holder(members[members >= first].tolist(), i, hashes, table)
        if k == MISSING:
            others += bisect_left(self.skipped_groups, group)
            self.unsure += others > 0
            self.pairs += others
        return k, count

    def first_holder(
        self,
        members: Iterable[int],
        i: int,
        hashes: NDArray[np.uint64],
        table: tuple[NDArray[np.uint64], np.uint64],
    ) -> tuple[int, int]:
        """Return the first member that holds enough of a document, or MISSING, and the shared shingles."""
        for k in (self.members_of_index[member] for member in members):
            sizes = hashes.size, int(self.sizes[k])
            if self.groups[k] < self.groups[i] and can_share(self.share, self.is_jaccard, *sizes):
                count = int(in_common(*table, self.shingles_of(k)))
                if count >= shingles_needed(self.share, self.is_jaccard, *sizes):
                    return k, count
        return MISSING, 0

    def shingles_of(self, k: int) -> NDArray[np.uint64]:
        hashes = self.kept_sets.get(k)
        if hashes is None:
            (hashes,) = self.sets(np.array([k]))
            self.cache_shingles(k, hashes)
        else:
            self.kept_sets.move_to_end(k)
        return hashes

    def cache_shingles(self, k: int, hashes: NDArray[np.uint64]) -> None:
        """Cache a set; the least recently used sets are dropped to make room."""
        self.kept_sets[k] = hashes.copy()
        self.kept_bytes += hashes.nbytes
        while self.kept_bytes > SETS_BYTES:
            _, dropped = self.kept_sets.popitem(last=False)
            self.kept_bytes -= dropped.nbytes
