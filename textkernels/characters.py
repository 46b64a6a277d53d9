"""Code points of texts, and the bytes where they begin. Compiled by numba."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import code_at

STEP = 64  # code points between two stored places


class CodePoints(NamedTuple):
    """The code points of some texts.

    codes: (c,) uint32. ends: (n + 1,) by text. data: (b,) uint8, all bytes. places: of every STEP-th code point the
    first byte, a little more than 1/STEP of (c,) int64.
    """

    codes: NDArray[np.uint32]
    ends: NDArray[np.int64]
    data: NDArray[np.uint8]
    places: NDArray[np.int64]

    def first_bytes(self, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where code points begin, (m,) to (m,); of code point c, where the last one ends."""
        found = np.empty(len(characters), np.int64)
        _first_bytes(self.data, self.places, characters, found)
        return found


@njit(cache=True, nogil=True)
def _count(data, start, stop):
    n = 0
    for i in range(start, stop):
        n += data[i] & 0xC0 != 0x80
    return n


@njit(cache=True, nogil=True)
def _decode(data, offsets, codes, ends, places):
    n = 0
    for d in range(offsets.size - 1):
        i = offsets[d]
        while i < offsets[d + 1]:
            if n % STEP == 0:
                places[n // STEP] = i
            codes[n], size = code_at(data, i)
            n += 1
            i += size
        ends[d + 1] = n
    if n % STEP == 0:
        places[n // STEP] = offsets[-1]


@njit(cache=True, nogil=True)
def _first_bytes(data, places, characters, found):
    for row in range(characters.size):
        at = places[characters[row] // STEP]
        for _ in range(characters[row] % STEP):
            at += 1
            while at < data.size and data[at] & 0xC0 == 0x80:
                at += 1
        found[row] = at


@njit(cache=True, nogil=True)
def _characters_before(data, order, places, found):
    n, i = 0, 0
    for row in order:
        n += _count(data, i, places[row])
        i = places[row]
        found[row] = n


def find_characters(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> CodePoints:
    """Return the code points of some texts of valid UTF-8. offsets: (n + 1,), from 0 to len(data)."""
    check_buffers(data, offsets)
    count = _count(data, 0, len(data))
    codes, ends = np.empty(count, np.uint32), np.zeros(len(offsets), np.int64)
    places = np.empty(count // STEP + 1, np.int64)
    _decode(data, offsets, codes, ends, places)
    return CodePoints(codes, ends, data, places)


def is_ascii(data: NDArray[np.uint8]) -> bool:
    return len(data) == 0 or int(data.max()) < 0x80


def characters_before(data: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of code points before some bytes, in any order: (m,) to (m,)."""
    found = np.empty(len(places), np.int64)
    _characters_before(data, np.argsort(places), places, found)
    return found
