"""Divide texts into words, sentences, lines or paragraphs, and hash them to 128 bits. Compiled by numba.

The segments of a text are consecutive and contain all of it: a segment ends where the next begins, and the first
begins with the text. The content of a segment is without white space at its ends.

- words: between white space.
- sentences: they end after a full stop, exclamation or question mark and white space, after the wide forms of
  these, and at a line break; brackets and quotation marks behind the last character belong to the sentence.
- lines: they end after a line feed.
- paragraphs: they end after a blank line.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.sketch import GOLDEN
from zyda_flows.textkernels.utf8 import MIX_1, MIX_2, NEW_LINE, code_at, mix

KINDS = ("words", "sentences", "lines", "paragraphs")
WORDS, SENTENCES, LINES, PARAGRAPHS = range(4)
BYTES_A_SEGMENT = (3, 24, 16, 48)  # estimates for the first allocation
LATER = np.uint64(29)


class Segments(NamedTuple):
    """Segments: the first byte of each, and the begin and end of its content, (s,) each; ends: (n + 1,) by text."""

    starts: NDArray[np.int64]
    heads: NDArray[np.int64]
    tops: NDArray[np.int64]
    ends: NDArray[np.int64]


@njit(cache=True, nogil=True, inline="always")
def is_space(code):
    """Return whether `str.isspace` is true for a code point."""
    if code < 0x80:
        return code == 32 or 9 <= code <= 13 or 28 <= code <= 31
    if code < 0x2000:
        return code == 0x85 or code == 0xA0 or code == 0x1680
    return code <= 0x200A or code in (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@njit(cache=True, nogil=True, inline="always")
def is_stop(code):
    return code == 0x2E or code == 0x21 or code == 0x3F or is_wide_stop(code)


@njit(cache=True, nogil=True, inline="always")
def is_wide_stop(code):
    return code == 0x3002 or code == 0xFF01 or code == 0xFF1F


@njit(cache=True, nogil=True, inline="always")
def closes(code):
    """Return whether a character may close a sentence behind its last stop: brackets and quotation marks."""
    if code < 0x80:
        return code == 0x22 or code == 0x27 or code == 0x29 or code == 0x5D
    return code in (0xBB, 0x2019, 0x201D, 0x300D, 0x300F, 0xFF09)


@njit(cache=True, nogil=True)
def _find_segments(data, offsets, kind, starts, heads, tops, ends):
    n, room = 0, starts.size
    for d in range(offsets.size - 1):
        i, stop = offsets[d], offsets[d + 1]
        start, head, top, lines = i, np.int64(-1), np.int64(-1), 0
        is_over, has_stop, is_wide = False, False, False
        while i < stop:
            code, size = code_at(data, i)
            space = is_space(code)
            if is_wide and not closes(code) and not is_stop(code):
                is_over = True
            if is_over and (kind == LINES or not space):
                if n < room:
                    starts[n], heads[n], tops[n] = start, max(head, start), max(top, start)
                n += 1
                start, head, is_over, has_stop, is_wide, top = i, np.int64(-1), False, False, False, -1
            if not space:
                head = i if head < 0 else head
                top, lines = i + size, 0
                has_stop = is_stop(code) or (has_stop and closes(code))
                is_wide = is_wide_stop(code) or (is_wide and closes(code))
            elif code == NEW_LINE:
                lines += 1
            if kind == LINES:
                is_over = code == NEW_LINE
            elif space and head >= 0:
                if kind == WORDS:
                    is_over = True
                elif kind == SENTENCES:
                    is_over |= has_stop or code == NEW_LINE
                else:
                    is_over |= lines > 1
            if kind != SENTENCES:
                is_wide = False
            i += size
        if start < stop and (head >= 0 or kind == LINES):
            if n < room:
                starts[n], heads[n], tops[n] = start, max(head, start), max(top, start)
            n += 1
        ends[d + 1] = n
    return n


def find_segments(data: NDArray[np.uint8], offsets: NDArray[np.int64], kind: str) -> Segments:
    """Return the segments of some texts. kind: one of KINDS. A text without content has none, except lines."""
    check_buffers(data, offsets)
    number, size = KINDS.index(kind), int(offsets[-1] - offsets[0])
    room = size // BYTES_A_SEGMENT[number] + len(offsets)
    while True:
        starts, heads, tops = (np.empty(room, np.int64) for _ in range(3))
        ends = np.zeros(len(offsets), np.int64)
        n = _find_segments(data, offsets, number, starts, heads, tops, ends)
        if n <= room:
            return Segments(starts[:n], heads[:n], tops[:n], ends)
        room = n


@njit(cache=True, nogil=True)
def _hash_bytes(data, heads, tops, keys):
    for i in range(heads.size):
        high, low = GOLDEN, MIX_2
        for k in range(heads[i], tops[i]):
            high = (high + np.uint64(data[k])) * MIX_1
            high ^= high >> LATER
            low = (low ^ np.uint64(data[k] + 1)) * MIX_2
            low ^= low >> LATER
        keys[0, i], keys[1, i] = mix(high + np.uint64(tops[i] - heads[i])), mix(low)


def hash_bytes(
    data: NDArray[np.uint8], heads: NDArray[np.int64], tops: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Hash data[heads[i]:tops[i]] to 128 bits: (2, n)."""
    keys = np.empty((2, len(heads)), np.uint64)
    _hash_bytes(data, heads, tops, keys)
    return keys
