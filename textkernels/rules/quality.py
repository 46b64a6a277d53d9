"""Counts for Gopher's quality rules: words, marks, and the begins and ends of lines. Compiled by numba.

Tokens come from `tokens.py`, which also defines the bits of the classes. Counts are integers, with a row for
each document; `textkernels.texts.prose` computes shares.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.counts import Counts, named_counts
from zyda_flows.textkernels.rules.cutting import CHARACTERS, MARKS, STOP, hash_of
from zyda_flows.textkernels.swar import between_64, bits_set, trailing_zeros
from zyda_flows.textkernels.utf8 import ALPHA, SYMBOL, code_at, first_bits, line_end, strip_text

ONE, TWO = np.uint64(1), np.uint64(2)
WHOLE = np.uint64(2**62 - 1)  # of 64 bytes: the bytes with two more after them
QUALITY = named_counts(
    "tokens", "words", "word_characters", "alphabetic_words", "stop_words", "hashes", "ellipses", "all_lines",
    "bullet_lines", "ellipsis_lines",
)  # fmt: skip
LISTED = named_counts("listed_words")
DOT, HASH, MINUS, BULLET = 46, 35, 45, 0x2022
Classes = NDArray[np.uint32]
Places = NDArray[np.int64]


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
        row = counts[d]
        row.tokens, row.words, row.word_characters = ends[d + 1] - ends[d], words, characters
        row.alphabetic_words = alphabetic
        row.stop_words = np.int64(bits_set(np.uint64(found >> np.uint32(1))))


@njit(cache=True, nogil=True)
def count_signs(data, start, stop):
    """Count # and ellipses; three dots in a row are an ellipsis."""
    hashes = ellipses = 0
    i = free = start  # no dot before `free` is part of another ellipsis
    while i < stop:
        here = first_bits(stop - i)
        first = here & WHOLE
        hashes += bits_set(between_64(data, i, HASH, HASH) & first)
        ellipsis_tail = between_64(data, i, 0x80, 0x80) >> ONE & between_64(data, i, 0xA6, 0xA6) >> TWO
        ellipses += bits_set(between_64(data, i, 0xE2, 0xE2) & ellipsis_tail & first)
        dots = between_64(data, i, DOT, DOT) & here
        dots &= dots >> ONE & dots >> TWO & WHOLE
        while dots:
            k = i + np.int64(trailing_zeros(dots))
            dots &= dots - ONE  # without its lowest bit
            if k >= free:
                ellipses += 1
                free = k + 3
        i += 62
    return hashes, ellipses


@njit(cache=True, nogil=True)
def _count_marks(data, offsets, classes, breaks, counts):
    p = 0
    for d in range(offsets.size - 1):
        i, stop, row = offsets[d], offsets[d + 1], counts[d]
        row.hashes, row.ellipses = count_signs(data, i, stop)
        lines = bullets = ends = 0
        while i < stop:
            a = i
            b, i, p = line_end(data, breaks, p, stop)
            lines += 1
            a, b = strip_text(data, a, b, classes)
            if a < b:
                bullets += data[a] == MINUS or (data[a] == 0xE2 and code_at(data, a)[0] == BULLET)
                if b - a >= 3 and (data[b - 1] == DOT or data[b - 1] == 0xA6):
                    x, y, z = data[b - 3], data[b - 2], data[b - 1]
                    ends += (x == DOT and y == DOT and z == DOT) or (x == 0xE2 and y == 0x80 and z == 0xA6)
        row.all_lines, row.bullet_lines, row.ellipsis_lines = lines, bullets, ends


@njit(cache=True, nogil=True)
def _count_listed(hashes, ends, words, starts, list_of, counts):
    seen = np.zeros(words.size, np.int64)  # for each word, the last document with it, from 1 on
    for d in range(ends.size - 1):
        found, which = 0, list_of[d]
        if which >= 0:
            first, last = starts[which], starts[which + 1]
            for t in range(ends[d], ends[d + 1]):
                place = first + np.searchsorted(words[first:last], hashes[t])
                if place < last and words[place] == hashes[t] and seen[place] != d + 1:
                    seen[place] = d + 1
                    found += 1
        counts[d].listed_words = found


def hash_of_word(word: str) -> int:
    """Return the hash of a word, which equals the hash of a token of these letters."""
    content = np.frombuffer(word.encode(), np.uint8)
    return int(hash_of(content, 0, len(content)))


class WordLists:
    """Lists of words, as hashes: list i is words[starts[i] : starts[i + 1]], ascending."""

    def __init__(self, lists: Sequence[Collection[str]]) -> None:
        hashes = [np.unique(np.array([*map(hash_of_word, words)], np.uint64)) for words in lists]
        self.words = np.concatenate([np.empty(0, np.uint64), *hashes])
        self.starts = np.cumsum([0, *map(len, hashes)])


def count_listed(hashes: NDArray[np.uint64], ends: Places, lists: WordLists, list_of: Places) -> Counts:
    """Count LISTED of each document: the number of different words of its list, (n,).

    hashes: of the tokens. list_of: (n,), the list of each document, or -1.
    """
    counts = np.zeros(len(ends) - 1, LISTED)
    _count_listed(hashes, ends, lists.words, lists.starts, list_of, counts)
    return counts


def count_quality(
    data: NDArray[np.uint8],
    offsets: Places,
    classes: Classes,
    tokens: NDArray[np.uint32],
    ends: Places,
    breaks: Places,
) -> Counts:
    """Count QUALITY of each document, (n,). breaks: from `line_breaks`."""
    counts = np.zeros(len(offsets) - 1, QUALITY)
    _count_tokens(tokens, ends, counts)
    _count_marks(data, offsets, classes, breaks, counts)
    return counts
