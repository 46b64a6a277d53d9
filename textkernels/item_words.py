"""Hashes of the words of a text in any format, to search for items of evaluation sets. Compiled by numba.

A word is a run of letters, digits and marks, folded. Punctuation, symbols, white space and tags end it. Entities of
HTML and escapes of JSON are read as the characters that they encode. LaTeX commands that format text are
read as white space. Invisible characters are skipped, as is a hyphen at the end of a line together with
the line end. A character of a language without spaces is a word. `Letters` has the table of characters, made by
`tasks.documents.item_words`.

Each function reads forward. It reads bytes again at most once, after a failed attempt: time is linear.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.swar import special_64, trailing_zeros
from zyda_flows.textkernels.utf8 import code_at, mix

END, JOIN = np.uint32(0), np.uint32(1)  # entries of the table; the entry of a letter is its folded code + 2
SEVERAL = np.uint32(1 << 29)  # several entries: the other bits are their index
ALONE = np.uint32(1 << 30)  # the character is a word, with the marks after it
MARK = np.uint32(1 << 31)  # a mark of the letter before it; the order of marks does not matter
NUMBER = np.uint32((1 << 28) - 1)

BASE = np.uint64(0xB492B66FBE98F273)
MARK_FACTOR = np.uint64(0x9E3779B97F4A7C15)
ONE = np.uint64(1)
LONGEST = 24  # letters of an entity or a command
MOST_WORDS = 8  # in one character
STRETCH = 64  # bytes that are read separately if any of 64 bytes is special
BLANKS = (
    5  # most blanks in a tag between two quotation marks; with more it is text: an item may be an attribute
)
WIDE = (
    0xE0  # the lowest first byte of three-byte characters; in languages without spaces they count as blanks
)
TAB, NEW_LINE, RETURN, BLANK, QUOTE, SHARP, AND, HYPHEN, SEMICOLON, LESS, MORE, BACKSLASH, SOFT_HYPHEN = (
    9, 10, 13, 32, 34, 35, 38, 45, 59, 60, 62, 92, 0xAD
)  # fmt: skip
HYPHENS = (HYPHEN, SOFT_HYPHEN, 0x2010)
REPLACEMENT = 0xFFFD

Hashes = NDArray[np.uint64]


class Letters(NamedTuple):
    """The table of characters.

    entries: (0x110000,) uint32, an entry for each code point. several: entries, uint32; the entries of index i are
    several[first[i]:first[i + 1]]. names: hashes of the names of entities, ascending, with their codes. commands:
    hashes of the names of LaTeX commands, ascending.
    """

    entries: NDArray[np.uint32]
    several: NDArray[np.uint32]
    first: NDArray[np.int64]
    names: Hashes
    codes: NDArray[np.int64]
    commands: Hashes


@njit(cache=True, nogil=True, inline="always")
def is_letter(byte):
    return 97 <= byte | 32 <= 122


@njit(cache=True, nogil=True)
def digit_of(byte):
    """Return the value of a hexadecimal digit; 16 for any other byte."""
    if 48 <= byte <= 57:
        return byte - 48
    return (byte | 32) - 87 if 97 <= byte | 32 <= 102 else 16


@njit(cache=True, nogil=True)
def name_at(data, i, stop):
    """Return the hash of the letters and digits from byte i on, and their end."""
    h, j = np.uint64(0), i
    while j < stop and j - i < LONGEST and (is_letter(data[j]) or 48 <= data[j] <= 57):
        h = h * BASE + np.uint64(data[j])
        j += 1
    return h, j


@njit(cache=True, nogil=True)
def number_at(data, i, stop, base):
    """Return the number of at most eight digits that begins at byte i, and its end."""
    number, j = 0, i
    while j < stop and j - i < 8 and digit_of(np.int64(data[j])) < base:
        number = number * base + digit_of(np.int64(data[j]))
        j += 1
    return number, j


@njit(cache=True, nogil=True)
def index_of(hashes, h):
    """Return the index of a hash, or -1 if it is missing."""
    place = np.searchsorted(hashes, h)
    return place if place < len(hashes) and hashes[place] == h else -1


@njit(cache=True, nogil=True)
def entity_after(data, i, stop, letters):
    """Return the character of an entity whose & ends at byte i, and its end; without an entity, return & and i."""
    if i < stop and data[i] == SHARP:
        is_hex = i + 1 < stop and data[i + 1] | 32 == 120
        begin = i + 2 if is_hex else i + 1
        code, j = number_at(data, begin, stop, 16 if is_hex else 10)
        if begin < j < stop and data[j] == SEMICOLON:
            return code if 0 < code < 0x110000 else REPLACEMENT, j + 1
        return AND, i
    h, j = name_at(data, i, stop)
    place = index_of(letters.names, h)
    if place >= 0 and j < stop and data[j] == SEMICOLON:
        return letters.codes[place], j + 1
    return AND, i


@njit(cache=True, nogil=True)
def unicode_at(data, i, stop):
    """Return the number of a JSON escape `u0041` at byte i, and its end; without an escape, return -1 and i."""
    if i + 4 < stop and data[i] == 117:
        code, j = number_at(data, i + 1, i + 5, 16)
        if j == i + 5:
            return code, j
    return -1, i


@njit(cache=True, nogil=True)
def escape_after(data, i, stop, letters):
    """Return the character of an escape or command whose backslash ends at byte i, and its end."""
    while i < stop and data[i] == BACKSLASH:  # an escape that is escaped
        i += 1
    if i == stop:
        return BLANK, i
    code, j = unicode_at(data, i, stop)
    if 0xD800 <= code < 0xDC00 and j < stop and data[j] == BACKSLASH:
        low, after = unicode_at(data, j + 1, stop)
        if 0xDC00 <= low < 0xE000:
            return 0x10000 + (code - 0xD800 << 10) + low - 0xDC00, after
    if code >= 0:
        return code, j
    h, j = name_at(data, i, stop)
    if j > i and index_of(letters.commands, h) >= 0:
        return BLANK, j
    if data[i] == HYPHEN:
        return SOFT_HYPHEN, i + 1
    # An escaped tab or line end; any other character is read as a character of the text.
    return BLANK, i + 1 if data[i] == 110 or data[i] == 114 or data[i] == 116 else i


@njit(cache=True, nogil=True)
def read_character(data, i, stop, letters):
    """Return the decoded character at byte i, and its end."""
    code, size = code_at(data, i)
    code, i = np.int64(code), i + size
    if code == BACKSLASH:
        return escape_after(data, i, stop, letters)
    if code == AND:
        code, i = entity_after(data, i, stop, letters)
        while code == AND:  # an entity that is escaped
            code, j = entity_after(data, i, stop, letters)
            if j == i:
                break
            i = j
    return code, i


@njit(cache=True, nogil=True)
def tag_end(data, begin, stop, letters):
    """Return the end of a tag whose < ends at byte `begin`; return `begin` if there is no tag."""
    code, i = read_character(data, begin, stop, letters) if begin < stop else (BLANK, begin)
    if not (code < 128 and is_letter(code)) and code != 47 and code != 33 and code != 63:
        return begin
    blanks = 0
    while i < stop:
        if data[i] == AND or data[i] == BACKSLASH:
            code, i = read_character(data, i, stop, letters)
        else:
            code, i = np.int64(data[i]), i + 1
        if code == MORE:
            return i
        blanks = 0 if code == QUOTE else blanks + (code <= BLANK or code >= WIDE)
        if code == LESS or blanks > BLANKS:
            return begin
    return begin


@njit(cache=True, nogil=True)
def after_blanks(data, i, stop):
    while i < stop and (data[i] == BLANK or data[i] == TAB):
        i += 1
    return i


@njit(cache=True, nogil=True)
def after_line_end(data, i, stop):
    """Return the end of a line end at byte i, which may be escaped as in JSON; return i if there is no line end."""
    for byte, letter in ((RETURN, 114), (NEW_LINE, 110)):
        if i < stop and data[i] == byte:
            i += 1
        elif i + 1 < stop and data[i] == BACKSLASH and data[i + 1] == letter:
            i += 2
    return i


@njit(cache=True, nogil=True)
def next_line(data, begin, stop):
    """Return the byte where a word continues whose hyphen ends at byte `begin`; return `begin` if it does not."""
    blanks_end = after_blanks(data, begin, stop)
    line_end = after_line_end(data, blanks_end, stop)
    i = after_blanks(data, line_end, stop)
    return i if line_end > blanks_end and i < stop and (is_letter(data[i]) or data[i] >= 0x80) else begin


@njit(cache=True, nogil=True, inline="always")
def add_entry(entry, begin, end, h, words, n, is_alone, starts, stops):
    """Add an entry to the word; return its hash, its number, and whether it is ALONE. begin, end: its bytes."""
    if entry == JOIN:
        return h, n, is_alone
    if entry & MARK:
        h += (np.uint64(entry) * MARK_FACTOR) * np.uint64(h != 0)
    else:
        if h and (is_alone or entry == END or entry & ALONE):
            words[n] = h
            n += 1
            h = np.uint64(0)
        is_alone = entry & ALONE != 0
        if entry != END:
            if starts is not None and h == 0:
                starts[n] = begin
            h = h * BASE + np.uint64(entry)
    if stops is not None and h:
        stops[n] = end
    return h, n, is_alone


@njit(cache=True, nogil=True)
def read_special(data, i, stop, letters, h, words, n, starts, stops):
    """Read STRETCH bytes from i on, byte by byte; return the hash of the word, its number and the next byte."""
    is_alone, beyond, entries = False, min(stop, i + STRETCH), letters.entries
    while i < beyond or (is_alone and i < stop):
        begin = i
        if data[i] == AND or data[i] == BACKSLASH:
            code, i = read_character(data, i, stop, letters)
        else:
            point, size = code_at(data, i)
            code, i = np.int64(point), i + size
        entry = entries[code]
        if starts is None and JOIN < entry < SEVERAL and not is_alone:
            h = h * BASE + np.uint64(entry)
            continue
        if code == LESS:
            i = tag_end(data, i, stop, letters)
        elif h and (code in HYPHENS):
            after = next_line(data, i, stop)
            entry, i = JOIN if after > i else entry, after
        if entry & SEVERAL:
            for place in range(letters.first[entry & NUMBER], letters.first[(entry & NUMBER) + 1]):
                h, n, is_alone = add_entry(
                    letters.several[place], begin, i, h, words, n, is_alone, starts, stops
                )
        else:
            h, n, is_alone = add_entry(entry, begin, i, h, words, n, is_alone, starts, stops)
    return h, n, i


@njit(cache=True, nogil=True, inline="always")
def add_ascii(entry, h, words, n):
    """Add a byte of ASCII to the word, as `textkernels.words.add` does."""
    words[n] = h
    is_end = entry == END
    n += np.uint64(is_end & (h != 0))
    return np.uint64(0) if is_end else h * BASE + np.uint64(entry), n


@njit(cache=True, nogil=True)
def segment(data, start, end, letters, words, first, starts, stops):
    """Write the hashes of a document's words from index `first` on; return the index after the last.

    starts, stops: for each word its first byte and the byte after its last; or None for both.
    """
    entries = letters.entries
    i, n, h = start, np.uint64(first), np.uint64(0)  # unsigned: an index is not tested for being negative
    while i < end:
        clear = np.int64(0)
        if starts is None and i + 64 < end:
            clear = np.int64(trailing_zeros(special_64(data, i)))
        if clear == 64:
            j = np.uint64(i)
            for k in range(np.uint64(64)):
                h, n = add_ascii(entries[data[j + k]], h, words, n)
        else:
            for k in range(np.uint64(i), np.uint64(i + clear)):
                h, n = add_ascii(entries[data[k]], h, words, n)
        i += clear
        if clear < 64:
            h, place, i = read_special(data, i, end, letters, h, words, np.int64(n), starts, stops)
            n = np.uint64(place)
    words[n] = h
    n += np.uint64(h != 0)
    for place in range(np.uint64(first), n):
        words[place] = mix(words[place])
    return np.int64(n)


@njit(cache=True, nogil=True)
def _hash_words(data, offsets, letters, words, ends):
    ends[0] = 0
    for d in range(offsets.size - 1):
        ends[d + 1] = segment(data, offsets[d], offsets[d + 1], letters, words, ends[d], None, None)


@njit(cache=True, nogil=True)
def _place_words(data, letters, words, starts, stops):
    return segment(data, 0, data.size, letters, words, 0, starts, stops)


@njit(cache=True, nogil=True)
def _most_words(data, start, end):
    """Return an upper bound of the words of a text: a word for two bytes, more for characters of several words."""
    more = 2  # for the last byte
    for k in range(np.uint64(start), np.uint64(max(start, end - 1))):
        byte, after = data[k], data[k + ONE]
        is_number = ((byte == AND) & (after == SHARP)) | ((byte == BACKSLASH) & (after == 117))
        more += 2 * (byte >= 0x80) + MOST_WORDS * is_number
    return (end - start) // 2 + more


def hash_words(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], letters: Letters
) -> tuple[Hashes, NDArray[np.int64]]:
    """Hash every word of a block of text in any format.

    data: UTF-8 bytes. offsets: (n + 1,) int64. Returns the hashes, uint64, and their ends, (n + 1,) int64: those of
    document i are hashes[ends[i]:ends[i + 1]].
    """
    check_buffers(data, offsets)
    # A document's last word has no end after it, and `add_ascii` writes 1 index further than complete words.
    most = _most_words(data, offsets[0], offsets[-1]) + len(offsets) + 1
    words, ends = np.empty(most, np.uint64), np.empty(len(offsets), np.int64)
    _hash_words(data, offsets, letters, words, ends)
    return words[: ends[-1]], ends


def place_words(data: NDArray[np.uint8], letters: Letters) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first byte of each word of a text that `hash_words` finds, and the byte after: (w,) each."""
    check_buffers(data, np.array([0, len(data)]))
    most = _most_words(data, 0, len(data)) + 2
    starts, stops = np.empty(most, np.int64), np.empty(most, np.int64)
    n = _place_words(data, letters, np.empty(most, np.uint64), starts, stops)
    return starts[:n], stops[:n]
