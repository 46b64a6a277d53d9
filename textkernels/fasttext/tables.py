"""What is computed of a file of fastText when it is read: places of entries, tables, the tree, rows of numbers."""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.fasttext.hashing import HALF, find_word, first_slot, hash_of

MOST_STEPS = (
    200  # to a slot: by chance a table half full needs some dozens, and a hostile one as many as it has
)
LARGE = 10**15  # counts that fastText takes for infinite


@njit(cache=True, nogil=True)
def place_entries(data, at, starts, ends, counts, kinds):
    """Find the entries of a dictionary from byte `at` on: a word, 0, its count and its kind each.

    Returns the byte after the last, or -1 where they go beyond the end.
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
        h = hash_of(data, starts[entry], ends[entry])
        slot = find_word(data, starts[entry], ends[entry], h, data, starts, ends, slots)
        if (slot - first_slot(h, slots)) & np.uint64(slots.size - 1) > MOST_STEPS:
            return False
        slots[slot] = np.uint64(h) << HALF | np.uint64(entry + 1)  # of two that are the same, the last counts
    return True


def table_of_words(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the table of the words in bytes. Raises ValueError for words that were made to collide."""
    slots = np.zeros(
        1 << max(1, (2 * len(starts)).bit_length()), np.uint64
    )  # of which less than half is filled
    if not _fill_words(data, starts, ends, slots):
        raise ValueError("too many words of the dictionary have one hash")
    return slots


def table_of_buckets(
    buckets: NDArray[np.int32], rows: NDArray[np.int32], count: int
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return which of `count` buckets are kept, and their rows, as `Words` has them.

    buckets: (n,) in [0, count), of which the last counts where one is there twice. rows: (n,), theirs.
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
            # A node that is not made yet weighs more than any label, so it is never taken.
            if leaf >= 0 and weights[leaf] < weights[node]:
                children[inner, side] = leaf
                leaf -= 1
            else:
                children[inner, side] = node
                node += 1
        weights[labels + inner] = weights[children[inner, 0]] + weights[children[inner, 1]]


def tree_of(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the children of the inner nodes of fastText's Huffman tree, as `Model.children` has them.

    counts: (n,) of the labels, which fastText sorts in descending order. Raises ValueError for negative ones, and
    for a sum that fastText takes for infinite.
    """
    if counts.min() < 0 or counts.sum(dtype=np.float64) >= LARGE:  # whole numbers could wrap
        raise ValueError(f"the labels' counts have to be from 0 to less than {LARGE} together")
    children = np.empty((len(counts) - 1, 2), np.int32)
    _join(counts, children)
    return children


@njit(cache=True, nogil=True)
def expand(codes, centroids, norm_codes, norms, width, rows):
    """Write the rows of a quantised matrix out as numbers. rows: (n, dim) float32."""
    dim = rows.shape[1]
    pieces = (dim + width - 1) // width
    for row in range(rows.shape[0]):
        norm = norms[norm_codes[row]] if norm_codes.size else np.float32(1)
        for piece in range(pieces):
            first = piece * width
            size = min(width, dim - first)
            centroid = 256 * first + size * codes[row * pieces + piece]
            for column in range(size):
                rows[row, first + column] = norm * centroids[centroid + column]
