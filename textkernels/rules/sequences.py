"""Count strings in texts, and sequences of characters, several sequences together. Compiled by numba.

A string is found by its first, second and last bytes, at 64 positions together. A sequence accepts some kinds of
characters at each of its positions. A bit of a 64-bit word is set if a sequence matches up to a position; all bits
are shifted with each character of the text (Shift-And).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.swar import bits_set, trailing_zeros, within_64
from zyda_flows.textkernels.utf8 import code_point

BITS = 64  # of a word: the most characters of the sequences of a word
LANES = 64
NONE, ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def may_begin_at(data, i, string):
    """Return a bit for each of 64 positions where a string may begin. For one or two bytes the match is certain."""
    size = len(string)
    places = within_64(data, i, string[0], string[0])
    if size > 1:
        places &= within_64(data, i + 1, string[1], string[1])
        places &= within_64(data, i + size - 1, string[size - 1], string[size - 1])
    return places


@njit(cache=True, nogil=True)
def is_at(data, i, string):
    for k in range(len(string)):  # noqa: SIM110 (numba has no all())
        if data[i + k] != string[k]:
            return False
    return True


@njit(cache=True, nogil=True)
def _count_string(data, start, stop, string):
    found, following, i, size = 0, start, start, len(string)
    is_alone = size == 1 or (
        size == 2 and string[0] != string[1]
    )  # a match of the bytes is certain and overlaps no other
    while i + LANES + size <= stop:
        places = may_begin_at(data, i, string)
        if is_alone:
            found += np.int64(bits_set(places))
            places = NONE
        while places:
            k = i + np.int64(trailing_zeros(places))
            if k >= following and is_at(data, k, string):
                found += 1
                following = k + size
            places &= places - ONE
        i += LANES
    i = max(i, following)
    while i + size <= stop:
        is_here = is_at(data, i, string)
        found += is_here
        i += size if is_here else 1
    return found


@njit(cache=True, nogil=True)
def _count_strings(data, offsets, documents, string, counts):
    for k in range(documents.size):
        d = documents[k]
        counts[k] = _count_string(data, offsets[d], offsets[d + 1], string)


def count_string(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], documents: NDArray[np.int64], string: bytes
) -> NDArray[np.int64]:
    """Count a string, which is not empty, in some of the texts, as `bytes.count` does: (documents,) int64."""
    counts = np.zeros(len(documents), np.int64)
    _count_strings(data, offsets, documents, np.frombuffer(string, np.uint8), counts)
    return counts


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
                        reached &= ~whole[bit]  # the next match begins after the end of this one


def count(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    fits: NDArray[np.uint64],
    lengths: Sequence[int],
) -> NDArray[np.int64]:
    """Count the matches of sequences that do not overlap in each text: (n, sequences) int64.

    data: the texts' UTF-8 bytes, valid. offsets: (n + 1,). kinds: (0x110000,), the kind of each code point.
    fits: a word for each kind, with a bit for each character of the sequences, one after another, set if the
    character accepts the kind. lengths: the number of characters of each sequence, together at most BITS.
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
