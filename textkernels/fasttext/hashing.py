"""The hashes that fastText gives words and n-grams, and the table in which words are found by them.

The table is an array of uint64 with the hash in the upper half and the number of the word, plus one, in the lower
one; 0 is an empty slot. Its size is a power of two, and what collides goes into the next slots.
"""

import numpy as np

from zyda_flows.textkernels.compiled import njit

BASIS = np.uint32(2166136261)  # of FNV-1a with 32 bits, and its prime
PRIME = np.uint32(16777619)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def hashed(h, byte):
    """Return the hash of what is hashed to h, and one more byte.

    fastText takes bytes for signed characters, so that those above 127 set all the bits above them.
    """
    return np.uint32((h ^ np.uint32(np.int32(np.int8(byte)))) * PRIME)


@njit(cache=True, nogil=True)
def hash_of(data, start, end):
    """Return the hash of the bytes [start, end)."""
    h = BASIS
    for i in range(np.uint64(start), np.uint64(end)):
        h = hashed(h, data[i])
    return h


@njit(cache=True, nogil=True, inline="always")
def are_same(x, i, y, j, size):
    """Say whether bytes of x from i on are those of y from j on."""
    k = 0
    while k < size and x[i + k] == y[j + k]:
        k += 1
    return k == size


@njit(cache=True, nogil=True, inline="always")
def first_slot(h, slots):
    """Return the slot of a table where a hash is looked for first."""
    # fastText's own hash differs least in its upper bits: the product has in its upper half what depends on all.
    return ((np.uint64(h) * SPREAD) >> HALF) & np.uint64(slots.size - 1)


@njit(cache=True, nogil=True)
def find_word(data, start, end, h, words, starts, ends, slots):
    """Return the slot of the word in bytes [start, end) of `data`, or the empty one where it belongs.

    words: the bytes in which word i is that from starts[i] to ends[i]. slots: has an empty one.
    """
    slot, last = first_slot(h, slots), np.uint64(slots.size - 1)
    while slots[slot] != 0:
        if slots[slot] >> HALF == np.uint64(h):
            word = np.int64(slots[slot] & LOW) - 1
            first = starts[word]
            size = ends[word] - first
            if size == end - start and are_same(words, first, data, start, size):
                return slot
        slot = (slot + ONE) & last
    return slot
