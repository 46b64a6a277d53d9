"""For each shingle a list of bounded size of the members of an index that have it. Compiled by numba.

The number of documents with a shingle is counted in a table of fixed size without keys. Two shingles may share a
counter, so a count is never too small.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.bit_columns import set_bit
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.set_similarity import MISSING, rarity
from zyda_flows.textkernels.sets import SPREAD

COUNTER_BITS = 26
SATURATED = np.uint16(2**16 - 1)
CHOICE = np.uint64(0xD6E8FEB86659FD93)


class ShingleLists(NamedTuple):
    """For each shingle the members that have it, in the order in which they were added.

    heads, tails, lengths: of each list, by the upper bits of a product. members, following, prints: of each entry.
    used: (1,), the number of entries.
    """

    shift: np.uint64
    longest: int
    heads: NDArray[np.int32]
    tails: NDArray[np.int32]
    lengths: NDArray[np.uint16]
    members: NDArray[np.int32]
    following: NDArray[np.int32]
    prints: NDArray[np.uint8]
    used: NDArray[np.int64]


@njit(cache=True, nogil=True, inline="always")
def counter_of(counters, value):
    """Return the index of a shingle's counter: the upper bits of another product than that of the lists."""
    product = (value ^ (value >> np.uint64(31))) * SPREAD
    return (product >> np.uint64(64 - COUNTER_BITS)) & np.uint64(counters.size - 1)


@njit(cache=True, nogil=True, inline="always")
def choice_of(value):
    """Return a number that ranks the shingles of one class: the smallest are chosen.

    It differs from the product that places shingles in the lists, where all chosen shingles would collide.
    """
    return (value ^ (value >> np.uint64(29))) * CHOICE


@njit(cache=True, nogil=True)
def count_shingles(hashes, counters):
    """Count the shingles of documents, which are distinct in each document."""
    for value in hashes:
        place = counter_of(counters, value)
        if counters[place] < SATURATED:
            counters[place] += 1


@njit(cache=True, nogil=True)
def frequencies_of(counters):
    """Return the number of counters with each value: (2**16,) int64."""
    frequencies = np.zeros(1 << 16, np.int64)
    for frequency in counters:
        frequencies[frequency] += 1
    return frequencies


@njit(cache=True, nogil=True)
def choose_hashes(hashes, counters, most):
    """Return the hashes by which a document is indexed: at most `most` of those that another document has too.

    If there are more, half of the result are the rarest, and half are the smallest by `choice_of`. So two documents
    with much the same shingles choose much the same, and some shared shingles are always among them.
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
    # Of the others choose the rarest: the upper six bits are the class.
    others = shared[ranks > smallest]
    rarest = np.empty(others.size, np.uint64)
    for j in range(others.size):
        bits = np.uint64(rarity(counters[counter_of(counters, others[j])]))
        rarest[j] = bits << np.uint64(58) | choice_of(others[j]) >> np.uint64(6)
    order = np.argsort(rarest)[: most - most // 2]
    return np.concatenate((shared[ranks <= smallest], others[order]))


@njit(cache=True, nogil=True)
def add_member(member, hashes, counters, columns, lists):
    for value in hashes:
        if counters[counter_of(counters, value)] > columns.above and set_bit(columns, member, value):
            continue
        product = value * SPREAD
        place = product >> lists.shift
        entry = lists.used[0]
        if lists.lengths[place] == lists.longest or entry == lists.members.size:
            continue
        lists.members[entry], lists.following[entry] = member, MISSING
        lists.prints[entry] = product & np.uint64(255)
        if lists.lengths[place] == 0:
            lists.heads[place] = entry
        else:
            lists.following[lists.tails[place]] = entry
        lists.tails[place] = entry
        lists.lengths[place] += 1
        lists.used[0] += 1


@njit(cache=True, nogil=True, inline="always")
def look_up(value, lists, members, earlier, found):
    """Add 1 to the matches of each member before `earlier` with a hash; return the number of touched members."""
    product = value * SPREAD
    place = product >> lists.shift
    entry = lists.heads[place] if lists.lengths[place] else MISSING
    while entry != MISSING:
        member = lists.members[entry]
        if member >= earlier:
            break
        if lists.prints[entry] == product & np.uint64(255):
            if members.matches[member] == 0:
                members.touched[found] = member
                found += 1
            members.matches[member] += 1
        entry = lists.following[entry]
    return found
