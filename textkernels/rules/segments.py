"""Find the segments of texts that a repair may change; most segments are lines. Compiled by numba.

A table has for each code point a set of bits that matter for a repair; `textkernels.texts.repair` fills
it. `kinds` and `follows` define which neighbours may be mojibake; see `textkernels.texts.mojibake`.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import code_point

# Bits of a character: it ends a segment, it is <, it is &, it is changed, it may join another, it can be part of
# mojibake with the next one, or ftfy must decide about it.
NEWLINE, LESS, AND, CHANGED, JOINS, SUSPECT, JUDGED = (np.uint8(1 << bit) for bit in range(7))
# Further bits of a segment: it has an entity of HTML, and it may have mojibake.
ENTITY, MOJIBAKE = np.int64(1 << 8), np.int64(1 << 9)
Tables = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.bool_]]  # bits, kinds, follows
REPAIRABLE = np.int64(CHANGED | JOINS | JUDGED) | MOJIBAKE  # the segment may change
LONGEST_ENTITY = 24
ONE = np.uint64(1)
NEVER, UNLESS_LESS, ALWAYS = 0, 1, 2  # when entities are unescaped


@njit(cache=True, nogil=True, inline="always")
def is_letter(code):
    lower = code | 0x20
    return (lower >= 0x61) & (lower <= 0x7A)


@njit(cache=True, nogil=True)
def is_entity(data, i, stop):
    """Return whether the rest of an entity begins at byte i, after an &: optional #, letters or digits, and ;."""
    if i < stop and data[i] == 0x23:
        i += ONE
    start = i
    while i < stop and (is_letter(data[i]) or (data[i] >= 0x30) & (data[i] <= 0x39)):
        i += ONE
    return i < stop and data[i] == 0x3B and i > start and i - start <= LONGEST_ENTITY


@njit(cache=True, nogil=True)
def _segment(data, i, stop, bits, kinds, follows, longest):
    """Return the end of the segment that begins at byte i, and its bits."""
    found, before, kind, length = np.int64(0), np.uint8(0), np.uint8(0), 0
    while i < stop and length < longest:
        code, size = code_point(data, i)
        i += size
        length += 1
        character_bits = bits[code]
        if character_bits | before:
            found |= character_bits
            if before & SUSPECT and follows[kind, kinds[code]]:
                found |= MOJIBAKE
            kind = kinds[code]
            if character_bits & AND and is_entity(data, i, stop):
                found |= ENTITY
            if character_bits & NEWLINE:
                break
        before = character_bits
    return i, found


@njit(cache=True, nogil=True)
def _text_bits(data, bits, kinds, follows):
    i, stop, found = np.uint64(0), np.uint64(data.size), np.int64(0)
    while i < stop:
        i, more = _segment(data, i, stop, bits, kinds, follows, data.size)
        found |= more
    return found


def text_bits(text: bytes, tables: Tables) -> int:
    """Return the bits of a text."""
    return int(_text_bits(np.frombuffer(text, np.uint8), *tables))


@njit(cache=True, nogil=True)
def _find(data, offsets, bits, kinds, follows, longest, unescapes, only_first, out):
    """Write each segment that may change, or the first of each text, if there is room; return their number."""
    n = 0
    for d in range(offsets.size - 1):
        i, stop = np.uint64(offsets[d]), np.uint64(offsets[d + 1])
        now = unescapes
        while i < stop:
            start = i
            i, found = _segment(data, i, stop, bits, kinds, follows, longest)
            if now == UNLESS_LESS and found & LESS:
                now = NEVER
            if now == NEVER:
                found &= ~ENTITY
            if found & (REPAIRABLE | ENTITY):
                if n < len(out):
                    out[n, 0], out[n, 1], out[n, 2], out[n, 3], out[n, 4] = d, start, i, found, now
                n += 1
                if only_first:
                    break
    return n


def may_change(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    tables: Tables,
    longest: int,
    unescapes: int,
) -> NDArray[np.bool_]:
    """Return the texts with a segment that a repair may change: (n,) bool.

    data: the texts' UTF-8 bytes, valid. offsets: (n + 1,). longest: most characters of a segment. unescapes: NEVER,
    UNLESS_LESS (up to the first segment with a <) or ALWAYS.
    """
    found = np.zeros((len(offsets) - 1, 5), np.int64)
    n = _find(data, offsets, *tables, longest, unescapes, True, found)
    is_worth = np.zeros(len(offsets) - 1, np.bool_)
    is_worth[found[:n, 0]] = True
    return is_worth


def repairable_segments(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    tables: Tables,
    longest: int,
    unescapes: int,
) -> NDArray[np.int64]:
    """Return the segments that a repair may change: (m, 5) int64. Arguments as for `may_change`.

    The columns are the text, the first byte, the end, the bits of the segment, and the value of `unescapes` there.
    """
    none = np.zeros((0, 5), np.int64)
    out = np.zeros((_find(data, offsets, *tables, longest, unescapes, False, none), 5), np.int64)
    _find(data, offsets, *tables, longest, unescapes, False, out)
    return out
