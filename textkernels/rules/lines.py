"""Count properties and repetitions of the lines and paragraphs of documents. Compiled by numba.

Lines end only at a new line, byte 10. tokens.py defines the bits of `classes`.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.counts import Counts, named_counts
from zyda_flows.textkernels.swar import between_64, bits_set, load_8, trailing_zeros
from zyda_flows.textkernels.utf8 import (
    ALNUM,
    NEW_LINE,
    SPACE,
    TERMINAL,
    code_at,
    first_bits,
    last_code,
    new_line,
    stripped,
)  # fmt: skip

LINES = named_counts(
    "characters", "line_characters", "new_lines", "lines", "duplicate_lines", "duplicate_line_characters",
    "paragraphs", "duplicate_paragraphs", "duplicate_paragraph_characters", "text_lines", "terminal_lines",
    "short_lines", "duplicate_text_characters", "split_lines", "max_line_length", "alphanumeric",
)  # fmt: skip
SHORT_LINE = 30
BASE, SPREAD = np.uint64(0xB492B66FBE98F273), np.uint64(0x9E3779B97F4A7C15)
ZERO, ONE, THREE, SHIFT = (np.uint64(n) for n in (0, 1, 3, 32))
AGE, AGES = np.uint64(0xFFFF), 1 << 16  # the bits of an entry with the round in which it was written
Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


class LineTable:
    """A hash table that is reused without being cleared: its entries have an age."""

    def __init__(self) -> None:
        self.age = 0
        self.entries = np.zeros(16, np.uint64)

    def make_room(self, n: int) -> None:
        """Make the table large enough for n entries: a third more slots than entries."""
        size = int(mask_for(n)) + 1
        if size > len(self.entries):
            self.entries, self.age = np.zeros(size, np.uint64), 0


@njit(cache=True, nogil=True)
def is_blank(data, a, b, classes):
    """Return whether the bytes from a to b are only white space."""
    while a < b:
        code, size = code_at(data, a)
        if classes[code] & SPACE == 0:
            return False
        a += size
    return True


@njit(cache=True, nogil=True, inline="always")
def characters_in(data, a, b):
    n = b - a
    for i in range(a, b, 64):
        n -= np.int64(bits_set(between_64(data, i, 0x80, 0xBF) & first_bits(b - i)))
    return n


@njit(cache=True, nogil=True)
def letters_and_new_lines(data, a, b, classes):
    """Return the number of letters and digits, the number of new lines, and whether all bytes are ASCII."""
    found = new_lines = beyond = np.uint64(0)
    for i in range(a, b, 64):
        here = first_bits(b - i)
        letters = between_64(data, i, 65, 90) | between_64(data, i, 97, 122) | between_64(data, i, 48, 57)
        found += bits_set(letters & here)
        new_lines += bits_set(between_64(data, i, NEW_LINE, NEW_LINE) & here)
        firsts = between_64(data, i, 0xC0, 0xFF) & here
        beyond |= firsts
        while firsts:
            code, _ = code_at(data, i + np.int64(trailing_zeros(firsts)))
            found += np.uint64(classes[code] & ALNUM != 0)
            firsts &= firsts - ONE  # without its lowest bit
    return np.int64(found), np.int64(new_lines), beyond == 0


@njit(cache=True, nogil=True, inline="always")
def hash_of(data, a, b):
    """Return the hash of the bytes from a to b."""
    h, last = SPREAD, data.size - 8
    for k in range(a, b, 8):
        place = min(k, last)  # eight bytes at k, without reading beyond the end
        word = load_8(data, place) >> (np.uint64(k - place) << THREE)
        h = (h ^ (word & first_bits(8 * (b - k)))) * BASE
        h ^= h >> SHIFT
    h = (h ^ np.uint64(b - a)) * SPREAD
    return h ^ (h >> SHIFT)


@njit(cache=True, nogil=True, inline="always")
def is_known(h, table, mask, age):
    """Return whether a hash was in the table already in this round, and add it."""
    slot, entry = h & mask, h & ~AGE | age
    while table[slot] & AGE == age and table[slot] != entry:
        slot = (slot + ONE) & mask
    found = table[slot] == entry
    table[slot] = entry
    return found


@njit(cache=True, nogil=True)
def mask_for(n):
    size = 16
    while 3 * size < 4 * n:
        size *= 2
    return np.uint64(size - 1)


@njit(cache=True, nogil=True)
def count_of_lines(data, start, stop, classes, breaks, p, is_ascii, table, mask, age, row, hashes, ends):
    """Count lines; write the end of each and its hash. p: the number of the first break.

    Return the number of lines, and the number of the first break after the document.
    """
    i, n, lines, duplicates, duplicate, empty = start, 0, 0, 0, 0, 0
    texts = terminals = shorts = duplicate_text = longest = characters = 0
    while i <= stop:
        end, p = new_line(data, breaks, p, stop)
        h, length = hash_of(data, i, end), end - i if is_ascii else characters_in(data, i, end)
        characters += length
        longest = max(longest, length)
        is_text = False
        if end > i:
            last_bits = classes[data[end - 1] if data[end - 1] < 0x80 else last_code(data, end)[0]]
            is_text = last_bits & SPACE == 0 or not is_blank(data, i, end, classes)
            terminals += is_text and last_bits & TERMINAL != 0
            texts += is_text
            shorts += is_text and length <= SHORT_LINE
            lines += 1
            if is_known(h, table, mask, age):
                duplicates += 1
                duplicate += length
                duplicate_text += length if is_text else 0
        elif (
            i == start or end == stop
        ):  # new lines together part two lines, of which the outermost may be empty
            empty += 1
        hashes[n], ends[n] = h, end
        n += 1
        i = end + 1
    row.characters, row.line_characters, row.new_lines = characters + n - 1, characters, n - 1
    row.lines, row.duplicate_lines = lines + empty, duplicates + max(0, empty - 1)
    row.duplicate_line_characters, row.duplicate_text_characters = duplicate, duplicate_text
    row.text_lines, row.terminal_lines, row.short_lines = texts, terminals, shorts
    row.split_lines, row.max_line_length = n - (stop == start or data[stop - 1] == NEW_LINE), longest
    return n, p


@njit(cache=True, nogil=True)
def count_of_paragraphs(data, a, b, start, table, mask, age, row, hashes, ends, n):
    """Count the paragraphs in the bytes from a to b, where neither end is white space, and repeated ones.

    Two paragraphs are equal if their lines are.
    """
    paragraphs = duplicates = characters = 0
    first, h, i = -1, ZERO, start
    if a == b:
        row.paragraphs = 1
        return
    for line in range(n):
        low, high = max(i, a), min(ends[line], b)
        if low < high:
            is_whole = low == i and high == ends[line]
            h = (h ^ (hashes[line] if is_whole else hash_of(data, low, high))) * BASE
            h ^= h >> SHIFT
            first = low if first < 0 else first
        if ends[line] >= b or (low < high and line + 1 < n and ends[line + 1] == ends[line] + 1):
            paragraphs += 1
            if is_known(h, table, mask, age):
                duplicates += 1
                characters += characters_in(data, first, high)
            h, first = ZERO, -1
            if ends[line] >= b:
                break
        i = ends[line] + 1
    row.paragraphs, row.duplicate_paragraphs = paragraphs, duplicates
    row.duplicate_paragraph_characters = characters


@njit(cache=True, nogil=True)
def _count_lines(data, offsets, classes, breaks, hashes, ends, table, age, counts):
    p = 0
    for d in range(offsets.size - 1):
        start, stop = offsets[d], offsets[d + 1]
        if age + 2 >= AGES:
            table[:] = 0
            age = 0
        age += 2
        row = counts[d]
        row.alphanumeric, new_lines, is_ascii = letters_and_new_lines(data, start, stop, classes)
        mask = mask_for(min(new_lines + 1, (stop - start) // 2 + 2))
        n, p = count_of_lines(
            data,
            start,
            stop,
            classes,
            breaks,
            p,
            is_ascii,
            table,
            mask,
            np.uint64(age - 1),
            row,
            hashes,
            ends,
        )
        a, b = stripped(data, start, stop, classes)
        count_of_paragraphs(data, a, b, start, table, mask, np.uint64(age), row, hashes, ends, n)
    return age


def count_lines(
    data: Bytes, offsets: Places, classes: NDArray[np.uint32], table: LineTable, breaks: Places
) -> Counts:
    """Count LINES of each document, (n,).

    `lines` are separated by runs of new lines. `text_lines` are separated by each new line and have more than white
    space. `paragraphs` are separated by two new lines or more. `split_lines` are all lines.
    table: is reused for the next documents. breaks: from `line_breaks`.
    """
    counts = np.zeros(len(offsets) - 1, LINES)
    longest = int(np.diff(offsets).max(initial=0))
    table.make_room(longest // 2 + 2)
    # Allocated here, because compiled code would count references for every line.
    hashes, ends = np.empty(longest + 1, np.uint64), np.empty(longest + 1, np.int64)
    table.age = _count_lines(data, offsets, classes, breaks, hashes, ends, table.entries, table.age, counts)
    return counts
