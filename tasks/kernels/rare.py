"""An index of the rarest shingles of documents, of a bounded size: for clusters whose shingles no memory holds.

How many documents have a shingle is counted in a table of a fixed size without keys, where two shingles may share a
counter; so a count is never too small. Of each document that stays its RAREST shingles that another has too are
indexed, with LIST documents to each. Whoever looks for a document probes with its own rarest ones, and gets the
documents that share most of them. What is found is only proposed: the texts decide.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tasks.kernels.holders import NOBODY, RARITIES, rarity
from tasks.kernels.sets import FREE, SPREAD, place_of

COUNTER_BITS = 26
RAREST = 32  # shingles of a document in the index
LIST = 64  # documents for each of them: the most preferred
CANDIDATES = 16  # that a probe gives at the most
SATURATED = np.uint16(2**16 - 1)
CHOICE = np.uint64(0xD6E8FEB86659FD93)


@njit(cache=True, nogil=True, inline="always")
def counter_of(counters, value):
    """Return the place of a shingle's counter: the upper bits of another product than that of the index."""
    return ((value ^ (value >> np.uint64(31))) * SPREAD) >> np.uint64(64 - COUNTER_BITS)


@njit(cache=True, nogil=True, inline="always")
def choice_of(value):
    """Return a number by which shingles of one class are chosen: the smallest.

    Not the product by which they find their place in the index, where all that are chosen would stand together.
    """
    return (value ^ (value >> np.uint64(29))) * CHOICE


@njit(cache=True, nogil=True)
def count_shingles(hashes, counters):
    """Count the shingles of documents, which are distinct in each."""
    for value in hashes:
        place = counter_of(counters, value)
        if counters[place] < SATURATED:
            counters[place] += 1


@njit(cache=True, nogil=True)
def rarest_shared(hashes, counters, chosen):
    """Write the rarest of a document's hashes that another has too to `chosen`; return how many.

    By the classes of `rarity`, and in one class by `choice_of`: so two documents of much the same shingles choose
    much the same.
    """
    ranks = np.empty(chosen.size, np.uint64)
    count = 0
    for value in hashes:
        frequency = counters[counter_of(counters, value)]
        if frequency < 2:
            continue
        # The class in the upper six bits.
        rank = np.uint64(rarity(frequency)) << np.uint64(58) | choice_of(value) >> np.uint64(6)
        if count == chosen.size and rank >= ranks[count - 1]:
            continue
        place = count if count < chosen.size else count - 1
        while place > 0 and ranks[place - 1] > rank:
            ranks[place], chosen[place] = ranks[place - 1], chosen[place - 1]
            place -= 1
        ranks[place], chosen[place] = rank, value
        count = min(count + 1, chosen.size)
    return count


@njit(cache=True, nogil=True)
def _add(member, hashes, keys, shift, heads, tails, lengths, members, following, entries):
    for value in hashes:
        place = place_of(keys, shift, value)
        if keys[place] == FREE:
            keys[place] = value
            heads[place], lengths[place] = NOBODY, 0
        if lengths[place] == LIST:
            continue
        members[entries], following[entries] = member, NOBODY
        if heads[place] == NOBODY:
            heads[place] = entries
        else:
            following[tails[place]] = entries
        tails[place] = entries
        lengths[place] += 1
        entries += 1
    return entries


@njit(cache=True, nogil=True)
def _probe(hashes, counters, count, keys, shift, heads, members, following, matches, touched):
    """Return up to CANDIDATES members that have most of the `count` rarest hashes, ascending."""
    sizes = np.zeros(RARITIES, np.int64)
    for value in hashes:
        sizes[rarity(counters[counter_of(counters, value)])] += 1
    found = 0
    last = 0  # the class of which not all are taken
    while last < RARITIES - 1 and count > sizes[last]:
        count -= sizes[last]
        last += 1
    for value in hashes:
        bits = rarity(counters[counter_of(counters, value)])
        if bits == 0 or bits > last:
            continue
        # Of the last class about `count`, those that `rarest_shared` would choose first.
        if bits == last and np.float64(choice_of(value)) > count / sizes[last] * 2.0**64:
            continue
        place = place_of(keys, shift, value)
        if keys[place] == FREE:
            continue
        entry = heads[place]
        while entry != NOBODY:
            member = members[entry]
            if matches[member] == 0 and found < touched.size:
                touched[found] = member
                found += 1
            matches[member] += 1
            entry = following[entry]
    best = np.empty(min(found, CANDIDATES), np.int64)
    taken = 0
    for j in range(found):
        member, n = touched[j], matches[touched[j]]
        if taken == best.size:
            other = best[taken - 1]
            if n < matches[other] or (n == matches[other] and member > other):
                continue
        place = taken if taken < best.size else taken - 1
        while place > 0:
            other = best[place - 1]
            if matches[other] > n or (matches[other] == n and other < member):
                break
            best[place] = other
            place -= 1
        best[place] = member
        taken = min(taken + 1, best.size)
    for j in range(found):
        matches[touched[j]] = 0
    return np.sort(best)


@dataclass
class RareIndex:
    """Members by the numbers that they are added with, from 0; their rarest shingles; and the counters.

    counters: (2**COUNTER_BITS,) uint16, filled by `count_shingles`. Room is for `most` members: 128 MiB
    of counters, and 1.4 to 2.4 KB for each.
    """

    counters: NDArray[np.uint16]
    most: int

    def __post_init__(self) -> None:
        room = self.most * RAREST
        bits = max(4, int(2 * room - 1).bit_length())
        self.keys = np.full(1 << bits, FREE, np.uint64)
        self.shift = np.uint64(64 - bits)
        self.heads, self.tails = np.empty(1 << bits, np.int32), np.empty(1 << bits, np.int32)
        self.lengths = np.empty(1 << bits, np.uint8)
        self.members, self.following = np.empty(room, np.int32), np.empty(room, np.int32)
        self.matches, self.touched = np.zeros(self.most, np.int32), np.empty(self.most, np.int32)
        self.entries = 0
        self.count = 0

    def rarest(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return those of a document's hashes by which it is found."""
        chosen = np.empty(RAREST, np.uint64)
        return chosen[: rarest_shared(hashes, self.counters, chosen)]

    def add(self, rarest: NDArray[np.uint64]) -> int:
        """Add a member by its rarest hashes, and return its number."""
        self.entries = _add(
            self.count, rarest, self.keys, self.shift, self.heads, self.tails, self.lengths, self.members,
            self.following, self.entries,
        )  # fmt: skip
        self.count += 1
        return self.count - 1

    def probe(self, hashes: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
        """Return the members that share most of the `count` rarest of some hashes, ascending."""
        found: NDArray[np.int64] = _probe(
            hashes, self.counters, count, self.keys, self.shift, self.heads, self.members, self.following,
            self.matches, self.touched,
        )  # fmt: skip
        return found
