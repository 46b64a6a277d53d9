"""An index of the shingles of documents, of a bounded size: for clusters whose shingles no memory holds.

How many documents have a shingle is counted in a table of a fixed size without keys, where two shingles may
share a counter; so a count is never too small. The shingles that another document has too lead to the first
LIST members that have them. Whoever looks for a member probes with its own rarest shingles, or with all of
them, and gets the members that share most of them, and whether any other could hold enough of it. What is found
is only proposed: the texts decide.

Of a set A, whoever holds n of its shingles holds one of any |A| - n + 1 of them (see
`textkernels.set_similarity`); and whoever has m of p that were looked up holds m + |A| - p at the most.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textkernels.set_similarity import NOBODY, RARITIES, fewest, needed, rarity
from textkernels.sets import SPREAD

COUNTER_BITS = 26
ENTRIES = 1 << 25  # in the index at the most, of 9 bytes; and as many lists, of 10
LEAST = 64  # shingles of each document in an index that has not room for all
LIST = 1000  # members for each shingle: the most preferred
CANDIDATES = 64  # that a probe gives at the most
CHEAP = 5  # classes of shingles that are looked up in any case: those of less than 32 documents
SATURATED = np.uint16(2**16 - 1)
CHOICE = np.uint64(0xD6E8FEB86659FD93)


@njit(cache=True, nogil=True, inline="always")
def counter_of(counters, value):
    """Return the place of a shingle's counter: the upper bits of another product than that of the index."""
    product = (value ^ (value >> np.uint64(31))) * SPREAD
    return (product >> np.uint64(64 - COUNTER_BITS)) & np.uint64(counters.size - 1)


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
def entries_of(counters):
    """Return how many entries an index of all documents would have."""
    count = 0
    for frequency in counters:
        if frequency > 1:
            count += min(frequency, LIST)
    return count


@njit(cache=True, nogil=True)
def chosen(hashes, counters, most):
    """Return those of a document's hashes by which it is found: `most` of those that another has too.

    All, or half of them the rarest and half the smallest by `choice_of`: so two documents of much the same shingles
    choose much the same, and whatever the two differ in, some of what they share is among them.
    """
    shared = np.empty(hashes.size, np.uint64)
    count = 0
    for value in hashes:
        if counters[counter_of(counters, value)] > 1:
            shared[count] = value
            count += 1
    shared = shared[:count]
    if count <= most:
        return shared
    ranks = choice_of(shared)
    smallest = np.sort(ranks)[most // 2 - 1]
    # Of the others the rarest: the class in the upper six bits.
    others = shared[ranks > smallest]
    rarest = np.empty(others.size, np.uint64)
    for j in range(others.size):
        bits = np.uint64(rarity(counters[counter_of(counters, others[j])]))
        rarest[j] = bits << np.uint64(58) | choice_of(others[j]) >> np.uint64(6)
    order = np.argsort(rarest)[: most - most // 2]
    return np.concatenate((shared[ranks <= smallest], others[order]))


@njit(cache=True, nogil=True)
def _add(member, hashes, shift, heads, tails, lengths, members, following, prints, entries):
    for value in hashes:
        product = value * SPREAD
        place = product >> shift
        if lengths[place] == LIST or entries == members.size:
            continue
        members[entries], following[entries] = member, NOBODY
        prints[entries] = product & np.uint64(255)
        if lengths[place] == 0:
            heads[place] = entries
        else:
            following[tails[place]] = entries
        tails[place] = entries
        lengths[place] += 1
        entries += 1
    return entries


@njit(cache=True, nogil=True)
def classes_of(hashes, counters):
    """Return the class of each hash by `rarity`, and how many are of each class."""
    classes, sizes = np.empty(hashes.size, np.uint8), np.zeros(RARITIES, np.int64)
    for j in range(hashes.size):
        classes[j] = rarity(counters[counter_of(counters, hashes[j])])
        sizes[classes[j]] += 1
    return classes, sizes


@njit(cache=True, nogil=True)
def best_of(touched, matches, count):
    """Return the `count` members with most matches, of equal ones those that were added first; ascending."""
    if touched.size <= count:
        return np.sort(touched)
    ranks = np.empty(touched.size, np.int64)
    for j in range(touched.size):
        ranks[j] = -(np.int64(matches[touched[j]]) << np.int64(32)) + touched[j]
    return np.sort(touched[np.argsort(ranks)[:count]])


@njit(cache=True, nogil=True, inline="always")
def _look_up(
    value, group, shift, heads, lengths, members, following, prints, groups, matches, touched, found
):
    """Count a hash for each member of a smaller group that has it; return how many members were met so far."""
    product = value * SPREAD
    place = product >> shift
    entry = heads[place] if lengths[place] else NOBODY
    while entry != NOBODY:
        member = members[entry]
        if prints[entry] == product & np.uint64(255) and groups[member] < group:
            if matches[member] == 0:
                touched[found] = member
                found += 1
            matches[member] += 1
        entry = following[entry]
    return found


@njit(cache=True, nogil=True, inline="always")
def _viable(size, skipped, full, reach, share, is_jaccard, set_sizes, matches, touched):
    """Move the members that may hold enough to the front; return how many they are."""
    viable = 0
    for j in range(touched.size):
        member = touched[j]
        most = matches[member] + skipped + (full if member > reach else 0)
        if most >= needed(share, is_jaccard, size, set_sizes[member]):
            touched[viable], touched[j] = member, touched[viable]
            viable += 1
    return viable


@njit(cache=True, nogil=True)
def _probe(
    hashes, counters, group, share, is_jaccard, shift, heads, tails, lengths, members, following, prints,
    groups, set_sizes, matches, touched, count_of_members, is_whole,
):  # fmt: skip
    """Return members of smaller groups that may hold enough of some hashes, and whether no other can."""
    size = hashes.size
    not_indexed = 0 if is_whole else size
    least = fewest(share, size)
    classes, sizes = classes_of(hashes, counters)
    count, last = size - least + 1, 0  # so many are looked up; the class of which not all are
    while last < RARITIES - 1 and count > sizes[last]:
        count -= sizes[last]
        last += 1
    limit = np.uint64(2**64 - 1)
    if last > CHEAP and count < sizes[last]:
        limit = np.sort(choice_of(hashes[classes == last]))[count - 1]
    last = max(last, CHEAP)
    # Of hashes that are skipped anybody may have any; of those whose list is full, who comes after `reach`.
    found = skipped = full = viable = 0
    reach = touched.size
    for is_second in (False, True):
        skipped = 0
        for j in range(size):
            is_late = classes[j] > last or (classes[j] == last and choice_of(hashes[j]) > limit)
            skipped += is_late and not is_second
            if classes[j] == 0 or is_late != is_second:
                continue
            found = _look_up(
                hashes[j],
                group,
                shift,
                heads,
                lengths,
                members,
                following,
                prints,
                groups,
                matches,
                touched,
                found,
            )
            place = (hashes[j] * SPREAD) >> shift
            if lengths[place] == LIST:
                full += 1
                reach = min(reach, members[tails[place]])
        viable = _viable(
            size, skipped + not_indexed, full, reach, share, is_jaccard, set_sizes, matches, touched[:found]
        )
        if viable <= CANDIDATES and skipped < least:
            break
    best = best_of(touched[:viable].copy(), matches, CANDIDATES)
    for j in range(found):
        matches[touched[j]] = 0
    are_others_unable = skipped < least and (skipped + full < least or count_of_members <= reach + 1)
    return best, is_whole and are_others_unable and viable <= CANDIDATES


@dataclass
class RareIndex:
    """Members by the numbers that they are added with, from 0; their shingles; and the counters.

    counters: (2**COUNTER_BITS,) uint16 or a smaller power of two, filled by `count_shingles`. Room is for `most`
    members. It takes 128 MiB of counters, 9 bytes for each entry of up to ENTRIES, and 10 for as many lists.
    """

    counters: NDArray[np.uint16]
    most: int

    def __post_init__(self) -> None:
        wanted = int(entries_of(self.counters))
        self.part = min(1.0, ENTRIES / max(1, wanted))  # of a document's shingles that are indexed
        # Two shingles that share a counter may need more than it says.
        room = min(wanted + wanted // 8 + LEAST, ENTRIES + LEAST * self.most)
        bits = max(4, min(room, ENTRIES).bit_length())
        self.shift = np.uint64(64 - bits)
        self.heads, self.tails = np.empty(1 << bits, np.int32), np.empty(1 << bits, np.int32)
        self.lengths = np.zeros(1 << bits, np.uint16)
        self.members, self.following = np.empty(room, np.int32), np.empty(room, np.int32)
        self.prints = np.empty(room, np.uint8)
        self.groups, self.sizes = np.empty(self.most, np.int64), np.empty(self.most, np.int64)
        self.matches, self.touched = np.zeros(self.most, np.int32), np.empty(self.most, np.int32)
        self.entries = 0
        self.count = 0

    def add(self, hashes: NDArray[np.uint64], group: int) -> None:
        """Add a member of a group by its hashes: (m,), distinct."""
        of_it = chosen(
            hashes, self.counters, max(LEAST, int(self.part * hashes.size)) if self.part < 1 else hashes.size
        )
        self.entries = _add(
            self.count, of_it, self.shift, self.heads, self.tails, self.lengths, self.members,
            self.following, self.prints, self.entries,
        )  # fmt: skip
        self.groups[self.count], self.sizes[self.count] = group, hashes.size
        self.count += 1

    def probe(
        self, hashes: NDArray[np.uint64], group: int, share: float, is_jaccard: bool
    ) -> tuple[NDArray[np.int32], bool]:
        """Return members, (k,), of smaller groups that may hold enough of hashes, and whether these are all."""
        best, is_all = _probe(
            hashes, self.counters, group, share, is_jaccard, self.shift, self.heads, self.tails, self.lengths,
            self.members, self.following, self.prints, self.groups, self.sizes, self.matches, self.touched,
            self.count, self.part == 1 and self.entries < len(self.members),
        )  # fmt: skip
        return best, bool(is_all)
