"""Tables computed when a fastText file is read: positions of entries, hash tables, the tree."""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.fasttext.hashing import (
    HEAD,
    MOST_BYTES,
    NUMBER,
    START,
    TAIL,
    empty_slots,
    ends_of,
    find_word,
    first_slot,
    hash_of,
)

# Of probing: a random table that is half full needs some dozens, a hostile one as many as it has slots.
MOST_STEPS = 200
LARGE = 10**15  # fastText's infinite count


@njit(cache=True, nogil=True)
def place_entries(data, at, starts, ends, counts, kinds):
    """Find the entries of a dictionary from byte `at` on: each is a word, a zero byte, its count and its kind.

    Returns the byte after the last entry, or -1 if entries reach beyond the end of the data.
    """
    for entry in range(starts.size):
        starts[entry] = at
        while at < data.size and data[at] != 0:
            at += 1
        ends[entry] = at
        if at + 10 > data.size:
            return -1
        count = np.uint64(0)
        for byte in range(8):
            count |= np.uint64(data[at + 1 + byte]) << np.uint64(8 * byte)
        counts[entry] = np.int64(count)
        kinds[entry] = data[at + 9]
        at += 10
    return at


@njit(cache=True, nogil=True)
def _fill_words(data, starts, ends, slots):
    for entry in range(starts.size):
        start, size = starts[entry], ends[entry] - starts[entry]
        if not size:  # no text has this word
            continue
        h = hash_of(data, start, ends[entry])
        slot = find_word(data, start, size, h, data, slots)
        if (slot - first_slot(h, slots)) & (slots.shape[0] - 1) > MOST_STEPS:
            return False
        slots[slot, HEAD], slots[slot, TAIL] = ends_of(data, start, size)
        slots[slot, START] = start
        slots[slot, NUMBER] = size << 32 | (entry + 1)  # of two equal words, the last counts
    return True


def table_of_words(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the hash table of words. Raises ValueError for huge words, and if too many were made to collide."""
    if np.max(ends - starts) > MOST_BYTES:
        raise ValueError(f"a word of the dictionary has more than {MOST_BYTES:,} bytes")
    slots = empty_slots(1 << max(1, (2 * len(starts)).bit_length()))  # less than half full
    if not _fill_words(data, starts, ends, slots):
        raise ValueError("too many words of the dictionary have the same hash")
    return slots


def table_of_buckets(
    buckets: NDArray[np.int32], rows: NDArray[np.int32], count: int
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return which of `count` buckets are kept, and their rows, in the form of `Words`.

    buckets: (n,) in [0, count); of equal buckets the last counts. rows: (n,), the row of each.
    """
    is_kept, row_of = np.zeros(count, np.bool_), np.zeros(count, np.int32)
    is_kept[buckets] = True
    row_of[buckets] = rows
    packed = np.packbits(is_kept, bitorder="little")
    bits = np.zeros((count // 64 + 1, 2), np.uint64)
    bits[:, 0] = np.pad(packed, (0, 8 * len(bits) - len(packed))).view("<u8")
    bits[1:, 1] = np.cumsum(np.bitwise_count(bits[:-1, 0]))
    return bits, row_of[is_kept]


@njit(cache=True, nogil=True)
def _join(counts, children):
    labels = counts.size
    weights = np.full(2 * labels - 1, LARGE, np.int64)
    weights[:labels] = counts
    leaf, node = labels - 1, labels
    for inner in range(labels - 1):
        for side in range(2):
            # A node that is not made yet weighs more than any label, so it is never chosen.
            if leaf >= 0 and weights[leaf] < weights[node]:
                children[inner, side] = leaf
                leaf -= 1
            else:
                children[inner, side] = node
                node += 1
        weights[labels + inner] = weights[children[inner, 0]] + weights[children[inner, 1]]


def tree_of(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the children of the inner nodes of fastText's Huffman tree, in the form of `Model.children`.

    counts: (n,) of the labels, which fastText sorts in descending order. Raises ValueError for negative counts, and
    for a sum of fastText's infinite count or more.
    """
    if counts.min() < 0 or counts.sum(dtype=np.float64) >= LARGE:  # int64 could overflow
        raise ValueError(f"the labels' counts: expected 0 or more each and less than {LARGE} together")
    children = np.empty((len(counts) - 1, 2), np.int32)
    _join(counts, children)
    return children
