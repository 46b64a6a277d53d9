"""Remove lines by RefinedWeb's rules, as DCLM implements them. Compiled by numba.

Lines end only at a new line, byte 10. tokens.py defines the bits of `classes`.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.swar import between_64, bits_set, letters_64
from zyda_flows.textkernels.utf8 import (
    ALNUM,
    CAPITAL,
    DECIMAL,
    NEW_LINE,
    NUMERAL,
    SPACE,
    code_at,
    first_bits,
    matches_at,
    new_line,
    stripped,
)  # fmt: skip

ONE, TWO, THREE, LAST_BIT = (np.uint64(n) for n in (1, 2, 3, 63))
TRUSTED = 61  # of 64 bytes: the bytes with three more after them
DOT = 46
MOST_CAPITALS, MOST_NUMERALS, MOST_WORDS = 0.5, 0.999999, 10
LOUD, NUMERIC, COUNTER, LONELY = 1, 2, 4, 8  # the rules that remove a line
AS_IT_IS, CHANGED, EDITED = 0, 1, 2
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


@njit(cache=True, nogil=True)
def slow_line_facts(data, a, b, classes):
    """Return the rules that remove a line, the number of its words, and the number of counted words.

    Counted words are separated by ASCII's white space and nulls, and begin with a letter or a digit.
    """
    characters = capitals = numerals = words = counted = 0
    is_in = is_in_counted = False
    i = a
    while i < b:
        code, size = code_at(data, i)
        bits = classes[code]
        capitals += bits & CAPITAL != 0
        numerals += bits & NUMERAL != 0
        is_space, is_separator = bits & SPACE != 0, code == 32 or 9 <= code <= 13 or code == 0
        words += not is_space and not is_in
        counted += not is_separator and not is_in_counted and bits & ALNUM != 0
        is_in, is_in_counted = not is_space, not is_separator
        characters += 1
        i += size
    rules = LOUD if characters and capitals / characters > MOST_CAPITALS else 0
    rules |= NUMERIC if characters and numerals / characters > MOST_NUMERALS else 0
    rules |= LONELY if words < 2 and characters else 0
    return rules, words, counted, True


@njit(cache=True, nogil=True)
def line_facts(data, a, b, classes):
    """Return the results of `slow_line_facts`, and whether the line may have digits."""
    capitals = numerals = words = counted = np.uint64(0)
    before, cut_before = ONE, ONE
    for i in range(a, b, 64):
        here = first_bits(b - i)
        if between_64(data, i, 0x80, 0xFF) & here:
            return slow_line_facts(data, a, b, classes)
        cuts = between_64(data, i, 9, 13) | between_64(data, i, 32, 32)
        spaces = cuts | between_64(data, i, 28, 31)
        cuts |= between_64(data, i, 0, 0)
        large, digits = between_64(data, i, 65, 90), between_64(data, i, 48, 57)
        capitals += bits_set(large & here)
        numerals += bits_set(digits & here)
        # A bit for each byte that begins a word: it is not white space and follows white space.
        words += bits_set((spaces << ONE | before) & ~spaces & here)
        letters = large | between_64(data, i, 97, 122) | digits
        counted += bits_set((cuts << ONE | cut_before) & letters & here)
        before, cut_before = spaces >> LAST_BIT, cuts >> LAST_BIT
    size = np.uint64(b - a)
    rules = LOUD if TWO * capitals > size else 0
    rules |= NUMERIC if numerals == size and size else 0
    rules |= LONELY if words < TWO and size else 0
    return rules, np.int64(words), np.int64(counted), numerals > 0


@njit(cache=True, nogil=True)
def skip_to_word(data, a, b, classes):
    """Return the position of the first character of a word."""
    while a < b:
        code, size = code_at(data, a)
        if classes[code] & ALNUM or code == 95:
            break
        a += size
    return a


@njit(cache=True, nogil=True)
def is_counter(data, a, b, classes):
    """Return whether a line is a number and the things that it counts, as in "1.2K likes"."""
    i = start = skip_to_word(data, a, b, classes)
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
            if matches_at(data, i, a, b, COUNTED[first:k]) and skip_to_word(data, end, b, classes) == b:
                return True
            first = k + 1
    return False


@njit(cache=True, nogil=True)
def has_phrase(data, a, b):
    """Return whether a line of few words has a phrase that is removed from it."""
    if matches_at(data, a, a, b, SIGN_IN):
        return True
    p = b
    for _ in range(3):  # READ_MORE and any three characters
        p -= 1
        while p > a and data[p] & 0xC0 == 0x80:
            p -= 1
    if p > a and matches_at(data, p - len(READ_MORE), a, b, READ_MORE):
        return True
    for i in range(a, b - len(IN_CART) + 1):
        if data[i + 6] | 32 == 105 and matches_at(data, i, a, b, IN_CART):
            return True
    return False


@njit(cache=True, nogil=True)
def may_have_phrase(data, start, stop):
    """Return whether rare parts of the phrases occur in a document: ms i, ad m and gn-i."""
    for i in range(start, stop, TRUSTED):
        blanks, i_after = letters_64(data, i, 32) >> TWO, letters_64(data, i, 105) >> THREE
        ms = letters_64(data, i, 109) & letters_64(data, i, 115) >> ONE
        ad = letters_64(data, i, 97) & letters_64(data, i, 100) >> ONE
        gn = letters_64(data, i, 103) & letters_64(data, i, 110) >> ONE
        found = (ms & i_after | ad & letters_64(data, i, 109) >> THREE) & blanks
        found |= gn & between_64(data, i, 45, 45) >> TWO & i_after
        if found & first_bits(stop - i):
            return True
    return False


@njit(cache=True, nogil=True)
def judge(data, a, b, classes, facts, line):
    """Write the rules that remove a line, its words and its counted words."""
    rules, words, counted, may_have_digits = line_facts(data, a, b, classes)
    if may_have_digits and is_counter(data, a, b, classes):
        rules |= COUNTER
    facts[line, 0], facts[line, 1], facts[line, 2] = rules, words, counted


@njit(cache=True, nogil=True)
def strip_lines(data, spans, facts, low, high, classes):
    """Strip the white space at the ends of the lines from low to high; return the range of lines that are left."""
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
def read_lines(data, start, stop, classes, breaks, p, spans, facts):
    """Write the begins and ends of lines, and the facts of each.

    Return the number of lines, their counted words, all rules that remove any line, and the number of the next
    document's first break.
    """
    n, words, i, seen = 0, 0, start, np.uint32(0)
    while i <= stop:
        end, p = new_line(data, breaks, p, stop)
        spans[n, 0], spans[n, 1] = i, end
        judge(data, i, end, classes, facts, n)
        words += facts[n, 2]
        seen |= facts[n, 0]
        n += 1
        i = end + 1
    return n, words, seen, p


@njit(cache=True, nogil=True)
def refine(data, start, stop, classes, breaks, p, spans, facts):
    """Write the lines that are left of a document. p: the number of its first line break.

    Return the first line, the line after the last, whether any line is edited, the number of words, and the number
    of the next document's first break. The rules are applied in turn; after each the text is stripped.
    """
    high, words, seen, p = read_lines(data, start, stop, classes, breaks, p, spans, facts)
    low = 0
    for rule in (LOUD, NUMERIC, COUNTER, LONELY):
        # Most documents have no line that the first three rules remove.
        kept = low if seen & rule else high
        for line in range(kept, high):
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
            if low < high:  # the rules may remove a stripped line
                seen |= facts[low, 0] | facts[high - 1, 0]
    may_have = may_have_phrase(data, start, stop)
    for line in range(low, high if may_have else low):
        if facts[line, 1] <= MOST_WORDS and has_phrase(data, spans[line, 0], spans[line, 1]):
            return low, high, True, words, p
    low, high = strip_lines(data, spans, facts, low, high, classes)
    return low, high, False, words, p


@njit(cache=True, nogil=True)
def write_lines(data, spans, low, high, out, n):
    """Write lines from index n on, consecutive lines together; return the next index."""
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
def _refine_all(data, offsets, classes, breaks, spans, facts, words, states, out, ends):
    """Count the words before and after; write the changed texts, if there is room, and return their number."""
    n = p = 0
    for d in range(offsets.size - 1):
        start, stop = offsets[d], offsets[d + 1]
        low, high, has_edits, words[d, 0], p = refine(data, start, stop, classes, breaks, p, spans, facts)
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
    data: Bytes, offsets: Places, classes: Classes, is_written: bool, breaks: Places
) -> tuple[Places, Bytes, Bytes, Places]:
    """Apply RefinedWeb's rules for lines.

    Returns the words before and after, (n, 2) int64; for each document AS_IT_IS, CHANGED, or EDITED if phrases are
    to be removed from its lines, which the caller must do, (n,) uint8; and, if is_written, the texts that are not
    AS_IT_IS, uint8, and their ends, after a 0.
    """
    words, states = np.zeros((len(offsets) - 1, 2), np.int64), np.zeros(len(offsets) - 1, np.uint8)
    out = np.empty(int(offsets[-1] - offsets[0]) + 1 if is_written else 0, np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    # Allocated here, because compiled code would count references for every line.
    most = int(np.diff(offsets).max(initial=0)) + 1
    spans, facts = np.empty((most, 2), np.int64), np.empty((most, 3), np.uint32)
    n = _refine_all(data, offsets, classes, breaks, spans, facts, words, states, out, ends)
    return words, states, out[: ends[n]], ends[: n + 1]
