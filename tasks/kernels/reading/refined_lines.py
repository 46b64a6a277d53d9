"""RefinedWeb's rules for lines, as DCLM has them: which lines are taken out of a text. Compiled by numba.

Lines end at a new line, 10, and nothing else. The bits of `classes` are those of tokens.py.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tasks.kernels.utf8 import (
    ALNUM,
    CAPITAL,
    DECIMAL,
    NEW_LINE,
    NUMERAL,
    SPACE,
    code_at,
    stands_at,
    stripped,
)  # fmt: skip

ONE = np.uint64(1)
DOT = 46
MOST_CAPITALS, MOST_NUMERALS, MOST_WORDS = 0.5, 0.999999, 10
LOUD, NUMERIC, COUNTER, LONELY = 1, 2, 4, 8  # by which rule a line goes
AS_IT_IS, CHANGED, EDITED = 0, 1, 2
# What is counted of a line, in one number: places of 12 bits, for lines of less than 4096 bytes of ASCII.
MOST_BYTES = 4095
FEW = np.uint64(0xFFF)
CAPITALS, NUMERALS, WORDS, COUNTED_WORDS, OTHERS = (np.uint64(12 * place) for place in range(5))
COUNTED = np.frombuffer(
    b"likes shares comments retweets reposts quotes bookmarks upvotes downvotes downloads views followers ",
    np.uint8,
)
IN_CART, READ_MORE, SIGN_IN = (
    np.frombuffer(phrase, np.uint8) for phrase in (b"items in cart", b"read more", b"sign-in")
)
Bytes = NDArray[np.uint8]
Classes = NDArray[np.uint32]
Places = NDArray[np.int64]


def _adding() -> NDArray[np.uint64]:
    """Return what each byte adds to what is counted, and which of it only after itself: (2, 256) uint64.

    A word begins where what is not white space follows white space; one that is counted where a letter or digit
    follows ASCII's white space or a null.
    """
    said = np.zeros((2, 256), np.uint64)
    for byte in range(256):
        one, is_ascii = chr(byte), byte < 0x80
        said[0, byte] = sum(
            int(holds) << int(place)
            for holds, place in (
                (is_ascii and one.isupper(), CAPITALS), (is_ascii and one.isdigit(), NUMERALS),
                (not one.isspace(), WORDS), (one.isalnum(), COUNTED_WORDS), (not is_ascii, OTHERS),
            )
        )  # fmt: skip
        always = (1 << int(CAPITALS)) | (1 << int(NUMERALS)) | (1 << int(OTHERS))
        said[1, byte] = (
            always | int(one.isspace()) << int(WORDS) | int(one in " \t\n\v\f\r\0") << int(COUNTED_WORDS)
        )
    return said


ADDING = _adding()


@njit(cache=True, nogil=True)
def facts_slowly(data, a, b, classes):
    """Return the rules by which a line goes, how many words it has and how many are counted.

    Counted are those between ASCII's white space and nulls that begin with a letter or a digit.
    """
    characters = capitals = numerals = words = counted = 0
    is_in = is_in_counted = False
    i = a
    while i < b:
        code, size = code_at(data, i)
        of_code = classes[code]
        capitals += of_code & CAPITAL != 0
        numerals += of_code & NUMERAL != 0
        is_space, is_cut = of_code & SPACE != 0, code == 32 or 9 <= code <= 13 or code == 0
        words += not is_space and not is_in
        counted += not is_cut and not is_in_counted and of_code & ALNUM != 0
        is_in, is_in_counted = not is_space, not is_cut
        characters += 1
        i += size
    rules = LOUD if characters and capitals / characters > MOST_CAPITALS else 0
    rules |= NUMERIC if characters and numerals / characters > MOST_NUMERALS else 0
    rules |= LONELY if words < 2 and characters else 0
    return rules, words, counted, True


@njit(cache=True, nogil=True)
def facts_of(data, a, b, classes):
    """Return what `facts_slowly` does, and whether the line may have digits."""
    if b - a > MOST_BYTES:
        return facts_slowly(data, a, b, classes)
    sums, after = np.uint64(0), ADDING[1, NEW_LINE]
    for i in range(np.uint64(a), np.uint64(b)):
        byte = np.uint64(data[i])
        sums += ADDING[0, byte] & after
        after = ADDING[1, byte]
    if sums >> OTHERS:
        return facts_slowly(data, a, b, classes)
    numerals, words = np.int64(sums >> NUMERALS & FEW), np.int64(sums >> WORDS & FEW)
    rules = LOUD if 2 * np.int64(sums & FEW) > b - a else 0
    rules |= NUMERIC if numerals == b - a and b > a else 0
    rules |= LONELY if words < 2 and b > a else 0
    return rules, words, np.int64(sums >> COUNTED_WORDS & FEW), numerals > 0


@njit(cache=True, nogil=True)
def beyond_others(data, a, b, classes):
    """Return where the first character of a word stands."""
    while a < b:
        code, size = code_at(data, a)
        if classes[code] & ALNUM or code == 95:
            break
        a += size
    return a


@njit(cache=True, nogil=True)
def is_counter(data, a, b, classes):
    """Say whether a line is a number and what it counts, as in "1.2K likes"."""
    i = start = beyond_others(data, a, b, classes)
    while i < b:
        code, size = code_at(data, i)
        if classes[code] & DECIMAL == 0 and (i == start or (code != 44 and code != DOT)):
            break
        i += size
    if i == start:
        return False
    if i < b and data[i] | 32 in (107, 109, 98):  # k, m, b
        i += 1
    gap = i
    while i < b:
        code, size = code_at(data, i)
        if classes[code] & SPACE == 0:
            break
        i += size
    if i == gap:
        return False
    first = 0
    for k in range(len(COUNTED)):
        if COUNTED[k] == 32:
            end = i + k - first
            if stands_at(data, i, a, b, COUNTED[first:k]) and beyond_others(data, end, b, classes) == b:
                return True
            first = k + 1
    return False


@njit(cache=True, nogil=True)
def has_phrase(data, a, b):
    """Say whether a line of few words has a phrase that is taken out of it."""
    if stands_at(data, a, a, b, SIGN_IN):
        return True
    p = b
    for _ in range(3):  # READ_MORE and any three characters
        p -= 1
        while p > a and data[p] & 0xC0 == 0x80:
            p -= 1
    if p > a and stands_at(data, p - len(READ_MORE), a, b, READ_MORE):
        return True
    for i in range(a, b - len(IN_CART) + 1):
        if data[i + 6] | 32 == 105 and stands_at(data, i, a, b, IN_CART):
            return True
    return False


@njit(cache=True, nogil=True)
def judge(data, a, b, classes, facts, line):
    """Write the rules by which a line goes, its words and those that are counted."""
    rules, words, counted, may_have_digits = facts_of(data, a, b, classes)
    if may_have_digits and is_counter(data, a, b, classes):
        rules |= COUNTER
    facts[line, 0], facts[line, 1], facts[line, 2] = rules, words, counted


@njit(cache=True, nogil=True)
def strip_lines(data, spans, facts, low, high, classes):
    """Take the white space at the ends of the lines from low to high; return which are left."""
    while low < high:
        a, b = spans[low, 0], spans[low, 1]
        start = a if a < b and 0x20 < data[a] < 0x7F else stripped(data, a, b, classes)[0]
        if start < b:
            if start > a:
                spans[low, 0] = start
                judge(data, start, b, classes, facts, low)
            break
        low += 1
    while high > low:
        a, b = spans[high - 1, 0], spans[high - 1, 1]
        end = b if a < b and 0x20 < data[b - 1] < 0x7F else stripped(data, a, b, classes)[1]
        if end > a:
            if end < b:
                spans[high - 1, 1] = end
                judge(data, a, end, classes, facts, high - 1)
            break
        high -= 1
    return low, high


@njit(cache=True, nogil=True)
def read_lines(data, start, stop, classes, spans, facts):
    """Write where lines begin and end, and what is said of them; return how many and their words."""
    n, words, i = 0, 0, start
    while i <= stop:
        k, end = np.uint64(i), np.uint64(stop)
        while k < end and data[k] != NEW_LINE:
            k += ONE
        spans[n, 0], spans[n, 1] = i, np.int64(k)
        judge(data, i, np.int64(k), classes, facts, n)
        words += facts[n, 2]
        n += 1
        i = np.int64(k) + 1
    return n, words


@njit(cache=True, nogil=True)
def refine(data, start, stop, classes, spans, facts):
    """Write the lines that are left of a document: return the first and the last, whether any is edited, and words.

    The rules go over the text one after the other, and after each the text is stripped.
    """
    high, words = read_lines(data, start, stop, classes, spans, facts)
    low = 0
    for rule in (LOUD, NUMERIC, COUNTER, LONELY):
        kept = low
        for line in range(low, high):
            if facts[line, 0] & rule == 0:
                if kept < line:
                    spans[kept, 0], spans[kept, 1] = spans[line, 0], spans[line, 1]
                    facts[kept, 0], facts[kept, 1], facts[kept, 2] = (
                        facts[line, 0],
                        facts[line, 1],
                        facts[line, 2],
                    )
                kept += 1
        high = kept
        if rule != LONELY:
            low, high = strip_lines(data, spans, facts, low, high, classes)
    for line in range(low, high):
        if facts[line, 1] <= MOST_WORDS and has_phrase(data, spans[line, 0], spans[line, 1]):
            return low, high, True, words
    low, high = strip_lines(data, spans, facts, low, high, classes)
    return low, high, False, words


@njit(cache=True, nogil=True)
def write_lines(data, spans, low, high, out, n):
    """Write lines to place n and after, those that stand together in one go; return the next place."""
    line, k = low, np.uint64(n)
    while line < high:
        if line > low:
            out[k] = NEW_LINE
            k += ONE
        a, b = spans[line, 0], spans[line, 1]
        line += 1
        while line < high and spans[line, 0] == b + 1:
            b = spans[line, 1]
            line += 1
        for i in range(np.uint64(a), np.uint64(b)):
            out[k] = data[i]
            k += ONE
    return np.int64(k)


@njit(cache=True, nogil=True)
def _refine_all(data, offsets, classes, words, states, out, ends):
    """Count the words before and after; write the texts that change, if there is room, and return how many."""
    n = longest = 0
    for d in range(offsets.size - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    spans, facts = np.empty((longest + 1, 2), np.int64), np.empty((longest + 1, 3), np.uint32)
    for d in range(offsets.size - 1):
        start, stop = offsets[d], offsets[d + 1]
        low, high, has_edits, words[d, 0] = refine(data, start, stop, classes, spans, facts)
        size = max(0, high - low - 1)
        for line in range(low, high):
            words[d, 1] += np.int64(facts[line, 2])
            size += spans[line, 1] - spans[line, 0]
        states[d] = EDITED if has_edits else CHANGED if size < stop - start else AS_IT_IS
        if len(out) and states[d]:
            n += 1
            ends[n] = write_lines(data, spans, low, high, out, ends[n - 1])
    return n


def refine_lines(
    data: Bytes, offsets: Places, classes: Classes, is_written: bool
) -> tuple[Places, Bytes, Bytes, Places]:
    """Apply RefinedWeb's rules for lines.

    Returns the words before and after, (n, 2) int64; of each document AS_IT_IS, CHANGED or EDITED if phrases are to
    be taken out of its lines, which is not done here, (n,) uint8; and if so wished the texts of those that are not
    as they were, uint8, and their ends, after a 0.
    """
    words, states = np.zeros((len(offsets) - 1, 2), np.int64), np.zeros(len(offsets) - 1, np.uint8)
    out = np.empty(int(offsets[-1] - offsets[0]) + 1 if is_written else 0, np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    n = _refine_all(data, offsets, classes, words, states, out, ends)
    return words, states, out[: ends[n]], ends[: n + 1]
