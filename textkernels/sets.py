"""Sets of the distinct shingles of documents, and their intersections. Compiled by numba.

Sets are of 64-bit hashes: two different shingles have the same hash with a probability of 2**-64, so counts are
exact in practice. Sets are concatenated, as in Arrow's lists: the set of document i is
hashes[ends[i]:ends[i + 1]], in the order in which its shingles first occur.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

FREE = np.uint64(2**64 - 1)  # an empty slot of a table; a hash of this value is stored as one less
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd: multiplicative (Fibonacci) hashing
ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def table_for(count):
    """Return an empty table for `count` hashes, at most half full, and the shift that maps a product to a slot."""
    bits = 4
    while (1 << bits) < 2 * count:
        bits += 1
    return np.full(1 << bits, FREE, np.uint64), np.uint64(64 - bits)


@njit(cache=True, nogil=True, inline="always")
def slot_of(table, shift, value):
    """Return the slot of a hash, or the empty slot where it would be stored (linear probing)."""
    mask = np.uint64(table.size - 1)
    place = (value * SPREAD) >> shift
    while table[place] != FREE and table[place] != value:
        place = (place + ONE) & mask
    return place


@njit(cache=True, nogil=True)
def _distinct(hashes, ends, distinct_ends):
    """Move the first occurrences of each document's hashes to the front, document by document."""
    count = 0
    for i in range(ends.size - 1):
        table, shift = table_for(ends[i + 1] - ends[i])
        for j in range(ends[i], ends[i + 1]):
            value = hashes[j] - np.uint64(hashes[j] == FREE)
            place = slot_of(table, shift, value)
            if table[place] == FREE:
                table[place] = value
                hashes[count] = value  # this position was read before, because count never exceeds j
                count += 1
        distinct_ends[i + 1] = count


@njit(cache=True, nogil=True)
def in_common(table, shift, others):
    """Count the distinct hashes that are in a table."""
    n = 0
    for value in others:
        n += table[slot_of(table, shift, value)] != FREE
    return n


@njit(cache=True, nogil=True)
def table_of(hashes):
    """Return a table of distinct hashes, and its shift."""
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
    """Return the sets of documents, from hashes[ends[i]:ends[i + 1]] for document i; overwrites `hashes`."""
    distinct_ends = np.zeros_like(ends)
    _distinct(hashes, ends, distinct_ends)
    return hashes[: distinct_ends[-1]], distinct_ends


def overlaps(
    hashes: NDArray[np.uint64], ends: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count the shingles that documents `first` and `second` share, for each pair: (p,) int64."""
    counts = np.zeros(len(first), np.int64)
    _overlaps(hashes, ends, first, second, counts)
    return counts
