"""C4's rules for the lines of documents. Compiled by numba.

Lines end as in `str.splitlines`, without the white space around them. tokens.py defines the bits of `classes`.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.swar import between_64, bits_set, letters_64, trailing_zeros
from zyda_flows.textkernels.utf8 import DECIMAL, SPACE, code_at, first_bits, line_end, matches_at, strip_text

ONE, TWO, LAST_BIT = np.uint64(1), np.uint64(2), np.uint64(63)
DOT = 46
# Bits: the matches in a line, and the verdict on it.
LOREM, CURLY, KEPT, REWRITTEN, SCRIPT, POLICY, CITED = 1, 2, 4, 8, 16, 32, 64
FEWEST_WORDS, LONGEST_WORD = 3, 1000
TRUSTED = 62  # of 64 bytes: the bytes with two more after them
JAVASCRIPT, PRIVACY, COOKIE_POLICY, USE_COOKIES, USES_COOKIES, USE_OF_COOKIES, TERMS, LOREM_IPSUM = (
    np.frombuffer(phrase, np.uint8)
    for phrase in (
        b"javascript", b"privacy policy", b"cookie policy", b"use cookies", b"uses cookies", b"use of cookies",
        b"terms of use", b"lorem ipsum",
    )
)  # fmt: skip
EDIT, CITATION = np.frombuffer(b"edit]", np.uint8), np.frombuffer(b"citation needed]", np.uint8)
LEAST_BYTES = 5  # of a line with FEWEST_WORDS


@njit(cache=True, nogil=True)
def citation_size(data, i, b, classes):
    """Return the bytes of [1], [edit] or [citation needed] that begins with the bracket at i; 0 if none does."""
    j = i + 1
    for phrase in (EDIT, CITATION):
        if j + len(phrase) <= b:
            is_same = True
            for k in range(len(phrase)):
                is_same &= data[j + k] == phrase[k]
            if is_same:
                return 1 + len(phrase)
    while j < b:
        code, size = code_at(data, j)
        if classes[code] & DECIMAL == 0:
            break
        j += size
    return j + 1 - i if j < b and data[j] == 93 else 0


@njit(cache=True, nogil=True)
def match_at(data, i, a, b, classes):
    """Return the phrase or bracket of C4's rules of which byte i is the rare byte."""
    low, matched = data[i] | 32, 0
    if low == 123:  # [ and {
        matched = CURLY if data[i] == 123 else CITED if citation_size(data, i, b, classes) else 0
    elif low == 106:  # j
        matched = SCRIPT if matches_at(data, i, a, b, JAVASCRIPT) else 0
    elif low == 118:  # v
        matched = POLICY if matches_at(data, i - 3, a, b, PRIVACY) else 0
    elif low == 107:  # k
        is_policy = matches_at(data, i - 3, a, b, COOKIE_POLICY) or matches_at(data, i - 7, a, b, USE_COOKIES)
        is_policy |= matches_at(data, i - 8, a, b, USES_COOKIES) or matches_at(
            data, i - 10, a, b, USE_OF_COOKIES
        )
        matched = POLICY if is_policy else 0
    elif low == 102:  # f
        matched = POLICY if matches_at(data, i - 7, a, b, TERMS) else 0
    elif low == 109:  # m
        matched = LOREM if matches_at(data, i - 4, a, b, LOREM_IPSUM) else 0
    return matched


@njit(cache=True, nogil=True)
def find(data, a, b, classes, places, kinds, n):
    """Write C4's phrases and brackets from index n on; return the next index."""
    i = a
    while i < b:
        # { and [, and rare parts of the phrases: ja, vac, kie, f u and m i
        second = letters_64(data, i, 97) >> ONE
        count = letters_64(data, i, 123) | letters_64(data, i, 106) & second
        count |= letters_64(data, i, 118) & second & letters_64(data, i, 99) >> TWO
        kie = letters_64(data, i, 105) >> ONE & letters_64(data, i, 101) >> TWO
        count |= letters_64(data, i, 107) & kie
        before_u = letters_64(data, i, 102) & letters_64(data, i, 117) >> TWO
        before_i = letters_64(data, i, 109) & letters_64(data, i, 105) >> TWO
        count |= (before_u | before_i) & letters_64(data, i, 32) >> ONE
        count &= first_bits(min(b - i, TRUSTED))
        while count:
            k = i + np.int64(trailing_zeros(count))
            count &= count - ONE  # without its lowest bit
            matched = match_at(data, k, a, b, classes)
            if matched:
                places[n], kinds[n] = k - a, matched
                n += 1
        i += TRUSTED
    return n


@njit(cache=True, nogil=True)
def without_citations(data, a, b, classes, out):
    """Write the bytes from a to b without [1], [edit] and [citation needed]; return how many were written."""
    n, i = 0, a
    while i < b:
        size = citation_size(data, i, b, classes) if data[i] == 91 else 0
        if size == 0:
            out[n] = data[i]
            n += 1
        i += max(size, 1)
    return n


@njit(cache=True, nogil=True)
def has_words_slowly(data, a, b, classes):
    """Return the result of `has_words`, for any text."""
    words = longest = length = 0
    i, end = np.uint64(a), np.uint64(b)
    while i < end:
        first = data[i]
        if first < 0x80:
            bits = classes[first]
            i += ONE
        else:
            code, size = code_at(data, np.int64(i))
            bits = classes[code]
            i += np.uint64(size)
        is_space = bits & SPACE != 0
        words += (length == 0) & (not is_space)
        length = 0 if is_space else length + 1
        longest = max(longest, length)
    return words >= FEWEST_WORDS and longest <= LONGEST_WORD


@njit(cache=True, nogil=True)
def has_words(data, a, b, classes):
    """Return whether a line has FEWEST_WORDS, and no word longer than LONGEST_WORD."""
    if b - a > LONGEST_WORD:
        return has_words_slowly(data, a, b, classes)
    words, before, beyond = np.uint64(0), ONE, np.uint64(0)
    for i in range(a, b, 64):
        here = first_bits(b - i)
        spaces = between_64(data, i, 9, 13) | between_64(data, i, 28, 32)
        others = between_64(data, i, 0x80, 0xFF) & here
        # A bit for each byte of ASCII that is not white space and follows white space: a word begins.
        words += bits_set((spaces << ONE | before) & ~(spaces | others) & here)
        if words >= FEWEST_WORDS:
            return True
        before, beyond = spaces >> LAST_BIT, beyond | others
    return beyond != 0 and has_words_slowly(data, a, b, classes)


@njit(cache=True, nogil=True, inline="always")
def ends_sentence(data, a, b):
    if b <= a or data[b - 1] not in (46, 63, 33, 34, 39):  # . ? ! " '
        return False
    return not (b - a >= 3 and data[b - 1] == DOT and data[b - 2] == DOT and data[b - 3] == DOT)


@njit(cache=True, nogil=True)
def judge_line(data, a, b, classes, terminal, matched, out, places, kinds, n):
    """Return the verdict of C4's rules on a line with matches, and the number of its bytes in `out`, if rewritten.

    places, kinds: have room from index n on for the matches in a rewritten line.
    """
    size, verdict = b - a, 0
    if matched & CITED:
        size, verdict, matched = without_citations(data, a, b, classes, out), REWRITTEN, 0
        for k in range(n, find(out, 0, size, classes, places, kinds, n)):
            matched |= kinds[k]
    if terminal and not (ends_sentence(out, 0, size) if verdict else ends_sentence(data, a, b)):
        return 0, 0
    if matched & LOREM:
        verdict |= LOREM
    if matched & SCRIPT:
        return verdict, size
    if matched & CURLY and not matched & LOREM:
        verdict |= CURLY
    return verdict if matched & POLICY else verdict | KEPT, size


@njit(cache=True, nogil=True)
def _judge(data, offsets, classes, terminal, breaks, line, places, kinds, lines, ends, rewritten):
    n = size = p = 0
    for d in range(offsets.size - 1):
        i, base, stop = offsets[d], offsets[d], offsets[d + 1]
        k, count = 0, find(data, base, stop, classes, places, kinds, 0)
        while i < stop:
            a, matched = i, 0
            b, i, p = line_end(data, breaks, p, stop)
            a, b = strip_text(data, a, b, classes)
            while k < count and base + np.int64(places[k]) < i:
                matched |= np.int64(kinds[k])
                k += 1
            is_over = not terminal or matched or ends_sentence(data, a, b)
            if a == b or not is_over or not has_words(data, a, b, classes):
                continue
            verdict, kept_bytes = KEPT, b - a
            if matched:
                verdict, kept_bytes = judge_line(
                    data, a, b, classes, terminal, matched, line, places, kinds, count
                )
            if verdict:
                lines[n, 0], lines[n, 1], lines[n, 2], lines[n, 3] = a - base, b - base, verdict, kept_bytes
                n += 1
            if verdict & KEPT and verdict & REWRITTEN:
                for m in range(kept_bytes):
                    rewritten[size + m] = line[m]
                size += kept_bytes
        ends[d + 1] = n
    return n, size


def judge_lines(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    classes: NDArray[np.uint32],
    terminal: bool,
    breaks: NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint8]]:
    """Return the lines with a verdict of C4's rules, (m, 4) uint32, their ends by document, and rewritten lines.

    A row has a line's begin and end in the document, the bits LOREM, CURLY, KEPT or REWRITTEN, and the number of
    bytes that are kept. The last array has the kept lines from which citations were removed, one after another.
    """
    size = int(offsets[-1] - offsets[0])
    lines, ends = (
        np.empty((size // (LEAST_BYTES + 1) + len(offsets), 4), np.uint32),
        np.zeros(len(offsets), np.int64),
    )
    rewritten = np.empty(size, np.uint8)
    # Allocated here, because compiled code would count references for every line, which takes as long again.
    longest = int(np.diff(offsets).max(initial=64))  # 64 bytes are read together
    line = np.empty(longest, np.uint8)
    places, kinds = np.empty(2 * longest, np.uint32), np.empty(2 * longest, np.uint8)
    n, kept_bytes = _judge(
        data, offsets, classes, terminal, breaks, line, places, kinds, lines, ends, rewritten
    )
    return lines[:n], ends, rewritten[:kept_bytes]
