"""What C4's rules say of the lines of documents. Compiled by numba.

Lines are those of `str.splitlines`, without white space around them. The bits of `classes` are those of tokens.py.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tasks.kernels.utf8 import DECIMAL, NEW_LINE, SPACE, code_at, stands_at, stripped

ONE, TWO, THREE, SEVEN, EIGHT, TOP_BYTE = (np.uint64(n) for n in (1, 2, 3, 7, 8, 56))
EACH, SIGNS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
SPACES = np.uint64(0x2020202020202020)
DOT = 46
# What is found in a line, and what is said of it.
LOREM, CURLY, KEPT, REWRITTEN, SCRIPT, POLICY, CITED = 1, 2, 4, 8, 16, 32, 64
FEWEST_WORDS, LONGEST_WORD = 3, 1000
BLOCK = 32  # bytes that are looked at together
JAVASCRIPT, PRIVACY, COOKIE_POLICY, USE_COOKIES, USES_COOKIES, USE_OF_COOKIES, TERMS, LOREM_IPSUM = (
    np.frombuffer(phrase, np.uint8)
    for phrase in (
        b"javascript", b"privacy policy", b"cookie policy", b"use cookies", b"uses cookies", b"use of cookies",
        b"terms of use", b"lorem ipsum",
    )
)  # fmt: skip
EDIT, CITATION = np.frombuffer(b"edit]", np.uint8), np.frombuffer(b"citation needed]", np.uint8)
LEAST_BYTES = 5  # of a line with FEWEST_WORDS


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
def citation_size(data, i, b, classes):
    """Return how many bytes [1], [edit] or [citation needed] takes at i, where a bracket opens; 0 if it is not."""
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
def finding_at(data, i, a, b, classes):
    """Return which phrase or bracket that C4 looks for has byte i as the one by which it is looked for."""
    low, found = data[i] | 32, 0
    if low == 123:  # [ and {
        found = CURLY if data[i] == 123 else CITED if citation_size(data, i, b, classes) else 0
    elif low == 106:  # j
        found = SCRIPT if stands_at(data, i, a, b, JAVASCRIPT) else 0
    elif low == 118:  # v
        found = POLICY if stands_at(data, i - 3, a, b, PRIVACY) else 0
    elif low == 107:  # k
        is_policy = stands_at(data, i - 3, a, b, COOKIE_POLICY) or stands_at(data, i - 7, a, b, USE_COOKIES)
        is_policy |= stands_at(data, i - 8, a, b, USES_COOKIES) or stands_at(
            data, i - 10, a, b, USE_OF_COOKIES
        )
        found = POLICY if is_policy else 0
    elif low == 102:  # f
        found = POLICY if stands_at(data, i - 7, a, b, TERMS) else 0
    elif low == 109:  # m
        found = LOREM if stands_at(data, i - 4, a, b, LOREM_IPSUM) else 0
    return found


@njit(cache=True, nogil=True)
def find(data, a, b, classes, places, kinds, n):
    """Write where C4's phrases and brackets stand to place n and after; return the next place."""
    i, start, last = np.uint64(a), np.uint64(a), np.uint64(b)
    while i < last:
        end = min(i + np.uint64(BLOCK), last)
        may_have = end == last
        if end + TWO <= last:
            # ja, vac, kie, f u and m i: parts of the phrases that are rare
            for k in range(i, i + np.uint64(BLOCK)):
                x, y, z = data[k] | 32, data[k + ONE] | 32, data[k + TWO] | 32
                may_have |= (
                    (x == 123)
                    | ((x == 106) & (y == 97))
                    | ((x == 118) & (y == 97) & (z == 99))
                    | ((x == 107) & (y == 105) & (z == 101))
                    | ((y == 32) & (((x == 102) & (z == 117)) | ((x == 109) & (z == 105))))
                )
        else:
            may_have = True
        if may_have:
            for k in range(i, end):
                low = data[k] | 32
                if (low == 123) | (low == 106) | (low == 118) | (low == 107) | (low == 102) | (low == 109):
                    found = finding_at(data, np.int64(k), a, b, classes)
                    if found:
                        places[n], kinds[n] = k - start, found
                        n += 1
        i = end
    return n


@njit(cache=True, nogil=True)
def without_citations(data, a, b, classes, out):
    """Write the bytes from a to b without [1], [edit] and [citation needed]; return how many are left."""
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
    """Say what `has_words` does."""
    words = longest = length = 0
    i, end = np.uint64(a), np.uint64(b)
    while i < end:
        first = data[i]
        if first < 0x80:
            of_code = classes[first]
            i += ONE
        else:
            code, size = code_at(data, np.int64(i))
            of_code = classes[code]
            i += np.uint64(size)
        is_space = of_code & SPACE != 0
        words += (length == 0) & (not is_space)
        length = 0 if is_space else length + 1
        longest = max(longest, length)
    return words >= FEWEST_WORDS and longest <= LONGEST_WORD


@njit(cache=True, nogil=True)
def has_words(data, a, b, classes):
    """Say whether a line has FEWEST_WORDS, and none that is too long."""
    if b - a > LONGEST_WORD:
        return has_words_slowly(data, a, b, classes)
    words, before, bits = np.uint32(0), SPACE, np.uint8(0)
    i, end = np.uint64(a), np.uint64(b)
    while i < end:
        some = min(i + np.uint64(16), end)
        for k in range(i, some):  # without branches, which words make hard to foresee
            bits |= data[k]
            is_space = classes[data[k]] & SPACE
            words += before & ~is_space
            before = is_space
        if bits >= 0x80:
            return has_words_slowly(data, a, b, classes)
        if words >= FEWEST_WORDS:
            return True
        i = some
    return False


@njit(cache=True, nogil=True, inline="always")
def ends_sentence(data, a, b):
    if b <= a or data[b - 1] not in (46, 63, 33, 34, 39):  # . ? ! " '
        return False
    return not (b - a >= 3 and data[b - 1] == DOT and data[b - 2] == DOT and data[b - 3] == DOT)


@njit(cache=True, nogil=True)
def judge_line(data, a, b, classes, terminal, found, out, places, kinds, n):
    """Say what C4's rules say of a line in which something is found, and how many bytes of `out` it is then.

    places and kinds have room for what is found in a line that is rewritten, from place n on.
    """
    size, said = b - a, 0
    if found & CITED:
        size, said, found = without_citations(data, a, b, classes, out), REWRITTEN, 0
        for k in range(n, find(out, 0, size, classes, places, kinds, n)):
            found |= kinds[k]
    if terminal and not (ends_sentence(out, 0, size) if said else ends_sentence(data, a, b)):
        return 0, 0
    if found & LOREM:
        said |= LOREM
    if found & SCRIPT:
        return said, size
    if found & CURLY and not found & LOREM:
        said |= CURLY
    return said if found & POLICY else said | KEPT, size


@njit(cache=True, nogil=True)
def next_line(data, base, i, stop, classes, terminal, out, places, kinds, n, k):
    """Read the line at byte i, where k is the first place of what is found in it.

    Return where its text begins and ends, where the next line begins and its k, what is said of it and its size.
    """
    b, following = line_end(data, i, stop)
    a, found = i, 0
    if a < b and not (0x20 < data[a] < 0x7F and 0x20 < data[b - 1] < 0x7F):
        a, b = stripped(data, a, b, classes)
    while k < n and base + np.int64(places[k]) < following:
        found |= np.int64(kinds[k])
        k += 1
    if (
        a == b
        or (terminal and not found and not ends_sentence(data, a, b))
        or not has_words(data, a, b, classes)
    ):
        return a, b, following, k, 0, 0
    if found == 0:
        return a, b, following, k, KEPT, b - a
    said, size = judge_line(data, a, b, classes, terminal, found, out, places, kinds, n)
    return a, b, following, k, said, size


@njit(cache=True, nogil=True)
def _judge(data, offsets, classes, terminal, lines, ends, rewritten):
    room = n = size = 0
    for d in range(offsets.size - 1):
        room = max(room, offsets[d + 1] - offsets[d])
    line, places, kinds = (
        np.empty(room, np.uint8),
        np.empty(2 * room, np.uint32),
        np.empty(2 * room, np.uint8),
    )
    for d in range(offsets.size - 1):
        base, stop = offsets[d], offsets[d + 1]
        i, k = base, 0
        found = find(data, base, stop, classes, places, kinds, 0)
        while i < stop:
            a, b, i, k, said, left = next_line(
                data, base, i, stop, classes, terminal, line, places, kinds, found, k
            )
            if said:
                lines[n, 0], lines[n, 1], lines[n, 2], lines[n, 3] = a - base, b - base, said, left
                n += 1
            if said & KEPT and said & REWRITTEN:
                for m in range(left):
                    rewritten[size + m] = line[m]
                size += left
        ends[d + 1] = n
    return n, size


def judge_lines(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], classes: NDArray[np.uint32], terminal: bool
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint8]]:
    """Return the lines of which C4's rules say anything: (m, 4) uint32, those of document d from ends[d] on.

    Of each is said where it begins and ends in the document, LOREM, CURLY, KEPT or REWRITTEN, and how many bytes
    are left of it. Those that are kept, but without citations, stand one after the other in the last array.
    """
    size = int(offsets[-1] - offsets[0])
    lines, ends = (
        np.empty((size // (LEAST_BYTES + 1) + len(offsets), 4), np.uint32),
        np.zeros(len(offsets), np.int64),
    )
    rewritten = np.empty(size, np.uint8)
    n, left = _judge(data, offsets, classes, terminal, lines, ends, rewritten)
    return lines[:n], ends, rewritten[:left]
