"""A cluster whose shingles are too many for the memory, judged text by text with an index of rare shingles.

What is compared is compared exactly, so that no document goes without a reason that holds. What is given up are
reasons that are not found: each document is compared with the FIRST that stay and with those that share most of its
rarest shingles, CANDIDATES in all; and of a cluster in which more than MOST_STAYING documents stay, the most
preferred so many let others go.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tasks.kernels.holders import NOBODY, could_hold, fewest, needed
from tasks.kernels.rare import CANDIDATES, COUNTER_BITS, RareIndex, count_shingles
from tasks.kernels.sets import in_common, table_of

FIRST = 4
MOST_STAYING = 1 << 18
SETS_BYTES = 256 << 20  # of sets of shingles that are kept, of those that stay

Sets = Callable[[NDArray[np.int64]], Iterator[NDArray[np.uint64]]]


class LargeCluster:
    """One cluster, most preferred documents first.

    sets: gives the distinct shingles of documents by their places. groups: (n,), ascending; a document goes only
    for one of a smaller group. may_go: (n,); the others stay in any case.
    """

    def __init__(
        self,
        sets: Sets,
        groups: NDArray[np.int64],
        may_go: NDArray[np.bool_],
        *,
        share: float,
        is_jaccard: bool,
    ) -> None:
        self.sets, self.groups, self.may_go = sets, groups, may_go
        self.share, self.is_jaccard = share, is_jaccard
        counters = np.zeros(1 << COUNTER_BITS, np.uint16)
        for hashes in sets(np.arange(len(groups))):
            count_shingles(hashes, counters)
        self.index = RareIndex(counters, min(len(groups), MOST_STAYING))
        self.staying = list[int]()  # places of the members of the index
        self.waiting = deque[tuple[int, NDArray[np.uint64]]]()  # of a group that is still being judged
        self.sizes = np.zeros(len(groups), np.int64)
        self.kept_sets = OrderedDict[int, NDArray[np.uint64]]()
        self.kept_bytes = 0

    def judge(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the same as `tasks.kernels.holders.judge`."""
        holders = np.full(len(self.groups), NOBODY, np.int64)
        shared = np.zeros(len(self.groups), np.int64)
        for i, hashes in enumerate(self.sets(np.arange(len(self.groups)))):
            self.sizes[i] = hashes.size
            self.index_groups_before(i)
            if self.may_go[i]:
                holders[i], shared[i] = self.holder(hashes)
            if holders[i] == NOBODY and len(self.staying) + len(self.waiting) < self.index.most:
                self.waiting.append((i, self.index.rarest(hashes)))
                self.keep(i, hashes)
        return holders, shared

    def index_groups_before(self, i: int) -> None:
        while self.waiting and self.groups[self.waiting[0][0]] < self.groups[i]:
            place, rarest = self.waiting.popleft()
            self.index.add(rarest)
            self.staying.append(place)

    def candidates(self, hashes: NDArray[np.uint64]) -> list[int]:
        """Return places of documents that may hold enough of one, the most preferred first."""
        if len(self.staying) <= CANDIDATES:
            return self.staying
        count = hashes.size - fewest(self.share, hashes.size) + 1
        members = {*range(FIRST), *self.index.probe(hashes, count)[: CANDIDATES - FIRST].tolist()}
        return [self.staying[member] for member in sorted(members)]

    def holder(self, hashes: NDArray[np.uint64]) -> tuple[int, int]:
        """Return the first candidate that holds enough of a document, or NOBODY, and what both have in common."""
        table = None
        for k in self.candidates(hashes):
            sizes = hashes.size, int(self.sizes[k])
            if could_hold(self.share, self.is_jaccard, *sizes):
                table = table or table_of(hashes)
                count = int(in_common(*table, self.set_of(k)))
                if count >= needed(self.share, self.is_jaccard, *sizes):
                    return k, count
        return NOBODY, 0

    def set_of(self, k: int) -> NDArray[np.uint64]:
        hashes = self.kept_sets.get(k)
        if hashes is None:
            (hashes,) = self.sets(np.array([k]))
            self.keep(k, hashes)
        else:
            self.kept_sets.move_to_end(k)
        return hashes

    def keep(self, k: int, hashes: NDArray[np.uint64]) -> None:
        """Keep a set while there is room; what was not asked for longest makes room."""
        self.kept_sets[k] = hashes.copy()
        self.kept_bytes += hashes.nbytes
        while self.kept_bytes > SETS_BYTES:
            _, dropped = self.kept_sets.popitem(last=False)
            self.kept_bytes -= dropped.nbytes
