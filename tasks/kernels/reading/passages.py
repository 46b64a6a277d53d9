"""What repeats in a text, and what its lines are like. Compiled by numba.

Tokens are those of `tokens.py`, where the bits of the classes are explained too. Counts are whole numbers, a row a
document; `tasks.texts.prose` makes shares of them.
"""

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

# As in tokens.py, once more: what numba has compiled for this file does not notice a change in another.
SPACE, LINE = np.uint32(1), np.uint32(2)
ALPHA, SYMBOL, PUNCTUATION, PERIOD, TERMINAL, CAPITAL, NUMERAL, DECIMAL, ALNUM = (
    np.uint32(1 << place) for place in range(14, 23)
)
START, END, CHARACTERS, MARKS = range(4)
Bytes = NDArray[np.uint8]
Classes = NDArray[np.uint32]
Tokens = NDArray[np.uint32]
Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]
BASE = np.uint64(0xB492B66FBE98F273)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
INVERSE = np.uint64(pow(int(BASE), -1, 1 << 64))
MIX = np.uint64(0xFF51AFD7ED558CCD)
ONE, EIGHT, SHIFT, STOP_SHIFT = np.uint64(1), np.uint64(8), np.uint64(32), np.uint64(56)
AGE, AGES = np.uint64(0xFFFF), 1 << 16  # the bits of a slot that say in which round it was written
SHORT = 64  # bytes of tokens for which powers are tabulated
TOP_GRAMS, DUPLICATE_GRAMS = (2, 3, 4), (5, 6, 7, 8, 9, 10)

QUALITY = (
    "tokens", "words", "word_characters", "alphabetic_words", "stop_words", "hashes", "ellipses", "lines",
    "bullet_lines", "ellipsis_lines",
)  # fmt: skip
LINES = (
    "characters", "new_lines", "lines", "duplicate_lines", "duplicate_line_characters", "paragraphs",
    "duplicate_paragraphs", "duplicate_paragraph_characters", "text_lines", "terminal_lines", "short_lines",
    "duplicate_text_characters", "split_lines", "max_line_length", "alphanumeric",
)  # fmt: skip
SHORT_LINE = 30
NEW_LINE, DOT, HASH, MINUS, BULLET = 10, 46, 35, 45, 0x2022

# Counting the references to each array that a function is given takes longer than most of these functions.
without_counts = njit(cache=True, nogil=True, _nrt=False)


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


@njit(cache=True, nogil=True, inline="always")
def characters_in(data, a, b):
    n = 0
    for i in range(np.uint64(a), np.uint64(b)):  # unsigned, so that none is tested for being negative
        n += data[i] & 0xC0 != 0x80
    return n


@without_counts
def longest_of(offsets):
    longest = 0
    for d in range(offsets.size - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    return longest


@without_counts
def stripped(data, a, b, classes):
    """Return where the bytes from a to b begin and end without white space around them."""
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


@without_counts
def line_end(data, i, stop):
    """Return where the line at i ends, and where the next begins: `str.splitlines`."""
    while i < stop:
        k, end = np.uint64(i), np.uint64(stop)
        while k < end and 0x1E < data[k] < 0xC2:
            k += ONE
        if k == end:
            break
        i = np.int64(k)
        byte = data[k]
        if byte == 13 and i + 1 < stop and data[i + 1] == NEW_LINE:
            return i, i + 2
        elif 10 <= byte <= 13 or 0x1C <= byte <= 0x1E:
            return i, i + 1
        elif byte == 0xC2 and data[i + 1] == 0x85:
            return i, i + 2
        elif byte == 0xE2 and data[i + 1] == 0x80 and (data[i + 2] == 0xA8 or data[i + 2] == 0xA9):
            return i, i + 3
        else:
            i += 1
    return stop, stop


@njit(cache=True, nogil=True, inline="always")
def mixed(h):
    h = (h ^ (h >> SHIFT)) * MIX
    return h ^ (h >> SHIFT)


@without_counts
def hash_bytes(data, a, b):
    h, i, end = np.uint64(b - a + 1) * SPREAD, np.uint64(a), np.uint64(b)
    while i + EIGHT <= end:
        word = np.uint64(0)
        for k in range(EIGHT):
            word |= np.uint64(data[i + k]) << (k * EIGHT)
        h = (h ^ word) * BASE
        h ^= h >> SHIFT
        i += EIGHT
    while i < end:
        h = (h ^ np.uint64(data[i])) * BASE
        i += ONE
    return mixed(h)


@njit(cache=True, nogil=True, inline="always")
def is_known(h, table, mask, age):
    """Say whether a hash was in the table in this round already; from now on it is."""
    slot, entry = np.int64(h & mask), h & ~AGE | age
    while table[slot] & AGE == age:
        if table[slot] == entry:
            return True
        slot = np.int64(np.uint64(slot + 1) & mask)
    table[slot] = entry
    return False


@njit(cache=True, nogil=True, inline="always")
def new_age(table, age):
    """Begin a round: what is in the table from before is not there any more."""
    if age + 1 == AGES:
        table[:] = 0
        return 1
    return age + 1


@njit(cache=True, nogil=True, inline="always")
def mask_for(n):
    size = 16
    while 3 * size < 4 * n:
        size *= 2
    return np.uint64(size - 1)


@without_counts
def _count_tokens(tokens, hashes, ends, stop_words, stop_bits, counts):
    for d in range(ends.size - 1):
        words = characters = alphabetic = 0
        found = np.uint32(0)
        for t in range(ends[d], ends[d + 1]):
            marks, h = tokens[t, MARKS], hashes[t]
            is_word = marks & SYMBOL == 0
            words += is_word
            characters += tokens[t, CHARACTERS] if is_word else 0
            alphabetic += marks & ALPHA != 0
            slot = (h * SPREAD) >> STOP_SHIFT
            found |= stop_bits[slot] if stop_words[slot] == h else np.uint32(0)
        stops = 0
        while found:
            stops += found & np.uint32(1)
            found >>= np.uint32(1)
        counts[d, 0], counts[d, 1], counts[d, 2] = ends[d + 1] - ends[d], words, characters
        counts[d, 3], counts[d, 4] = alphabetic, stops


@without_counts
def _count_marks(data, offsets, classes, counts):
    for d in range(offsets.size - 1):
        i, stop = offsets[d], offsets[d + 1]
        hashes = ellipses = lines = bullets = ends = dots = 0
        for k in range(np.uint64(i), np.uint64(stop)):
            byte = data[k]
            hashes += byte == HASH
            dots = dots + 1 if byte == DOT else 0
            ellipses += dots == 3
            dots = 0 if dots == 3 else dots
            if byte == 0xE2:
                ellipses += data[k + ONE] == 0x80 and data[k + ONE + ONE] == 0xA6
        while i < stop:
            end, following = line_end(data, i, stop)
            a, b = stripped(data, i, end, classes)
            lines += 1
            if a < b:
                code, _ = code_at(data, a)
                bullets += (code == MINUS) | (code == BULLET)
                if b - a >= 3:
                    x, y, z = data[b - 3], data[b - 2], data[b - 1]
                    ends += (x == DOT and y == DOT and z == DOT) or (x == 0xE2 and y == 0x80 and z == 0xA6)
            i = following
        counts[d, 5], counts[d, 6], counts[d, 7], counts[d, 8], counts[d, 9] = (
            hashes,
            ellipses,
            lines,
            bullets,
            ends,
        )


def count_quality(
    data: Bytes,
    offsets: Places,
    classes: Classes,
    tokens: Tokens,
    hashes: Hashes,
    ends: Places,
    stop_words: tuple[Hashes, Classes],
) -> Places:
    """Count QUALITY of each document: (n, 10) int64.

    stop_words: their hashes by slot, (256,) uint64, and a bit for each, (256,) uint32.
    """
    counts = np.zeros((len(offsets) - 1, len(QUALITY)), np.int64)
    _count_tokens(tokens, hashes, ends, *stop_words, counts)
    _count_marks(data, offsets, classes, counts)
    return counts


@without_counts
def top_characters(tokens, mixes, first, last, n, table, firsts, age):
    """Return the characters of the n-gram that is found most often, all times; of ties the first."""
    mask, best, place = mask_for(last - first), 0, 0
    for t in range(first, last - n + 1):
        h = np.uint64(0)
        for k in range(n):
            h = (h + mixes[t + k]) * BASE
        h = mixed(h)
        slot, entry = np.int64(h & mask), h & ~AGE | age
        while table[slot] & AGE == age and table[slot] != entry:
            slot = np.int64(np.uint64(slot + 1) & mask)
        if table[slot] != entry:
            table[slot] = entry
            firsts[slot, 0], firsts[slot, 1] = t, 0
        firsts[slot, 1] += 1
        times, since = firsts[slot, 1], firsts[slot, 0]
        if times > best or (times == best and since < place):
            best, place = times, since
    characters = n - 1
    for k in range(n):
        characters += np.int64(tokens[place + k, CHARACTERS])
    return characters * best


@without_counts
def duplicate_characters(sums, powers, places, count, n, table, age):
    """Return the characters of n-grams that stood before; after one, the next begins behind it."""
    mask, t, characters = mask_for(count), 0, 0
    while t + n <= count:
        h = mixed((sums[t + n] - sums[t]) * powers[t + n])
        if is_known(h, table, mask, age):
            characters += places[t + n] - places[t]
            t += n
        else:
            t += 1
    return characters


@without_counts
def power(base, n):
    result = np.uint64(1)
    while n:
        if n & 1:
            result *= base
        base *= base
        n >>= 1
    return result


@njit(cache=True, nogil=True)
def _count_grams(tokens, hashes, ends, table, firsts, age, counts):
    """Count; return the round of the table."""
    most = longest_of(ends)
    sums, powers, places = (
        np.empty(most + 1, np.uint64),
        np.empty(most + 1, np.uint64),
        np.empty(most + 1, np.int64),
    )
    mixes = np.empty(ends[-1], np.uint64)
    of_sizes, inverses = np.empty(SHORT, np.uint64), np.empty(SHORT, np.uint64)
    for k in range(SHORT):
        of_sizes[k], inverses[k] = power(BASE, k), power(INVERSE, k)
    for d in range(ends.size - 1):
        first, last = ends[d], ends[d + 1]
        # The hash of joined tokens is that of their bytes: sums of bytes times powers of the base, by their places.
        total, up, down, characters = np.uint64(0), np.uint64(1), np.uint64(1), 0
        sums[0], powers[0], places[0] = total, up, characters
        for t in range(first, last):
            size = np.int64(tokens[t, END] - tokens[t, START])
            up *= of_sizes[size] if size < SHORT else power(BASE, size)
            down *= inverses[size] if size < SHORT else power(INVERSE, size)
            total += hashes[t] * down
            characters += np.int64(tokens[t, CHARACTERS])
            mixes[t] = mixed(hashes[t])
            sums[t - first + 1], powers[t - first + 1], places[t - first + 1] = total, up, characters
        column = 0
        for n in TOP_GRAMS:
            if last - first >= n:
                age = new_age(table, age)
                counts[d, column] = top_characters(
                    tokens, mixes, first, last, n, table, firsts, np.uint64(age)
                )
            column += 1
        for n in DUPLICATE_GRAMS:
            age = new_age(table, age)
            counts[d, column] = duplicate_characters(
                sums, powers, places, last - first, n, table, np.uint64(age)
            )
            column += 1
    return age


def count_grams(tokens: Tokens, hashes: Hashes, ends: Places, table: "Table") -> Places:
    """Count the characters of the most frequent 2-, 3- and 4-grams and of duplicate 5- to 10-grams: (n, 9) int64.

    table: see `new_table`; it is kept for the next documents.
    """
    counts = np.zeros((len(ends) - 1, len(TOP_GRAMS) + len(DUPLICATE_GRAMS)), np.int64)
    table.make_room(int(np.diff(ends).max(initial=0)))
    table.age = _count_grams(tokens, hashes, ends, table.entries, table.firsts, table.age, counts)
    return counts


class Table:
    """A hash table that is used again and again, without being cleared: its entries have an age."""

    def __init__(self) -> None:
        self.age = 0
        self.entries, self.firsts = np.zeros(0, np.uint64), np.zeros((0, 2), np.uint32)

    def make_room(self, n: int) -> None:
        """Make the table as large as so many entries need, a third more."""
        size = int(mask_for(n)) + 1
        if size > len(self.entries):
            self.entries, self.firsts = np.zeros(size, np.uint64), np.empty((size, 2), np.uint32)


@without_counts
def paragraph_counts(data, a, b, table, mask, age, row):
    """Count the paragraphs in the bytes from a to b, where neither end is white space, and what repeats of them."""
    i, start = a, a
    paragraphs = duplicates = characters = 0
    while i <= b:
        end = i
        while i < b and data[i] == NEW_LINE:
            i += 1
        if i - end > 1 or end == b:
            paragraphs += 1
            if is_known(hash_bytes(data, start, end), table, mask, age):
                duplicates += 1
                characters += characters_in(data, start, end)
            start = i
        i += i == end
    row[5], row[6], row[7] = paragraphs, duplicates, characters


@without_counts
def new_line(data, i, stop):
    """Return where the next new line stands, or the end."""
    k, end = np.uint64(i), np.uint64(stop)
    while k < end and data[k] != NEW_LINE:
        k += ONE
    return np.int64(k)


@without_counts
def line_counts(data, start, stop, classes, table, mask, age, row):
    i, lines, duplicates, duplicate, empty = start, 0, 0, 0, 0
    texts = terminals = shorts = duplicate_text = new_lines = split = longest = 0
    while i <= stop:
        end = new_line(data, i, stop)
        length = characters_in(data, i, end)
        new_lines += end < stop
        split += end < stop or end > i
        longest = max(longest, length)
        a, b = stripped(data, i, end, classes)
        if b > a:
            texts += 1
            shorts += length <= SHORT_LINE
            p = end - 1
            while data[p] & 0xC0 == 0x80:
                p -= 1
            terminals += classes[code_at(data, p)[0]] & TERMINAL != 0
        if end > i:
            lines += 1
            if is_known(hash_bytes(data, i, end), table, mask, age):
                duplicates += 1
                duplicate += length
                duplicate_text += length if b > a else 0
        elif (
            i == start or end == stop
        ):  # all new lines together part two lines, of which the outermost may be empty
            empty += 1
        i = end + 1
    row[1], row[2], row[3], row[4] = new_lines, lines + empty, duplicates + max(0, empty - 1), duplicate
    row[8], row[9], row[10], row[11] = texts, terminals, shorts, duplicate_text
    row[12], row[13] = split, longest


@without_counts
def _count_lines(data, offsets, classes, table, age, counts):
    for d in range(offsets.size - 1):
        start, stop = offsets[d], offsets[d + 1]
        alphanumeric = new_lines = 0
        i, end = np.uint64(start), np.uint64(stop)
        while i < end:
            first = data[i]
            if first < 0x80:
                alphanumeric += classes[first] & ALNUM != 0
                new_lines += first == NEW_LINE
                i += ONE
            else:
                code, size = code_at(data, np.int64(i))
                alphanumeric += classes[code] & ALNUM != 0
                i += np.uint64(size)
        mask = mask_for(new_lines + 1)
        counts[d, 0], counts[d, 14] = characters_in(data, start, stop), alphanumeric
        age = new_age(table, age)
        line_counts(data, start, stop, classes, table, mask, np.uint64(age), counts[d])
        age = new_age(table, age)
        a, b = stripped(data, start, stop, classes)
        paragraph_counts(data, a, b, table, mask, np.uint64(age), counts[d])
    return age


def count_lines(data: Bytes, offsets: Places, classes: Classes, table: "Table") -> Places:
    """Count LINES of each document: (n, 15) int64.

    `lines` are parted by runs of new lines, `text_lines` by each of them and have more than white space,
    `paragraphs` by two new lines or more; `split_lines` are all lines. table: see `Table`.
    """
    counts = np.zeros((len(offsets) - 1, len(LINES)), np.int64)
    table.make_room(int(np.diff(offsets).max(initial=0)) // 2 + 2)
    table.age = _count_lines(data, offsets, classes, table.entries, table.age, counts)
    return counts


# The rules of C4 for lines. What is said of a line:
LOREM, CURLY, KEPT, REWRITTEN = 1, 2, 4, 8
SCRIPT, POLICY, BRACKET = 16, 32, 64
FEWEST_WORDS, LONGEST_WORD = 3, 1000
JAVASCRIPT, PRIVACY, COOKIE_POLICY, USE_COOKIES, USES_COOKIES, USE_OF_COOKIES, TERMS, LOREM_IPSUM = (
    np.frombuffer(phrase, np.uint8)
    for phrase in (
        b"javascript", b"privacy policy", b"cookie policy", b"use cookies", b"uses cookies", b"use of cookies",
        b"terms of use", b"lorem ipsum",
    )
)  # fmt: skip
EDIT, CITATION = np.frombuffer(b"edit]", np.uint8), np.frombuffer(b"citation needed]", np.uint8)


@without_counts
def stands_at(data, i, a, b, phrase):
    """Say whether a phrase in lower case stands at byte i, within those from a to b, in any case of ASCII."""
    if i < a or i + len(phrase) > b:
        return False
    for k in range(len(phrase)):
        byte = data[i + k]
        if (byte + 32 if 65 <= byte <= 90 else byte) != phrase[k]:
            return False
    return True


@without_counts
def phrases_in(data, a, b):
    """Return which of the phrases and brackets that C4 looks for are in the bytes from a to b."""
    found = 0
    for k in range(np.uint64(a), np.uint64(b)):
        low = data[k] | 32
        if low < 102 or (low != 123 and low != 118 and low != 107 and low != 102 and low != 112):
            continue
        i = np.int64(k)
        if low == 123:  # [ and {
            found |= CURLY if data[i] == 123 else BRACKET
        elif low == 118:  # each phrase is looked for by a letter that is rare: v, k, f or p
            found |= SCRIPT if stands_at(data, i - 2, a, b, JAVASCRIPT) else 0
            found |= POLICY if stands_at(data, i - 3, a, b, PRIVACY) else 0
        elif low == 107:
            found |= POLICY if stands_at(data, i - 3, a, b, COOKIE_POLICY) else 0
            found |= POLICY if stands_at(data, i - 7, a, b, USE_COOKIES) else 0
            found |= POLICY if stands_at(data, i - 8, a, b, USES_COOKIES) else 0
            found |= POLICY if stands_at(data, i - 10, a, b, USE_OF_COOKIES) else 0
        elif low == 102:
            found |= POLICY if stands_at(data, i - 7, a, b, TERMS) else 0
        elif low == 112:
            found |= LOREM if stands_at(data, i - 7, a, b, LOREM_IPSUM) else 0
    return found


@without_counts
def without_citations(data, a, b, classes, out):
    """Write the bytes from a to b without [1], [edit] and [citation needed]; return how many are left."""
    n, i = 0, a
    while i < b:
        if data[i] == 91:
            j = i + 1
            while j < b:
                code, size = code_at(data, j)
                if classes[code] & DECIMAL == 0:
                    break
                j += size
            if j < b and data[j] == 93:
                i = j + 1
                continue
            is_found = False
            for phrase in (EDIT, CITATION):
                if i + 1 + len(phrase) <= b:
                    is_same = True
                    for k in range(len(phrase)):
                        is_same &= data[i + 1 + k] == phrase[k]
                    if is_same:
                        i += 1 + len(phrase)
                        is_found = True
                        break
            if is_found:
                continue
        out[n] = data[i]
        n += 1
        i += 1
    return n


@without_counts
def words_and_longest(data, a, b, classes):
    """Return how many words stand between white space, and the characters of the longest."""
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
    return words, longest


@without_counts
def ends_sentence(data, a, b):
    if b <= a or data[b - 1] not in (46, 63, 33, 34, 39):  # . ? ! " '
        return False
    return not (b - a >= 3 and data[b - 1] == DOT and data[b - 2] == DOT and data[b - 3] == DOT)


@without_counts
def judge_line(data, a, b, classes, terminal, out):
    """Say what C4's rules say of a line without white space around it, and how many bytes of `out` it is then."""
    words, longest = words_and_longest(data, a, b, classes)
    if longest > LONGEST_WORD or words < FEWEST_WORDS:
        return 0, 0
    found = phrases_in(data, a, b)
    n, said = b - a, 0
    if found & BRACKET:
        n = without_citations(data, a, b, classes, out)
        if n < b - a:
            found, said = phrases_in(out, 0, n), REWRITTEN
    if terminal and not (ends_sentence(out, 0, n) if said else ends_sentence(data, a, b)):
        return 0, 0
    if found & LOREM:
        said |= LOREM
    if found & SCRIPT:
        return said, n
    if found & CURLY and not found & LOREM:
        said |= CURLY
    return said if found & POLICY else said | KEPT, n


@without_counts
def sentences_of(data, base, tokens, t, last, stop):
    """Count the sentences of the tokens from t on that begin before byte `stop`; return also the next token.

    White space between tokens, but for a single space, is a token of its own here.
    """
    sentences, is_over, has_words, end = 0, False, False, np.int64(-1)
    while t < last and np.int64(tokens[t, START]) < stop:
        marks, gap = tokens[t, MARKS], np.int64(tokens[t, START]) - end if end >= 0 else 0
        if is_over and (gap > 1 or (gap == 1 and data[base + end] != 32)):
            sentences, is_over, has_words = sentences + has_words, False, False
        if is_over and marks & (PUNCTUATION | PERIOD) == 0:
            sentences, is_over, has_words = sentences + has_words, False, False
        elif marks & PERIOD:
            is_over = True
        has_words = True
        end = np.int64(tokens[t, END])
        t += 1
    return sentences + has_words, t


@njit(cache=True, nogil=True)
def _count_c4(data, offsets, classes, terminal, tokens, ends, counts, other, other_ends, owners):
    """Count; write rewritten lines to `other`, for their tokens are others, and return how many there are."""
    n = others = 0
    line = np.empty(longest_of(offsets), np.uint8)
    for d in range(offsets.size - 1):
        base, stop = offsets[d], offsets[d + 1]
        i, t, last = base, ends[d], ends[d + 1]
        while i < stop:
            end, following = line_end(data, i, stop)
            a, b = stripped(data, i, end, classes)
            if b > a:
                said, size = judge_line(data, a, b, classes, terminal, line)
                counts[d, 0] += said & LOREM != 0
                counts[d, 1] += said & CURLY != 0
                while t < last and base + np.int64(tokens[t, START]) < a:
                    t += 1
                if said & KEPT and said & REWRITTEN:
                    other[n : n + size] = line[:size]
                    n += size
                    owners[others] = d
                    others += 1
                    other_ends[others] = n
                elif said & KEPT:
                    sentences, t = sentences_of(data, base, tokens, t, last, b - base)
                    counts[d, 2] += sentences
            i = following
    return others


@without_counts
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
def _has_other_lines(data, offsets, classes, terminal, found):
    line = np.empty(longest_of(offsets), np.uint8)
    for d in range(offsets.size - 1):
        i, stop = offsets[d], offsets[d + 1]
        found[d] = i < stop and data[stop - 1] == NEW_LINE
        while i < stop and not found[d]:
            end, following = line_end(data, i, stop)
            a, b = stripped(data, i, end, classes)
            if a > i or b < end or a == b or (end < stop and (data[end] != NEW_LINE or following == stop)):
                found[d] = True
                break
            said, _ = judge_line(data, a, b, classes, terminal, line)
            found[d] = said & KEPT == 0 or said & REWRITTEN != 0
            i = following


@njit(cache=True, nogil=True)
def _keep_c4(data, offsets, classes, terminal, out, ends):
    n = ends[0] = 0
    line = np.empty(longest_of(offsets), np.uint8)
    for d in range(offsets.size - 1):
        i, stop = offsets[d], offsets[d + 1]
        while i < stop:
            end, following = line_end(data, i, stop)
            a, b = stripped(data, i, end, classes)
            if b > a:
                said, size = judge_line(data, a, b, classes, terminal, line)
                if said & KEPT:
                    if n > ends[d]:
                        out[n] = NEW_LINE
                        n += 1
                    if said & REWRITTEN:
                        out[n : n + size] = line[:size]
                    else:
                        out[n : n + size] = data[a:b]
                    n += size
            i = following
        # A line of which a citation was taken may have white space around it.
        a, b = stripped(out, ends[d], n, classes)
        for k in range(b - a):
            out[ends[d] + k] = out[a + k]
        n = ends[d + 1] = ends[d] + b - a


def has_other_lines(data: Bytes, offsets: Places, classes: Classes, terminal: bool) -> NDArray[np.bool_]:
    """Say which documents C4's rules for lines change: (n,) bool."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    _has_other_lines(data, offsets, classes, terminal, found)
    return found


def keep_c4_lines(data: Bytes, offsets: Places, classes: Classes, terminal: bool) -> tuple[Bytes, Places]:
    """Return the texts of the lines that C4 keeps, uint8, and (n + 1,) ends."""
    out, ends = np.empty(int(offsets[-1] - offsets[0]), np.uint8), np.zeros(len(offsets), np.int64)
    _keep_c4(data, offsets, classes, terminal, out, ends)
    return out[: ends[-1]], ends


# The rules of RefinedWeb for lines, as DCLM has them.
MOST_CAPITALS, MOST_NUMERALS, MOST_WORDS = 0.5, 0.999999, 10
COUNTED = np.frombuffer(
    b"likes shares comments retweets reposts quotes bookmarks upvotes downvotes downloads views followers ",
    np.uint8,
)
IN_CART, READ_MORE, SIGN_IN = (
    np.frombuffer(phrase, np.uint8) for phrase in (b"items in cart", b"read more", b"sign-in")
)


@without_counts
def words_counted(data, a, b, classes):
    """Count the words between ASCII's white space and nulls that begin with a letter or a digit."""
    words, is_in, i = 0, False, a
    while i < b:
        byte = data[i]
        if byte == 32 or 9 <= byte <= 13 or byte == 0:
            is_in = False
        elif not is_in:
            is_in = True
            words += classes[code_at(data, i)[0]] & ALNUM != 0
        i += 1
    return words


@without_counts
def is_loud_or_numeric(data, a, b, classes, bit, most):
    """Say whether more than so large a share of a line's characters are of a class; of an empty line not."""
    found = characters = 0
    i, end = np.uint64(a), np.uint64(b)
    while i < end:
        first = data[i]
        if first < 0x80:
            found += classes[first] & bit != 0
            i += ONE
        else:
            code, size = code_at(data, np.int64(i))
            found += classes[code] & bit != 0
            i += np.uint64(size)
        characters += 1
    return characters > 0 and found / characters > most


@without_counts
def beyond_others(data, a, b, classes):
    """Return where the first character of a word stands."""
    while a < b:
        code, size = code_at(data, a)
        if classes[code] & ALNUM or code == 95:
            break
        a += size
    return a


@without_counts
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


@without_counts
def is_edited(data, a, b, classes):
    """Say whether a line of few words has a phrase that is taken out of it."""
    if words_and_longest(data, a, b, classes)[0] > MOST_WORDS:
        return False
    if stands_at(data, a, a, b, SIGN_IN):
        return True
    p = b
    for _ in range(3):  # READ_MORE and any three characters
        p -= 1
        while p > a and data[p] & 0xC0 == 0x80:
            p -= 1
    if p > a and stands_at(data, p - len(READ_MORE), a, b, READ_MORE):
        return True
    for i in range(a, b - len(IN_CART) + 1):  # noqa: SIM110 (numba does not know `any`)
        if stands_at(data, i, a, b, IN_CART):
            return True
    return False


@without_counts
def strip_lines(data, spans, low, high, classes):
    """Take the white space at the ends of the lines from low to high; return which are left."""
    while low < high:
        spans[low, 0], end = stripped(data, spans[low, 0], spans[low, 1], classes)[0], spans[low, 1]
        if spans[low, 0] < end:
            break
        low += 1
    while high > low:
        spans[high - 1, 1] = stripped(data, spans[high - 1, 0], spans[high - 1, 1], classes)[1]
        if spans[high - 1, 0] < spans[high - 1, 1]:
            break
        high -= 1
    return low, high


@without_counts
def is_dropped(data, a, b, rule, classes):
    if rule == 0:
        return is_loud_or_numeric(data, a, b, classes, CAPITAL, MOST_CAPITALS)
    if rule == 1:
        return is_loud_or_numeric(data, a, b, classes, NUMERAL, MOST_NUMERALS)
    if rule == 2:
        return is_counter(data, a, b, classes)
    return b > a and words_and_longest(data, a, b, classes)[0] < 2


@without_counts
def refine(data, start, stop, classes, spans):
    """Write the lines that are left of a document: return the first and the last, and whether any is edited."""
    n, i = 0, start
    for k in range(start, stop + 1):
        if k == stop or data[k] == NEW_LINE:
            spans[n, 0], spans[n, 1] = i, k
            n += 1
            i = k + 1
    low, high = 0, n
    for rule in range(4):
        kept = low
        for line in range(low, high):
            if not is_dropped(data, spans[line, 0], spans[line, 1], rule, classes):
                spans[kept, 0], spans[kept, 1] = spans[line, 0], spans[line, 1]
                kept += 1
        high = kept
        if rule < 3:
            low, high = strip_lines(data, spans, low, high, classes)
    for line in range(low, high):
        if is_edited(data, spans[line, 0], spans[line, 1], classes):
            return low, high, True
    low, high = strip_lines(data, spans, low, high, classes)
    return low, high, False


@njit(cache=True, nogil=True)
def _refine_all(data, offsets, classes, words, states, out, ends):
    """Count the words before and after, and write the texts of what is left, if there is room for them."""
    n = 0
    spans = np.empty((longest_of(offsets) + 1, 2), np.int64)
    for d in range(offsets.size - 1):
        start, stop = offsets[d], offsets[d + 1]
        low, high, has_edits = refine(data, start, stop, classes, spans)
        words[d, 0] = words_counted(data, start, stop, classes)
        states[d] = 2 if has_edits else 0 if low < high else 1 if stop > start else 0
        size = max(0, high - low - 1)
        for line in range(low, high):
            words[d, 1] += words_counted(data, spans[line, 0], spans[line, 1], classes)
            size += spans[line, 1] - spans[line, 0]
        if not has_edits and size < stop - start:
            states[d] = 1
        if len(out):
            for line in range(low, high):
                if line > low:
                    out[n] = NEW_LINE
                    n += 1
                for k in range(spans[line, 0], spans[line, 1]):
                    out[n] = data[k]
                    n += 1
            ends[d + 1] = n


def refine_lines(
    data: Bytes, offsets: Places, classes: Classes, is_written: bool
) -> tuple[Places, Bytes, Bytes, Places]:
    """Apply RefinedWeb's rules for lines.

    Returns the words before and after, (n, 2) int64; of each document 0 if it stays as it is, 1 if it changes and
    2 if phrases are to be taken out of its lines, which is not done here, (n,) uint8; and if so wished the texts,
    uint8, and (n + 1,) ends.
    """
    words, states = np.zeros((len(offsets) - 1, 2), np.int64), np.zeros(len(offsets) - 1, np.uint8)
    out = np.empty(int(offsets[-1] - offsets[0]) + 1 if is_written else 0, np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    _refine_all(data, offsets, classes, words, states, out, ends)
    return words, states, out[: ends[-1]], ends
