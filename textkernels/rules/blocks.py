"""Cut Markdown at its headings and its blocks of code, tables and formulas. Compiled by numba.

A document is cut into consecutive pieces of whole lines. A fence or a formula that is not closed is prose, as is a
row of a table without a line of dashes under its head.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import NEW_LINE

# Kinds of pieces: 1 to 6 are headings of this level.
PROSE, BLOCK = 0, 7
START, END, KIND = range(3)
SPACE, RETURN, HASH, DOLLAR, MINUS, COLON, BACKTICK, PIPE = 32, 13, 35, 36, 45, 58, 96, 124
LEAST_FENCE, DEEPEST = 3, 6
IN_TABLE, IN_FORMULA = -1, -2  # open blocks; an open fence is the number of its backticks
BYTES_A_PIECE = 32  # estimate for the first allocation
Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


@njit(cache=True, nogil=True)
def line_stop(data, i, stop):
    """Return the end of the line of byte i, without its new line."""
    while i < stop and data[i] != NEW_LINE:
        i += 1
    return i


@njit(cache=True, nogil=True)
def trim(data, a, b):
    """Return the begin and end of a line without the spaces around it."""
    while a < b and data[a] == SPACE:
        a += 1
    while b > a and (data[b - 1] == SPACE or data[b - 1] == RETURN):
        b -= 1
    return a, b


@njit(cache=True, nogil=True)
def run_of(data, a, b, byte):
    """Return how many times a byte is repeated at the beginning."""
    i = a
    while i < b and data[i] == byte:
        i += 1
    return i - a


@njit(cache=True, nogil=True)
def is_row(data, a, b):
    return b - a > 1 and data[a] == PIPE and data[b - 1] == PIPE


@njit(cache=True, nogil=True)
def is_rule(data, a, b):
    """Return whether a line is the rule under the head of a table."""
    dashes = 0
    for i in range(a, b):
        byte = data[i]
        dashes += byte == MINUS
        if byte != MINUS and byte != PIPE and byte != COLON and byte != SPACE:
            return False
    return dashes > 0 and is_row(data, a, b)


@njit(cache=True, nogil=True)
def ends_formula(data, a, b):
    return b - a >= 2 and data[b - 1] == DOLLAR and data[b - 2] == DOLLAR


@njit(cache=True, nogil=True)
def opening(data, a, b, after, stop):
    """Return the kind of a line in prose, and the block it opens: a number of backticks, IN_TABLE or IN_FORMULA.

    after: the begin of the next line.
    """
    fence = run_of(data, a, b, BACKTICK)
    if fence >= LEAST_FENCE:
        for i in range(a + fence, b):
            if data[i] == BACKTICK:
                return PROSE, 0
        return BLOCK, fence
    level = run_of(data, a, b, HASH)
    if 0 < level <= DEEPEST and a + level < b and data[a + level] == SPACE:
        return level, 0
    if is_row(data, a, b):
        next_a, next_b = trim(data, after, line_stop(data, after, stop))
        return (BLOCK, IN_TABLE) if is_rule(data, next_a, next_b) else (PROSE, 0)
    if run_of(data, a, b, DOLLAR) == 2:
        return BLOCK, 0 if b - a > 4 and ends_formula(data, a, b) else IN_FORMULA
    return PROSE, 0


@njit(cache=True, nogil=True)
def add(pieces, n, first, start, stop, kind):
    """Write a piece after the n-th, or extend the last piece, and return the new number of pieces.

    The pieces of a document begin with number `first`. Nothing is written if there is no room.
    """
    if kind == PROSE and n > first and n <= len(pieces) and pieces[n - 1, KIND] == PROSE:
        pieces[n - 1, END] = stop
        return n
    if n < len(pieces):
        pieces[n, START], pieces[n, END], pieces[n, KIND] = start, stop, kind
    return n + 1


@njit(cache=True, nogil=True)
def cut_document(data, start, stop, pieces, first):
    """Write the pieces of a document from number `first` on; return the number of all pieces."""
    n, opened, block = first, 0, start  # the open block, and its begin
    i = start
    while i < stop:
        b = line_stop(data, i, stop)
        after = min(b + 1, stop)
        text, end = trim(data, i, b)
        if opened == IN_TABLE and not is_row(data, text, end):
            n, opened = add(pieces, n, first, block, i, BLOCK), 0
        elif opened == IN_FORMULA and (text == end or data[text] == BACKTICK):
            n, opened = add(pieces, n, first, block, i, PROSE), 0
        if opened == 0:
            kind, opened = opening(data, text, end, after, stop)
            block = i
            if opened == 0:
                n = add(pieces, n, first, i, after, kind)
        elif opened > 0:
            fence = run_of(data, text, end, BACKTICK)
            if fence >= opened and text + fence == end:
                n, opened = add(pieces, n, first, block, after, BLOCK), 0
        elif opened == IN_FORMULA and ends_formula(data, text, end):
            n, opened = add(pieces, n, first, block, after, BLOCK), 0
        i = after
    if opened:
        n = add(pieces, n, first, block, stop, BLOCK if opened == IN_TABLE else PROSE)
    return n


@njit(cache=True, nogil=True)
def _cut(data, offsets, pieces, ends):
    n = 0
    for d in range(offsets.size - 1):
        n = cut_document(data, offsets[d], offsets[d + 1], pieces, n)
        ends[d + 1] = n
    return n


def cut(data: Bytes, offsets: Places) -> tuple[Places, Places]:
    """Return the pieces of documents, (m, 3) int64: START, END and KIND; and their ends by document, (n + 1,)."""
    ends = np.zeros(len(offsets), np.int64)
    pieces = np.empty((len(offsets) + int(offsets[-1] - offsets[0]) // BYTES_A_PIECE, 3), np.int64)
    n = _cut(data, offsets, pieces, ends)
    if n > len(pieces):
        # Without room, each line of prose is counted: n is an upper bound of the pieces.
        pieces = np.empty((n, 3), np.int64)
        n = _cut(data, offsets, pieces, ends)
    return pieces[:n], ends


@njit(cache=True, nogil=True)
def _write_prose(data, pieces, ends, out, offsets):
    n = 0
    for d in range(ends.size - 1):
        first, is_after_block = n, False
        for p in range(ends[d], ends[d + 1]):
            i, stop, kind = pieces[p, START], pieces[p, END], pieces[p, KIND]
            if kind == BLOCK:
                is_after_block = True
                continue
            while is_after_block and i < stop and data[i] == NEW_LINE:
                i += 1
            if kind != PROSE:
                i = trim(data, i, stop)[0] + kind + 1
            is_after_block = is_after_block and i >= stop
            for k in range(i, stop):
                if data[k] != BACKTICK:
                    out[n] = data[k]
                    n += 1
        while is_after_block and n > first and out[n - 1] == NEW_LINE:
            n -= 1
        offsets[d + 1] = n
    return n


def prose_of(data: Bytes, offsets: Places) -> tuple[Bytes, Places]:
    """Return documents without blocks and the marks of headings and code: UTF-8 and offsets, (n + 1,)."""
    pieces, ends = cut(data, offsets)
    out, out_offsets = np.empty(int(offsets[-1] - offsets[0]), np.uint8), np.zeros(len(offsets), np.int64)
    n = _write_prose(data, pieces, ends, out, out_offsets)
    return out[:n], out_offsets


@njit(cache=True, nogil=True)
def _keep_headings(pieces, ends, is_kept):
    """Drop the headings of empty sections: with nothing before the next heading of their level or above."""
    for d in range(ends.size - 1):
        under = 0  # a bit for each level, set if its section is not empty
        for p in range(ends[d + 1] - 1, ends[d] - 1, -1):
            level = pieces[p, KIND]
            if level in (PROSE, BLOCK):
                under = 0xFF if is_kept[p] else under
                continue
            is_kept[p] = under >> level & 1 == 1
            under &= (1 << level) - 1


@njit(cache=True, nogil=True)
def copy(data, i, stop, out, n):
    for k in range(i, stop):
        out[n] = data[k]
        n += 1
    return n


@njit(cache=True, nogil=True)
def within(data, pieces, p, first, last):
    """Return the begin and end of a piece without the new lines next to other pieces."""
    i, stop = pieces[p, START], pieces[p, END]
    while p > first and i < stop and data[i] == NEW_LINE:
        i += 1
    while p + 1 < last and stop > i and data[stop - 1] == NEW_LINE:
        stop -= 1
    return i, stop


@njit(cache=True, nogil=True)
def _write_pieces(data, pieces, ends, out, offsets):
    n = k = 0
    for d in range(ends.size - 1):
        for p in range(ends[d], ends[d + 1]):
            if pieces[p, KIND] == PROSE:
                i, stop = within(data, pieces, p, ends[d], ends[d + 1])
                n, k = copy(data, i, stop, out, n), k + 1
                offsets[k] = n
    return n


def prose_pieces(data: Bytes, pieces: Places, ends: Places) -> tuple[Bytes, Places]:
    """Return the pieces of prose from `cut` as texts, (k,): UTF-8 and offsets, (k + 1,)."""
    is_prose = pieces[:, KIND] == PROSE
    out = np.empty(int((pieces[:, END] - pieces[:, START])[is_prose].sum()), np.uint8)
    offsets = np.zeros(int(is_prose.sum()) + 1, np.int64)
    n = _write_pieces(data, pieces, ends, out, offsets)
    return out[:n], offsets


@njit(cache=True, nogil=True)
def is_apart(data, pieces, p, is_kept):
    """Return whether an empty line comes before a piece: if there was one, or if the piece before was dropped."""
    i = pieces[p, START]
    return not is_kept[p - 1] or data[i - 2] == NEW_LINE or data[i] == NEW_LINE


@njit(cache=True, nogil=True)
def _join(data, pieces, ends, is_kept, prose, prose_offsets, out, offsets):
    n = k = 0
    for d in range(ends.size - 1):
        first = n
        for p in range(ends[d], ends[d + 1]):
            is_prose = pieces[p, KIND] == PROSE
            if is_kept[p]:
                for _ in range(0 if n == first else 1 + is_apart(data, pieces, p, is_kept)):
                    out[n] = NEW_LINE
                    n += 1
                if is_prose:
                    n = copy(prose, prose_offsets[k], prose_offsets[k + 1], out, n)
                else:
                    i, stop = within(data, pieces, p, ends[d], ends[d + 1])
                    n = copy(data, i, stop, out, n)
            k += is_prose
        offsets[d + 1] = n
    return n


def join(
    data: Bytes, pieces: Places, ends: Places, prose: Bytes, prose_offsets: Places
) -> tuple[Bytes, Places]:
    """Replace the pieces of prose by other texts, (k,).

    pieces, ends: from `cut`. Returns UTF-8 and offsets, (n + 1,). Empty prose is dropped, as are the headings of
    empty sections.
    """
    is_prose = pieces[:, KIND] == PROSE
    is_kept = np.ones(len(pieces), np.bool_)
    is_kept[is_prose] = np.diff(prose_offsets) > 0
    _keep_headings(pieces, ends, is_kept)
    block_bytes = int((pieces[:, END] - pieces[:, START])[~is_prose].sum())
    out = np.empty(block_bytes + int(prose_offsets[-1] - prose_offsets[0]) + 2 * len(pieces), np.uint8)
    offsets = np.zeros(len(ends), np.int64)
    n = _join(data, pieces, ends, is_kept, prose, prose_offsets, out, offsets)
    return out[:n], offsets
