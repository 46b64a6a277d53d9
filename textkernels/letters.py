"""The letters of texts: texts of the same words have the same letters. Compiled by numba.

A table maps each character to bytes: to none, to its own, or to the bytes of the letters that it is a form of. The
table is made by `tasks.signatures.letters`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import ONE, code_point

STRETCH = np.uint64(16)  # bytes that are tested for ASCII together


class LetterTable(NamedTuple):
    """The letters of each code point.

    letters: UTF-8 bytes; the letters of code point c are letters[starts[c]:starts[c + 1]], starts: (0x110001,)
    int32. first, last: the canonical combining classes of the first and the last of these letters, (0x110000,)
    uint8. longer: by the first byte of a character, the most bytes by which its letters exceed it, (256,) uint8.
    """

    letters: NDArray[np.uint8]
    starts: NDArray[np.int32]
    first: NDArray[np.uint8]
    last: NDArray[np.uint8]
    longer: NDArray[np.uint8]


@njit(cache=True, nogil=True, inline="always")
def _is_ascii(data, i):
    """Return whether the STRETCH bytes from byte i on are ASCII."""
    bits = np.uint8(0)
    for k in range(STRETCH):
        bits |= data[i + k]
    return bits < 0x80


@njit(cache=True, nogil=True)
def _most_bytes(data, start, end, longer):
    """Return an upper bound of the bytes of the letters of the texts in [start, end)."""
    i, stop, most = np.uint64(start), np.uint64(end), np.int64(end - start)
    while i < stop:
        if i + STRETCH <= stop and _is_ascii(data, i):
            i += STRETCH
            continue
        beyond = min(stop, i + STRETCH)
        while i < beyond:
            most += np.int64(longer[data[i]])
            i += ONE
    return most


@njit(cache=True, nogil=True)
def _letters(data, offsets, table, starts, first, last, letters, ends, is_disordered):
    simple = np.zeros(128, np.uint8)  # the letter of each character of ASCII
    for code in range(128):
        if starts[code + 1] > starts[code]:
            simple[code] = table[starts[code]]
    n = np.uint64(0)
    ends[0] = 0
    for d in range(offsets.size - 1):
        i, stop, before = np.uint64(offsets[d]), np.uint64(offsets[d + 1]), np.uint8(0)
        while i < stop:
            if i + STRETCH <= stop and _is_ascii(data, i):
                for k in range(STRETCH):  # each byte is written, because a branch could not be predicted
                    letter = simple[data[i + k]]
                    letters[n] = letter
                    n += np.uint64(letter != 0)
                    before = np.uint8(0) if letter != 0 else before
                i += STRETCH
                continue
            beyond = min(stop, i + STRETCH)
            while i < beyond:
                if data[i] < 0x80:
                    letter = simple[data[i]]
                    letters[n] = letter
                    n += np.uint64(letter != 0)
                    before = np.uint8(0) if letter != 0 else before
                    i += ONE
                    continue
                code, size = code_point(data, i)
                i += size
                start, end = starts[code], starts[code + 1]
                if end > start:
                    is_disordered[d] |= 0 < first[code] < before
                    before = last[code]
                    for k in range(start, end):
                        letters[n] = table[k]
                        n += ONE
        ends[d + 1] = n


def letters_of(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], table: LetterTable
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the letters of a block of text.

    data: the texts' UTF-8 bytes, concatenated, valid. offsets: (n + 1,), where text i is
    data[offsets[i]:offsets[i + 1]].

    Returns the letters in UTF-8, their (n + 1,) ends, and the texts whose accents are not in canonical order, (n,)
    bool.
    """
    check_buffers(data, offsets)
    most = _most_bytes(data, offsets[0], offsets[-1], table.longer)
    letters = np.empty(most + 1, np.uint8)
    ends = np.empty(len(offsets), np.int64)
    is_disordered = np.zeros(len(offsets) - 1, np.bool_)
    _letters(
        data, offsets, table.letters, table.starts, table.first, table.last, letters, ends, is_disordered
    )
    return letters[: ends[-1]], ends, is_disordered
