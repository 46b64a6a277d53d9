"""What Gopher's rules of quality count: words, marks, and how lines begin and end. Compiled by numba.

Tokens are those of `tokens.py`, where the bits of the classes are explained too. Counts are whole numbers, a row a
document; `tasks.texts.prose` makes shares of them.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tasks.kernels.lanes import bits_set
from tasks.kernels.reading.cutting import CHARACTERS, MARKS, STOP
from tasks.kernels.utf8 import ALPHA, NEW_LINE, SYMBOL, code_at, stripped

ONE, TWO, THREE, SEVEN, EIGHT, TOP_BYTE = (np.uint64(n) for n in (1, 2, 3, 7, 8, 56))
EACH, SIGNS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
SPACES = np.uint64(0x2020202020202020)
QUALITY = (
    "tokens", "words", "word_characters", "alphabetic_words", "stop_words", "hashes", "ellipses", "lines",
    "bullet_lines", "ellipsis_lines",
)  # fmt: skip
DOT, HASH, MINUS, BULLET = 46, 35, 45, 0x2022
Classes = NDArray[np.uint32]
Places = NDArray[np.int64]


@njit(cache=True, nogil=True, inline="always")
def line_end(data, i, stop):
    """Return where the line at i ends, and where the next begins: `str.splitlines`."""
    k, end, size = np.uint64(i), np.uint64(stop), 0
    while size == 0:
        while k + EIGHT <= end:
            word = np.uint64(0)
            for n in range(EIGHT):
                word |= np.uint64(data[k + n]) << (n << THREE)
            odd = ((word - SPACES) | word) & SIGNS  # the sign of the first byte below a space or beyond ASCII
            if odd:
                k += ((((odd & (~odd + ONE)) >> SEVEN) - ONE & EACH) * EACH) >> TOP_BYTE
                break
            k += EIGHT
        while k < end and 0x1E < data[k] < 0xC2:
            k += ONE
        if k == end:
            break
        byte = data[k]
        if byte == 13 and k + ONE < end and data[k + ONE] == NEW_LINE:
            size = 2
        elif 10 <= byte <= 13 or 0x1C <= byte <= 0x1E:
            size = 1
        elif byte == 0xC2 and data[k + ONE] == 0x85:
            size = 2
        elif byte == 0xE2 and data[k + ONE] == 0x80 and data[k + TWO] & 0xFE == 0xA8:
            size = 3
        else:
            k += ONE
    return np.int64(k), np.int64(k) + size


@njit(cache=True, nogil=True)
def _count_tokens(tokens, ends, counts):
    for d in range(ends.size - 1):
        words = characters = alphabetic = found = np.uint32(0)
        for t in range(np.uint64(ends[d]), np.uint64(ends[d + 1])):
            marks = tokens[t, MARKS]
            is_word = np.uint32(marks & SYMBOL == 0)
            words += is_word
            characters += tokens[t, CHARACTERS] * is_word
            alphabetic += np.uint32(marks & ALPHA != 0)
            found |= np.uint32(1) << (marks & STOP)
        counts[d, 0], counts[d, 1], counts[d, 2] = ends[d + 1] - ends[d], words, characters
        counts[d, 3], counts[d, 4] = alphabetic, np.int64(bits_set(np.uint64(found >> np.uint32(1))))


@njit(cache=True, nogil=True)
def count_signs(data, start, stop):
    """Count # and ellipses, of which three dots in a row are one."""
    hashes, ellipses, may_have, last = 0, 0, False, np.uint64(stop)
    for k in range(np.uint64(start), last):
        hashes += data[k] == HASH
        may_have |= data[k] == 0xE2
    for k in range(np.uint64(start), np.uint64(max(start, stop - 1))):
        may_have |= (data[k] == DOT) & (data[k + ONE] == DOT)
    k = np.uint64(start) if may_have else last
    while k < last:
        if data[k] == DOT and k + TWO < last and data[k + ONE] == DOT and data[k + TWO] == DOT:
            ellipses += 1
            k += TWO
        elif data[k] == 0xE2:
            ellipses += data[k + ONE] == 0x80 and data[k + TWO] == 0xA6
        k += ONE
    return hashes, ellipses


@njit(cache=True, nogil=True)
def _count_marks(data, offsets, classes, counts):
    for d in range(offsets.size - 1):
        i, stop = offsets[d], offsets[d + 1]
        counts[d, 5], counts[d, 6] = count_signs(data, i, stop)
        lines = bullets = ends = 0
        while i < stop:
            b, following = line_end(data, i, stop)
            a = i
            lines += 1
            if a < b and not (0x20 < data[a] < 0x80 and 0x20 < data[b - 1] < 0x80):
                a, b = stripped(data, a, b, classes)
            if a < b:
                bullets += data[a] == MINUS or (data[a] == 0xE2 and code_at(data, a)[0] == BULLET)
                if b - a >= 3 and (data[b - 1] == DOT or data[b - 1] == 0xA6):
                    x, y, z = data[b - 3], data[b - 2], data[b - 1]
                    ends += (x == DOT and y == DOT and z == DOT) or (x == 0xE2 and y == 0x80 and z == 0xA6)
            i = following
        counts[d, 7], counts[d, 8], counts[d, 9] = lines, bullets, ends


def count_quality(
    data: NDArray[np.uint8],
    offsets: Places,
    classes: Classes,
    tokens: NDArray[np.uint32],
    ends: Places,
) -> Places:
    """Count QUALITY of each document: (n, 10) int64."""
    counts = np.zeros((len(offsets) - 1, len(QUALITY)), np.int64)
    _count_tokens(tokens, ends, counts)
    _count_marks(data, offsets, classes, counts)
    return counts
