"""fastText's hashes of words and n-grams, and hash tables of words.

A slot of a table is four integers in one cache line, so that words of up to 16 bytes are compared without another
access to memory: the first and the last 8 bytes of the word, the position of its first byte, and its size in the
upper half of an integer, with a number in the lower half. An empty slot is 0. The number of slots is a power of
two. Collisions are resolved by linear probing.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.swar import load_8

BASIS = np.uint32(2166136261)  # offset basis of 32-bit FNV-1a; the next constant is its prime
PRIME = np.uint32(16777619)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
LOW = 0xFFFFFFFF
HEAD, TAIL, START, NUMBER = range(4)  # of a slot
MOST_BYTES = (1 << 31) - 1  # of a word in a table


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
def eight_bytes(data, start, size):
    """Return the first 8 bytes of a word, or all bytes of a shorter word, as an integer."""
    unused = np.uint64(64 - 8 * min(size, 8))
    if start + 8 <= data.size:
        return np.int64(load_8(data, start) << unused)
    read = np.uint64(0)
    for i in range(start + min(size, 8) - 1, start - 1, -1):
        read = read << np.uint64(8) | np.uint64(data[i])
    return np.int64(read << unused)


@njit(cache=True, nogil=True, inline="always")
def ends_of(data, start, size):
    """Return the HEAD and TAIL of a word, which is not empty."""
    return eight_bytes(data, start, size), eight_bytes(data, start + size - 8, 8) if size > 8 else 0


@njit(cache=True, nogil=True, inline="always")
def has_word(slot, words, head, tail, data, start, size):
    """Return whether a slot has a word: `size` bytes of `data` from `start`. words: the bytes of all words."""
    if slot[NUMBER] >> 32 != size or slot[HEAD] != head or slot[TAIL] != tail:
        return False
    return size <= 16 or are_same(words, slot[START], data, start, size)


@njit(cache=True, nogil=True, inline="always")
def first_slot(h, slots):
    """Return the slot of a table at which the search for a hash begins."""
    # fastText's hash varies least in its upper bits. The upper half of the product depends on all bits of the hash.
    return np.int64(((np.uint64(h) * SPREAD) >> HALF) & np.uint64(slots.shape[0] - 1))


@njit(cache=True, nogil=True)
def find_word(data, start, size, h, words, slots):
    """Return the slot of a word, or the empty slot where it would be stored: `size` bytes of `data` from `start`.

    words: the bytes of all words. slots: at least one is empty.
    """
    head, tail = ends_of(data, start, size)
    slot = first_slot(h, slots)
    while slots[slot, NUMBER] and not has_word(slots[slot], words, head, tail, data, start, size):
        slot = (slot + 1) & (slots.shape[0] - 1)
    return slot


def empty_slots(count: int) -> NDArray[np.int64]:
    """Return an empty table of (count, 4) integers, aligned so that each slot lies in one cache line."""
    room = np.zeros(4 * count + 8, np.int64)
    first = -room.ctypes.data % 64 // 8
    return room[first : first + 4 * count].reshape(count, 4)
