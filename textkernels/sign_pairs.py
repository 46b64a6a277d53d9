"""Pairs of vectors with similar signs of random projections (Charikar, "Similarity Estimation Techniques", 2002).

The signs of a projection differ for two vectors with a probability of their angle / pi. A key has 128 signs in two
words. Rows share a bucket if the first bits of their keys are equal, and are a pair if few other bits differ.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.swar import bits_set

WORD = 64  # bits


class SimilarPairs(NamedTuple):
    """Pairs of rows: (m,) twice, the earlier row first.

    uncompared: pairs of a bucket that were not compared, because the bucket was divided. left_out: pairs beyond the
    bound of a row.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    uncompared: int
    left_out: int


def similar_pairs(
    upper: NDArray[np.uint64],
    lower: NDArray[np.uint64],
    *,
    bits: int,
    most_different: int,
    most_of_bucket: int,
    most_partners: int,
    sides: NDArray[np.bool_] | None = None,
) -> SimilarPairs:
    """Return the pairs of rows that share a bucket and differ in few bits.

    Args:
        upper: The first words of the keys, (n,), ascending. Among equal words, earlier rows are preferred.
        lower: The other words, (n,).
        bits: Bits that are equal in a bucket, at least.
        most_different: Bits that differ in a pair, at most.
        most_of_bucket: Rows of a bucket, at most. A larger bucket is divided by its next bits. Rows with equal
            first words are divided into runs; each of them is also compared with the first of all.
        most_partners: Earlier rows with which a row is paired in a bucket, at most: the rows with the fewest
            different bits, and of equally many the first.
        sides: Only rows of different sides are pairs, (n,). None: all rows may be pairs.
    """
    starts, firsts, uncompared = buckets_of(upper, bits, most_of_bucket)
    keys = upper, lower, np.zeros(0, np.bool_) if sides is None else sides
    counts, left_out = count_pairs(*keys, starts, firsts, most_different, most_partners)
    ends = np.concatenate([[0], np.cumsum(counts)])
    first, second = np.empty(ends[-1], np.int64), np.empty(ends[-1], np.int64)
    write_pairs(*keys, starts, firsts, ends, first, second)
    return SimilarPairs(first, second, int(uncompared), int(left_out))


@njit(cache=True, nogil=True)
def buckets_of(upper, bits, most):
    """Return the first row of each row's bucket, (n,), the first row of its equal words or -1, and `uncompared`."""
    n, uncompared = len(upper), 0
    starts, firsts = np.empty(n, np.int64), np.full(n, -1, np.int64)
    todo = [(0, n, 0)]
    while todo:
        start, end, bit = todo.pop()
        size = end - start
        if bit >= bits and size <= most:
            starts[start:end] = start
            continue
        if bit == WORD:
            for row in range(start, end):
                starts[row] = start + (row - start) // most * most
                if starts[row] > start:
                    firsts[row] = start
            runs, rest = size // most, size % most
            compared = runs * (most * (most - 1) // 2) + rest * (rest - 1) // 2 + size - most
            uncompared += size * (size - 1) // 2 - compared
            continue
        mask = np.uint64(1) << np.uint64(WORD - 1 - bit)
        middle, high = start, end
        while middle < high:  # finds the first row whose bit is set
            at = (middle + high) // 2
            if upper[at] & mask:
                high = at
            else:
                middle = at + 1
        if bit >= bits:
            uncompared += (middle - start) * (end - middle)
        if middle > start:
            todo.append((start, middle, bit + 1))
        if end > middle:
            todo.append((middle, end, bit + 1))
    return starts, firsts, uncompared


@njit(cache=True, nogil=True, inline="always")
def different_bits(upper, lower, sides, row, other):
    """Return the number of bits that differ, or 2 * WORD for rows of the same side."""
    if len(sides) and sides[row] == sides[other]:
        return 2 * WORD
    return np.int64(bits_set(upper[row] ^ upper[other]) + bits_set(lower[row] ^ lower[other]))


@njit(cache=True, nogil=True)
def count_pairs(upper, lower, sides, starts, firsts, most_different, most_partners):
    """Return the number of pairs of each row with earlier rows, (n,), and the number of pairs beyond the bound."""
    counts, left_out = np.zeros(len(upper), np.int64), 0
    for row in range(len(upper)):
        found = 0
        if firsts[row] >= 0:
            found += different_bits(upper, lower, sides, row, firsts[row]) <= most_different
        for other in range(starts[row], row):
            found += different_bits(upper, lower, sides, row, other) <= most_different
        counts[row] = min(found, most_partners)
        left_out += found - counts[row]
    return counts, left_out


@njit(cache=True, nogil=True)
def write_pairs(upper, lower, sides, starts, firsts, ends, first, second):
    """Write the pairs of each row from ends[row] to ends[row + 1]; ends: (n + 1,)."""
    others_with = np.empty(2 * WORD + 1, np.int64)
    for row in range(len(upper)):
        at, wanted = ends[row], ends[row + 1] - ends[row]
        if wanted == 0:
            continue
        # How many of the rows with each number of different bits are taken.
        others_with[:] = 0
        if firsts[row] >= 0:
            others_with[different_bits(upper, lower, sides, row, firsts[row])] += 1
        for other in range(starts[row], row):
            others_with[different_bits(upper, lower, sides, row, other)] += 1
        for different in range(2 * WORD + 1):
            others_with[different] = min(others_with[different], wanted)
            wanted -= others_with[different]
        for place in range(starts[row] - 1, row):
            other = place if place >= starts[row] else firsts[row]
            if other < 0:
                continue
            different = different_bits(upper, lower, sides, row, other)
            if others_with[different] > 0:
                others_with[different] -= 1
                first[at], second[at] = other, row
                at += 1
