"""Apply C4's rules for lines to documents: count sentences, and keep lines. Compiled by numba.

c4_rules.py has the rules. tokens.py defines the bits of `classes`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.counts import Counts, named_counts
from zyda_flows.textkernels.rules.c4_rules import judge_lines
from zyda_flows.textkernels.utf8 import NEW_LINE, PERIOD, PUNCTUATION, stripped

# Copies of constants in tokens.py and c4_rules.py, because numba's cache does not notice changes of other files.
START, END, CHARACTERS, MARKS = range(4)
LOREM, CURLY, KEPT, REWRITTEN = 1, 2, 4, 8
C4 = named_counts("lorem_ipsum", "curly_brackets", "sentences")
ONE = np.uint64(1)
Bytes = NDArray[np.uint8]
Classes = NDArray[np.uint32]
Tokens = NDArray[np.uint32]
Places = NDArray[np.int64]


@njit(cache=True, nogil=True)
def sentences_of(data, base, tokens, t, last, stop):
    """Count the sentences of the tokens from t on that begin before byte `stop`; return also the next token.

    White space between tokens, except a single space, counts as a token.
    """
    sentences, is_over, first = 0, False, np.uint64(t)
    k, stop_at, end = first, np.uint32(min(stop, 0xFFFFFFFF)), np.uint64(last)
    while k < end and tokens[k, START] < stop_at:
        marks = tokens[k, MARKS]
        if is_over:
            before = np.int64(tokens[k - ONE, END])
            gap = np.int64(tokens[k, START]) - before
            if gap > 1 or (gap == 1 and data[base + before] != 32) or marks & (PUNCTUATION | PERIOD) == 0:
                sentences += 1
                is_over = False
        is_over |= marks & PERIOD != 0
        k += ONE
    return sentences + (k > first), np.int64(k)


@njit(cache=True, nogil=True)
def _count_c4(data, offsets, tokens, ends, lines, line_ends, counts, other_ends, owners):
    """Count everything but the sentences of rewritten lines; return the number of rewritten lines."""
    others = 0
    for d in range(offsets.size - 1):
        base, t, last = offsets[d], ends[d], ends[d + 1]
        for line in range(line_ends[d], line_ends[d + 1]):
            a, b, verdict = np.int64(lines[line, 0]), np.int64(lines[line, 1]), lines[line, 2]
            counts[d].lorem_ipsum += verdict & LOREM != 0
            counts[d].curly_brackets += verdict & CURLY != 0
            if verdict & KEPT and verdict & REWRITTEN:
                owners[others] = d
                others += 1
                other_ends[others] = other_ends[others - 1] + np.int64(lines[line, 3])
            elif verdict & KEPT:
                while t < last and np.int64(tokens[t, START]) < a:
                    t += 1
                sentences, t = sentences_of(data, base, tokens, t, last, b)
                counts[d].sentences += sentences
    return others


@njit(cache=True, nogil=True)
def _count_sentences(data, offsets, tokens, ends, owners, counts):
    for line in range(ends.size - 1):
        sentences, _ = sentences_of(
            data, offsets[line], tokens, ends[line], ends[line + 1], np.int64(1) << 60
        )
        counts[owners[line]].sentences += sentences


def count_c4(
    data: Bytes,
    offsets: Places,
    classes: Classes,
    terminal: bool,
    tokens: Tokens,
    ends: Places,
    retokenize: Callable[[Bytes, Places], tuple[Tokens, Places]],
    breaks: Places,
) -> Counts:
    """Count C4 of each document, (n,): its lines, and the sentences of the lines that C4 keeps.

    retokenize: returns the tokens and ends of rewritten lines, from which citations were removed.
    breaks: from `line_breaks`.
    """
    lines, line_ends, other = judge_lines(data, offsets, classes, terminal, breaks)
    counts = np.zeros(len(offsets) - 1, C4)
    other_ends, owners = np.zeros(len(lines) + 1, np.int64), np.empty(len(lines), np.int64)
    others = _count_c4(data, offsets, tokens, ends, lines, line_ends, counts, other_ends, owners)
    if others:
        other_ends = other_ends[: others + 1]
        _count_sentences(other, other_ends, *retokenize(other, other_ends), owners, counts)
    return counts


@njit(cache=True, nogil=True)
def copy(data, a, b, out, first, n):
    """Write the bytes from a to b to index n, as a line after those from `first` on; return the next index."""
    k = np.uint64(n)
    if n > first:
        out[k] = NEW_LINE
        k += ONE
    for i in range(np.uint64(a), np.uint64(b)):
        out[k] = data[i]
        k += ONE
    return np.int64(k)


@njit(cache=True, nogil=True)
def keep(data, start, stop, classes, lines, line, end, rewritten, done, out, first):
    """Write the kept lines of a document from index `first` on, unless they are the whole document.

    Return the next index, the end of the rewritten lines that were read, and whether the document changes.
    """
    n, low, high = first, start, start
    is_changed, has_run = False, False
    for k in range(line, end):
        a, b, verdict, size = (
            start + np.int64(lines[k, 0]),
            start + np.int64(lines[k, 1]),
            lines[k, 2],
            lines[k, 3],
        )
        if verdict & KEPT == 0:
            continue
        if has_run and not verdict & REWRITTEN and a == high + 1 and data[high] == NEW_LINE:
            high = b
            continue
        if has_run:
            n = copy(data, low, high, out, first, n)
            is_changed = True
        has_run, low, high = not verdict & REWRITTEN, a, b
        if not has_run:
            n = copy(rewritten, done, done + np.int64(size), out, first, n)
            done += np.int64(size)
            is_changed = True
    if not is_changed and low == start and high == stop:
        return first, done, False
    if has_run:
        n = copy(data, low, high, out, first, n)
    # A line without its citation may have white space around it.
    a, b = stripped(out, first, n, classes)
    if a > first:
        copy(out, a, b, out, first, first)
    return first + b - a, done, True


@njit(cache=True, nogil=True)
def _keep_c4(data, offsets, classes, lines, line_ends, rewritten, out, ends, is_changed):
    """Write the changed texts, and their ends; return their number."""
    n = done = 0
    for d in range(offsets.size - 1):
        end, done, is_changed[d] = keep(
            data, offsets[d], offsets[d + 1], classes, lines, line_ends[d], line_ends[d + 1], rewritten, done, out,
            ends[n],
        )  # fmt: skip
        if is_changed[d]:
            n += 1
            ends[n] = end
    return n


def keep_c4_lines(
    data: Bytes, offsets: Places, classes: Classes, terminal: bool, breaks: Places
) -> tuple[NDArray[np.bool_], Bytes, Places]:
    """Return the documents that C4's rules for lines change, (n,) bool, and their new texts.

    The texts are the bytes of the kept lines, uint8, and their ends, after a 0.
    """
    out, ends = np.empty(int(offsets[-1] - offsets[0]), np.uint8), np.zeros(len(offsets), np.int64)
    is_changed = np.zeros(len(offsets) - 1, np.bool_)
    lines, line_ends, rewritten = judge_lines(data, offsets, classes, terminal, breaks)
    n = _keep_c4(data, offsets, classes, lines, line_ends, rewritten, out, ends, is_changed)
    return is_changed, out[: ends[n]], ends[: n + 1]
