"""The distinct shingles of documents, and what two documents have in common. Compiled by numba.

Sets are of 64-bit hashes: two different shingles of a pair have one hash in 2**64 cases once, so that what
is counted here is exact for any purpose. They lie one after another, as Arrow keeps lists: the set of
document i is hashes[ends[i]:ends[i + 1]], in the order in which its shingles first come.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

FREE = np.uint64(2**64 - 1)  # of a place in a table that nobody has taken; no hash is kept as that
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd: multiplicative (Fibonacci) hashing
ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def table_for(count):
    """Return a table with room for so many hashes, at least half of it free, and the shift to a place in it."""
    bits = 4
    while (1 << bits) < 2 * count:
        bits += 1
    return np.full(1 << bits, FREE, np.uint64), np.uint64(64 - bits)


@njit(cache=True, nogil=True, inline="always")
def slot_of(table, shift, value):
    """Return the place of a hash, or the free one where it would be (linear probing)."""
    mask = np.uint64(table.size - 1)
    place = (value * SPREAD) >> shift
    while table[place] != FREE and table[place] != value:
        place = (place + ONE) & mask
    return place


@njit(cache=True, nogil=True)
def _distinct(hashes, ends, distinct_ends):
    """Move the hashes of each document that come for the first time to the front, one document after another."""
    count = 0
    for i in range(ends.size - 1):
        table, shift = table_for(ends[i + 1] - ends[i])
        for j in range(ends[i], ends[i + 1]):
            value = hashes[j] - np.uint64(hashes[j] == FREE)
            place = slot_of(table, shift, value)
            if table[place] == FREE:
                table[place] = value
                hashes[count] = value  # which was read before: there are no more of them than were read
                count += 1
        distinct_ends[i + 1] = count


@njit(cache=True, nogil=True)
def in_common(table, shift, others):
    """Count those of some distinct hashes that are in a table."""
    n = 0
    for value in others:
        n += table[slot_of(table, shift, value)] != FREE
    return n


@njit(cache=True, nogil=True)
def table_of(hashes):
    """Return a table of some distinct hashes, and its shift."""
    table, shift = table_for(hashes.size)
    for value in hashes:
        table[slot_of(table, shift, value)] = value
    return table, shift


@njit(cache=True, nogil=True)
def _overlaps(hashes, ends, first, second, counts):
    for i in range(first.size):
        a, b = first[i], second[i]
        table, shift = table_of(hashes[ends[a] : ends[a + 1]])
        counts[i] = in_common(table, shift, hashes[ends[b] : ends[b + 1]])


def distinct(
    hashes: NDArray[np.uint64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the sets of documents whose hashes lie one after another, those of i from ends[i] on; in place."""
    distinct_ends = np.zeros_like(ends)
    _distinct(hashes, ends, distinct_ends)
    return hashes[: distinct_ends[-1]], distinct_ends


def overlaps(
    hashes: NDArray[np.uint64], ends: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count how many shingles the documents at places `first` and `second`, (p,), have in common: (p,)."""
    counts = np.zeros(len(first), np.int64)
    _overlaps(hashes, ends, first, second, counts)
    return counts
