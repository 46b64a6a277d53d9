"""fastText's hashes of words and n-grams, and the hash table of the dictionary's words.

The table is an array of uint64. A slot has the hash in its upper half and the word's number plus 1 in its lower
half; 0 is an empty slot. The size is a power of two. Collisions are resolved by linear probing.
"""

import numpy as np

from zyda_flows.textkernels.compiled import njit

BASIS = np.uint32(2166136261)  # offset basis of 32-bit FNV-1a; the next constant is its prime
PRIME = np.uint32(16777619)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def extend_hash(h, byte):
    """Return the hash h of some bytes, extended by one more byte.

    fastText reads bytes as signed characters: a byte above 127 sets all bits above it.
    """
    return np.uint32((h ^ np.uint32(np.int32(np.int8(byte)))) * PRIME)


@njit(cache=True, nogil=True)
def hash_of(data, start, end):
    """Return the hash of the bytes [start, end)."""
    h = BASIS
    for i in range(np.uint64(start), np.uint64(end)):
        h = extend_hash(h, data[i])
    return h


@njit(cache=True, nogil=True, inline="always")
def are_same(x, i, y, j, size):
    """Return whether the `size` bytes of x from i equal the bytes of y from j."""
    k = 0
    while k < size and x[i + k] == y[j + k]:
        k += 1
    return k == size


@njit(cache=True, nogil=True, inline="always")
def first_slot(h, slots):
    """Return the slot of a table at which the search for a hash begins."""
    # fastText's hash varies least in its upper bits. The upper half of the product depends on all bits of the hash.
    return ((np.uint64(h) * SPREAD) >> HALF) & np.uint64(slots.size - 1)


@njit(cache=True, nogil=True)
def find_word(data, start, end, h, words, starts, ends, slots):
    """Return the slot of the word in bytes [start, end) of `data`, or the empty slot where it would be stored.

    words: bytes; word i is words[starts[i]:ends[i]]. slots: has at least one empty slot.
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
