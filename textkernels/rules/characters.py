"""Count the characters of documents by class, and remove or replace characters. Compiled by numba.

A class is a set of bits; a table has one for each code point (see `textkernels.texts.classes`). ASCII is counted 64
bytes at a time, without the table.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.counts import Counts, named_counts
from zyda_flows.textkernels.swar import bits_set, same_64, within_64
from zyda_flows.textkernels.utf8 import code_point

CODE_POINTS = 0x110000
WORD, SPACE, DIGIT, CUT = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)
COUNTED = named_counts("characters", "others", "digits", "cuts", "runs")
LEAST_RUN = 7  # equal characters that count as a run
LANES, ALL = 64, np.uint64(2**64 - 1)
AS_IT_IS, LEFT_OUT, NEW_LINE = (
    np.uint8(0),
    np.uint8(1),
    np.uint8(2),
)  # a character is kept, removed or replaced
ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def add_64(data, i, mask, row):
    """Count the characters of 64 bytes that a mask selects; return whether some are beyond ASCII."""
    letters = within_64(data, i, 65, 90) | within_64(data, i, 97, 122) | within_64(data, i, 95, 95)  # _
    digits, spaces = within_64(data, i, 48, 57), within_64(data, i, 9, 13) | within_64(data, i, 28, 32)
    beyond, inner = within_64(data, i, 0x80, 0xFF) & mask, within_64(data, i, 0x80, 0xBF)
    words = letters | digits
    cuts = spaces | within_64(data, i, 45, 47) | within_64(data, i, 92, 92)  # - . / and backslash
    runs = words & ~same_64(data, i - 1)
    for k in range(LEAST_RUN - 1):
        runs &= same_64(data, i + k)
    row.characters += bits_set(~inner & mask)
    row.others += bits_set(~(words | spaces | beyond) & mask)
    row.digits += bits_set(digits & mask)
    row.cuts += bits_set(cuts & mask)
    row.runs += bits_set(runs & mask)
    return beyond != 0


@njit(cache=True, nogil=True)
def add_beyond(data, start, stop, classes, row):
    """Count the characters beyond ASCII, except in `characters`."""
    i, before, after, length = np.uint64(start), np.uint32(0), np.uint64(start), 0
    while i < np.uint64(stop):
        if data[i] < 0x80:
            i += ONE
            continue
        code, size = code_point(data, i)
        bits = classes[code]
        row.others += bits & (WORD | SPACE) == 0
        row.digits += bits & DIGIT != 0
        row.cuts += bits & CUT != 0
        length = length + 1 if code == before and i == after else 1
        row.runs += (length == LEAST_RUN) & (bits & WORD != 0)
        i += size
        before, after = code, i


@njit(cache=True, nogil=True)
def _count(data, offsets, classes, counts):
    edge = np.zeros(1 + LANES + LEAST_RUN, np.uint8)  # bytes at an end of a text, with the byte before them
    for d in range(offsets.size - 1):
        start, stop, row = offsets[d], offsets[d + 1], counts[d]
        has_others = False
        for i in range(start, stop, LANES):
            if i > start and i + LANES + LEAST_RUN <= stop:
                has_others |= add_64(data, i, ALL, row)
                continue
            some = min(stop - i, edge.size - 1)
            edge[0] = data[i - 1] if i > start else 0
            edge[1 : 1 + some], edge[1 + some :] = data[i : i + some], 0
            mask = ALL >> np.uint64(LANES - min(some, LANES))
            has_others |= add_64(edge, 1, mask, row)
        if has_others:
            add_beyond(data, start, stop, classes, row)


def count(data: NDArray[np.uint8], offsets: NDArray[np.int64], classes: NDArray[np.uint8]) -> Counts:
    """Count COUNTED of each document, (n,).

    These are its characters, the characters that are neither of a word nor white space, digits, the characters at
    which words are cut, and runs of at least LEAST_RUN of one character of a word.

    data: the documents' UTF-8 bytes, valid. offsets: (n + 1,). classes: (0x110000,) uint8.
    """
    counts = np.zeros(len(offsets) - 1, COUNTED)
    _count(data, offsets, classes, counts)
    return counts


@njit(cache=True, nogil=True)
def _has_long_runs(data, offsets, longest, found):
    for d in range(offsets.size - 1):
        i, stop = np.uint64(offsets[d]), np.uint64(offsets[d + 1])
        before, length = np.uint32(0xFFFFFFFF), 0
        while i < stop and not found[d]:
            first = data[i]
            if first < 0x80:
                code = np.uint32(first)
                i += ONE
            else:
                code, size = code_point(data, i)
                i += size
            length = length + 1 if code == before else 1
            before = code
            found[d] = length > longest[code]


@njit(cache=True, nogil=True)
def _shorten(data, offsets, longest, out, ends):
    n = np.uint64(0)
    ends[0] = 0
    for d in range(offsets.size - 1):
        i, stop = np.uint64(offsets[d]), np.uint64(offsets[d + 1])
        before, size_before, length, run = np.uint32(0xFFFFFFFF), ONE, np.uint32(0), n
        most = np.uint32(0xFFFFFFFF)
        while i < stop:
            first = data[i]
            if first < 0x80:
                code, size = np.uint32(first), ONE
            else:
                code, size = code_point(data, i)
            if code != before:
                # A run is written completely; if it is too long, all but its first character are then discarded.
                n = run + size_before if length > most else n
                before, size_before, length, run = code, size, np.uint32(0), n
                most = longest[code]
            length += np.uint32(1)
            for k in range(size):
                out[n] = data[i + np.uint64(k)]
                n += ONE
            i += size
        n = run + size_before if length > most else n
        ends[d + 1] = np.int64(n)


def has_long_runs(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], longest: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Return the documents with a run of one character that is longer than allowed: (n,) bool.

    longest: (0x110000,) uint32, the longest run allowed for each code point.
    """
    found = np.zeros(len(offsets) - 1, np.bool_)
    _has_long_runs(data, offsets, longest, found)
    return found


def shorten(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], longest: NDArray[np.uint32]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Reduce each run that is longer than allowed to one character. Returns the texts, uint8, and (n + 1,) ends."""
    out = np.empty(int(offsets[-1] - offsets[0]), np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    _shorten(data, offsets, longest, out, ends)
    return out[: ends[-1]], ends


@njit(cache=True, nogil=True)
def _has_any(data, offsets, kinds, found):
    for d in range(offsets.size - 1):
        i, stop = np.uint64(offsets[d]), np.uint64(offsets[d + 1])
        while i < stop and not found[d]:
            code, size = code_point(data, i)
            i += size
            found[d] = kinds[code] != AS_IT_IS


@njit(cache=True, nogil=True)
def _without(data, offsets, kinds, out, ends):
    n = np.uint64(0)
    ends[0] = 0
    for d in range(offsets.size - 1):
        i, stop = np.uint64(offsets[d]), np.uint64(offsets[d + 1])
        while i < stop:
            code, size = code_point(data, i)
            end = i + size
            if kinds[code] == AS_IT_IS:
                while i < end:
                    out[n] = data[i]
                    n += ONE
                    i += ONE
            elif kinds[code] == NEW_LINE:
                out[n] = np.uint8(10)
                n += ONE
                if code == 13 and end < stop and data[end] == 10:
                    end += ONE
            i = end
        ends[d + 1] = np.int64(n)


def has_any(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], kinds: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Return the documents with a character that is removed or replaced: (n,) bool.

    kinds: (0x110000,) uint8, for each code point AS_IT_IS, LEFT_OUT or NEW_LINE.
    """
    found = np.zeros(len(offsets) - 1, np.bool_)
    _has_any(data, offsets, kinds, found)
    return found


def without(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], kinds: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    r"""Remove characters, or replace them by \n, with a single line end for \r\n.

    Returns the texts, uint8, and (n + 1,) ends.
    """
    out = np.empty(int(offsets[-1] - offsets[0]), np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    _without(data, offsets, kinds, out, ends)
    return out[: ends[-1]], ends
