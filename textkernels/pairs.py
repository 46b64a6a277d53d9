"""Find given pairs of bytes in a text; blocks without a pair are skipped. Compiled by numba."""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

BLOCK = 256  # bytes that are compared together


def places_of_pairs(
    data: NDArray[np.uint8], firsts: NDArray[np.uint8], seconds: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of distinct pairs of bytes, (m,) ascending, and the index of each pair, (m,)."""
    marked = np.zeros(len(data) // BLOCK + 1, np.uint8)
    mark(data, firsts, seconds, marked)
    blocks = np.flatnonzero(marked)
    places, pairs = (np.empty(len(blocks) * BLOCK, np.int64) for _ in range(2))
    count = collect(data, firsts, seconds, blocks, places, pairs)
    return places[:count], pairs[:count]


@njit(cache=True, nogil=True)
def mark(data, firsts, seconds, marked):
    """Mark the blocks in which a pair begins."""
    for block in range(len(marked)):
        second = data[block * BLOCK + 1 : (block + 1) * BLOCK + 1]
        first = data[block * BLOCK : block * BLOCK + len(second)]
        is_there = np.uint8(0)
        for pair in range(len(firsts)):
            a, b = firsts[pair], seconds[pair]
            for i in range(len(second)):  # without a branch, so that many bytes are compared at a time
                is_there |= np.uint8(first[i] == a) & np.uint8(second[i] == b)
        marked[block] = is_there


@njit(cache=True, nogil=True)
def collect(data, firsts, seconds, blocks, places, pairs):
    """Collect the pairs that begin in some blocks; return their number."""
    count = 0
    for block in blocks:
        for place in range(block * BLOCK, min((block + 1) * BLOCK, len(data) - 1)):
            for pair in range(len(firsts)):
                if data[place] == firsts[pair] and data[place + 1] == seconds[pair]:
                    places[count], pairs[count] = place, pair
                    count += 1
    return count
