"""C4's rules for lines: which of them are kept, and what is said of them. Compiled by numba.

Lines are those of `str.splitlines`, without white space around them. The bits of `classes` are those of tokens.py.
"""

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

# As in tokens.py, once more: what numba has compiled for this file does not notice a change in another.
SPACE, PUNCTUATION, PERIOD, DECIMAL = np.uint32(1), np.uint32(1 << 16), np.uint32(1 << 17), np.uint32(1 << 21)
START, END, CHARACTERS, MARKS = range(4)
ONE, TWO, THREE, SEVEN, EIGHT, TOP_BYTE = (np.uint64(n) for n in (1, 2, 3, 7, 8, 56))
EACH, SIGNS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
SPACES = np.uint64(0x2020202020202020)
NEW_LINE, DOT = 10, 46
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
Bytes = NDArray[np.uint8]
Classes = NDArray[np.uint32]
Tokens = NDArray[np.uint32]
Places = NDArray[np.int64]


@njit(cache=True, nogil=True, inline="always")
def code_at(data, i):
    """Return the code point at byte i of valid UTF-8, and its size in bytes."""
    first = np.uint32(data[i])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | np.uint32(data[i + 1] & 0x3F), 2
    code = np.uint32(data[i + 1] & 0x3F) << 6 | np.uint32(data[i + 2] & 0x3F)
    if first < 0xF0:
        return (first & 0x0F) << 12 | code, 3
    return (first & 0x07) << 18 | code << 6 | np.uint32(data[i + 3] & 0x3F), 4


@njit(cache=True, nogil=True)
def stripped(data, a, b, classes):
    """Return where the bytes from a to b begin and end without white space around them."""
    while a < b and data[a] == 32:
        a += 1
    while a < b:
        code, size = code_at(data, a)
        if classes[code] & SPACE == 0:
            break
        a += size
    while b > a:
        p = b - 1
        while data[p] & 0xC0 == 0x80:
            p -= 1
        if classes[code_at(data, p)[0]] & SPACE == 0:
            break
        b = p
    return a, b


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
def stands_at(data, i, a, b, phrase):
    """Say whether a phrase in lower case stands at byte i, within those from a to b, in any case of ASCII."""
    if i < a or i + len(phrase) > b:
        return False
    for k in range(len(phrase)):
        byte = data[i + k]
        if (byte + 32 if 65 <= byte <= 90 else byte) != phrase[k]:
            return False
    return True


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
def sentences_of(data, base, tokens, t, last, stop):
    """Count the sentences of the tokens from t on that begin before byte `stop`; return also the next token.

    White space between tokens, but for a single space, is a token of its own here.
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
def longest_of(offsets):
    longest = 0
    for d in range(offsets.size - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    return longest


@njit(cache=True, nogil=True)
def _count_c4(data, offsets, classes, terminal, tokens, ends, counts, other, other_ends, owners):
    """Count; write rewritten lines to `other`, for their tokens are others, and return how many there are."""
    size = others = 0
    room = longest_of(offsets)
    line, places, kinds = (
        np.empty(room, np.uint8),
        np.empty(2 * room, np.uint32),
        np.empty(2 * room, np.uint8),
    )
    for d in range(offsets.size - 1):
        base, stop = offsets[d], offsets[d + 1]
        i, t, last, k = base, ends[d], ends[d + 1], 0
        n = find(data, base, stop, classes, places, kinds, 0)
        while i < stop:
            a, b, i, k, said, left = next_line(
                data, base, i, stop, classes, terminal, line, places, kinds, n, k
            )
            counts[d, 0] += said & LOREM != 0
            counts[d, 1] += said & CURLY != 0
            if said & KEPT and said & REWRITTEN:
                other[size : size + left] = line[:left]
                size += left
                owners[others] = d
                others += 1
                other_ends[others] = size
            elif said & KEPT:
                while t < last and base + np.int64(tokens[t, START]) < a:
                    t += 1
                sentences, t = sentences_of(data, base, tokens, t, last, b - base)
                counts[d, 2] += sentences
    return others


@njit(cache=True, nogil=True)
def _count_sentences(data, offsets, tokens, ends, owners, counts):
    for line in range(ends.size - 1):
        sentences, _ = sentences_of(
            data, offsets[line], tokens, ends[line], ends[line + 1], np.int64(1) << 60
        )
        counts[owners[line], 2] += sentences


def count_c4(
    data: Bytes,
    offsets: Places,
    classes: Classes,
    terminal: bool,
    tokens: Tokens,
    ends: Places,
    retokenize: Callable[[Bytes, Places], tuple[Tokens, Places]],
) -> Places:
    """Count the lines with lorem ipsum, those with curly brackets and the sentences of what C4 keeps: (n, 3) int64.

    retokenize: gives the tokens and ends of lines that are not as in the text, of which citations were taken.
    """
    size = int(offsets[-1] - offsets[0])
    counts = np.zeros((len(offsets) - 1, 3), np.int64)
    other, other_ends = np.empty(size, np.uint8), np.zeros(size // 3 + 2, np.int64)
    owners = np.empty(size // 3 + 1, np.int64)
    others = _count_c4(data, offsets, classes, terminal, tokens, ends, counts, other, other_ends, owners)
    if others:
        other_ends = other_ends[: others + 1]
        _count_sentences(other, other_ends, *retokenize(other, other_ends), owners, counts)
    return counts


@njit(cache=True, nogil=True)
def copy(data, a, b, out, first, n):
    """Write the bytes from a to b to place n, as a line after those from `first` on; return the next place."""
    k = np.uint64(n)
    if n > first:
        out[k] = NEW_LINE
        k += ONE
    for i in range(np.uint64(a), np.uint64(b)):
        out[k] = data[i]
        k += ONE
    return np.int64(k)


@njit(cache=True, nogil=True)
def keep(data, start, stop, classes, terminal, out, first, line, places, kinds):
    """Write the lines that C4 keeps of a document to place `first` and after, unless they are all that it has.

    Return the next place, and whether anything changes.
    """
    i, k, n, low, high = start, 0, first, start, start
    found = find(data, start, stop, classes, places, kinds, 0)
    is_changed, has_run = False, False
    while i < stop:
        a, b, i, k, said, size = next_line(
            data, start, i, stop, classes, terminal, line, places, kinds, found, k
        )
        if said & KEPT == 0:
            continue
        if has_run and not said & REWRITTEN and a == high + 1 and data[high] == NEW_LINE:
            high = b
            continue
        if has_run:
            n = copy(data, low, high, out, first, n)
            is_changed = True
        has_run, low, high = not said & REWRITTEN, a, b
        if not has_run:
            n = copy(line, 0, size, out, first, n)
            is_changed = True
    if not is_changed and low == start and high == stop:
        return first, False
    if has_run:
        n = copy(data, low, high, out, first, n)
    # A line of which a citation was taken may have white space around it.
    a, b = stripped(out, first, n, classes)
    if a > first:
        copy(out, a, b, out, first, first)
    return first + b - a, True


@njit(cache=True, nogil=True)
def _keep_c4(data, offsets, classes, terminal, out, ends, is_changed):
    """Write the texts that change, and where they end; return how many there are."""
    n, room = 0, longest_of(offsets)
    line, places, kinds = (
        np.empty(room, np.uint8),
        np.empty(2 * room, np.uint32),
        np.empty(2 * room, np.uint8),
    )
    for d in range(offsets.size - 1):
        end, is_changed[d] = keep(
            data, offsets[d], offsets[d + 1], classes, terminal, out, ends[n], line, places, kinds
        )
        if is_changed[d]:
            n += 1
            ends[n] = end
    return n


def keep_c4_lines(
    data: Bytes, offsets: Places, classes: Classes, terminal: bool
) -> tuple[NDArray[np.bool_], Bytes, Places]:
    """Say which documents C4's rules for lines change, (n,) bool.

    Returns also the texts of the lines that are left of these, uint8, and the ends of the texts, after a 0.
    """
    out, ends = np.empty(int(offsets[-1] - offsets[0]), np.uint8), np.zeros(len(offsets), np.int64)
    is_changed = np.zeros(len(offsets) - 1, np.bool_)
    n = _keep_c4(data, offsets, classes, terminal, out, ends, is_changed)
    return is_changed, out[: ends[n]], ends[: n + 1]
