"""Counting sequences of characters in texts, several at once. Compiled by numba.

A sequence asks of each of its characters to be of some kinds. A bit of a word of 64 stands for "one of them
is found so far as here", and all of them move on together with each character of the text (Shift-And).
"""

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tasks.kernels.utf8 import code_point

BITS = 64  # of a word: so many characters have the sequences together, or less
NONE, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))


@njit(cache=True, nogil=True)
def _count(data, offsets, kinds, fits, first, last, whole, number, counts):
    for d in range(offsets.size - 1):
        i, stop = np.uint64(offsets[d]), np.uint64(offsets[d + 1])
        reached = NONE
        while i < stop:
            code, size = code_point(data, i)
            i += size
            reached = (reached << ONE | first) & fits[kinds[code]]
            if reached & last:
                for bit in range(BITS):
                    if reached & last & ONE << np.uint64(bit):
                        counts[d, number[bit]] += 1
                        reached &= ~whole[bit]  # the next one begins after this one's end


def count(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    fits: NDArray[np.uint64],
    lengths: Sequence[int],
) -> NDArray[np.int64]:
    """Count the sequences in each text, those that do not overlap: (n, sequences) int64.

    data: the texts' UTF-8 bytes, valid. offsets: (n + 1,). kinds: (0x110000,), the kind of each code point.
    fits: a word for each kind, with a bit for each character of the sequences, one after the other, set where
    the kind may stand. lengths: how many characters each sequence has, together BITS or less.
    """
    first, last, start = NONE, NONE, 0
    whole, number = np.zeros(BITS, np.uint64), np.zeros(BITS, np.int64)
    for sequence, length in enumerate(lengths):
        end = start + length
        first |= np.uint64(1 << start)
        last |= np.uint64(1 << end - 1)
        whole[end - 1] = (1 << end) - (1 << start)
        number[end - 1] = sequence
        start = end
    counts = np.zeros((len(offsets) - 1, len(lengths)), np.int64)
    _count(data, offsets, kinds, fits, first, last, whole, number, counts)
    return counts
