r"""Exact token counts of byte-level BPE on the CPU, compiled by numba.

Counting needs no ids, and the pre-tokens of a corpus repeat: each is encoded once and its count kept
in a hash table. What is left is to cut the text into pre-tokens, as GPT-2's pattern does:

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

Tokenizers may have added tokens that are runs of spaces; those are cut out first, the longest first,
and the text between them is cut piece by piece.
"""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

OTHER, LETTER, NUMBER, SPACE = 0, 1, 2, 3
CLASS = 3  # the bits of a character's class
UNSAFE = 4  # the bit of a character that a normaliser may change
BLANK, QUOTE = 32, 39
SHORT = 32  # bytes of a pre-token up to which a scan for the best merge beats a heap
LONGEST_KEPT = 64  # bytes of a pre-token that is worth a place in the table
NO_MERGE = np.uint64(2**64 - 1)
LONG_KEY = np.uint64(0xFF << 56)
HASH = np.uint64(0x9E3779B97F4A7C15)
NEEDS_NORMALISER = -1


class Tables(NamedTuple):
    """What a tokenizer says. Made by `tasks.byte_level`.

    classes: (0x110000,) uint8, the class of each code point and UNSAFE. run_tokens: (runs,) int64, the
    longest run of at most so many spaces that is a token, 0 for none. byte_ids: (256,) int64.
    merge_keys: (slots,) uint64, left id << 32 | right id, and merge_values: (slots,) uint64,
    rank << 32 | new id, or NO_MERGE in an empty slot.
    """

    classes: NDArray[np.uint8]
    run_tokens: NDArray[np.int64]
    byte_ids: NDArray[np.int64]
    merge_keys: NDArray[np.uint64]
    merge_values: NDArray[np.uint64]


class Known(NamedTuple):
    """Pre-tokens that were counted before: a hash table that is filled up to a limit.

    entries: (slots, 2) uint64, so that a look takes one cache line: a key, 0 in an empty slot, and
    place << 16 | size << 8 | tokens. A pre-token of up to 7 bytes is its own key; of a longer one the
    key is a hash, and its bytes stand in `kept`, uint8, at its place. used: (2,) int64, how many slots
    and how many of the bytes.
    """

    entries: NDArray[np.uint64]
    kept: NDArray[np.uint8]
    used: NDArray[np.int64]


def nothing_known(slots: int = 1 << 21, kept: int = 1 << 25) -> Known:
    """Return an empty table: 64 MiB, for a million and a half pre-tokens."""
    return Known(np.zeros((slots, 2), np.uint64), np.zeros(kept, np.uint8), np.zeros(2, np.int64))


@njit(cache=True)
def merge_of(left, right, tables):
    """Return rank << 32 | new id of two neighbours, or NO_MERGE."""
    key = np.uint64(left) << np.uint64(32) | np.uint64(right)
    mask = np.uint64(tables.merge_keys.size - 1)
    slot = (key * HASH >> np.uint64(40)) & mask
    while tables.merge_values[slot] != NO_MERGE:
        if tables.merge_keys[slot] == key:
            return tables.merge_values[slot]
        slot = (slot + np.uint64(1)) & mask
    return NO_MERGE


@njit(cache=True)
def encode_short(data, start, end, tables):
    """Count the tokens of a short pre-token: merge the best pair, the first among equals, and again."""
    n = end - start
    ids = np.empty(n, np.int64)
    merges = np.empty(n, np.uint64)
    for i in range(n):
        ids[i] = tables.byte_ids[data[start + i]]
    for i in range(n - 1):
        merges[i] = merge_of(ids[i], ids[i + 1], tables)
    while n > 1:
        best = 0
        for i in range(1, n - 1):
            if merges[i] < merges[best]:
                best = i
        if merges[best] == NO_MERGE:
            return n
        ids[best] = np.int64(merges[best] & np.uint64(0xFFFFFFFF))
        n -= 1
        for i in range(best + 1, n):
            ids[i] = ids[i + 1]
            merges[i - 1] = merges[i]
        if best < n - 1:
            merges[best] = merge_of(ids[best], ids[best + 1], tables)
        if best > 0:
            merges[best - 1] = merge_of(ids[best - 1], ids[best], tables)
    return n


@njit(cache=True)
def encode_long(data, start, end, tables):
    """Count the tokens of a long pre-token, with a heap of pairs by rank and place."""
    n = end - start
    ids = np.empty(n, np.int64)
    after = np.arange(1, n + 1)
    before = np.arange(-1, n - 1)
    low = np.uint64(0xFFFFFFFF)
    high = np.uint64(32)
    for i in range(n):
        ids[i] = tables.byte_ids[data[start + i]]
    heap = [np.uint64(0) for _ in range(0)]
    for i in range(n - 1):
        merge = merge_of(ids[i], ids[i + 1], tables)
        if merge != NO_MERGE:
            heap.append((merge >> high) << high | np.uint64(i))
    heapify(heap)
    count = n
    while len(heap) > 0:
        top = heappop(heap)
        i = np.int64(top & low)
        j = after[i] if ids[i] >= 0 else n
        if j >= n:
            continue
        merge = merge_of(ids[i], ids[j], tables)
        if merge == NO_MERGE or merge >> high != top >> high:
            continue  # one of the two has been merged with another since
        ids[i] = np.int64(merge & low)
        ids[j] = -1
        after[i] = after[j]
        if after[j] < n:
            before[after[j]] = i
            following = merge_of(ids[i], ids[after[i]], tables)
            if following != NO_MERGE:
                heappush(heap, (following >> high) << high | np.uint64(i))
        if before[i] >= 0:
            preceding = merge_of(ids[before[i]], ids[i], tables)
            if preceding != NO_MERGE:
                heappush(heap, (preceding >> high) << high | np.uint64(before[i]))
        count -= 1
    return count


@njit(cache=True)
def key_of(data, start, end):
    """Return the key of a pre-token: its bytes and their number, or a hash of more than 7."""
    size = end - start
    key = np.uint64(0)
    if size < 8:
        for i in range(start, end):
            key = key << np.uint64(8) | np.uint64(data[i])
        return key | np.uint64(size) << np.uint64(56)
    for i in range(start, end):
        key = (key ^ np.uint64(data[i])) * HASH
    return (key ^ key >> np.uint64(29)) | LONG_KEY


@njit(cache=True)
def is_at(data, start, size, kept, place):
    for i in range(size):  # noqa: SIM110 (numba has no all())
        if data[start + i] != kept[place + i]:
            return False
    return True


@njit(cache=True)
def learn(data, start, end, key, slot, tables, known):
    """Encode a pre-token that is not in the table, and put it there if there is room."""
    size = end - start
    tokens = (
        encode_short(data, start, end, tables) if size <= SHORT else encode_long(data, start, end, tables)
    )
    slots, used = known.used
    if slots * 4 < len(known.entries) * 3 and used + size <= known.kept.size:
        known.kept[used : used + size] = data[start:end]
        known.entries[slot, 0] = key
        known.entries[slot, 1] = used << 16 | size << 8 | tokens
        known.used[0], known.used[1] = slots + 1, used + size
    return tokens


@njit(cache=True)
def look_up(data, start, end, entries, kept):
    """Return the tokens of a pre-token, -1 if it is not in the table, and its key and slot there."""
    size = end - start
    key = key_of(data, start, end)
    mask = np.uint64(len(entries) - 1)
    slot = (key * HASH >> np.uint64(32)) & mask
    while entries[slot, 0] != 0:
        if entries[slot, 0] == key:
            found = np.int64(entries[slot, 1])
            if size < 8 or (found >> 8 & 0xFF == size and is_at(data, start, size, kept, found >> 16)):
                return found & 0xFF, key, slot
        slot = (slot + np.uint64(1)) & mask
    return -1, key, slot


@njit(cache=True)
def character(data, i, classes):
    """Return the class of the character at byte i of valid UTF-8, with UNSAFE, and where it ends."""
    first = np.int64(data[i])
    if first < 0x80:
        return classes[first], i + 1
    if first < 0xE0:
        return classes[(first & 0x1F) << 6 | data[i + 1] & 0x3F], i + 2
    code = np.int64(data[i + 1] & 0x3F) << 6 | data[i + 2] & 0x3F
    if first < 0xF0:
        return classes[(first & 0x0F) << 12 | code], i + 3
    return classes[(first & 0x07) << 18 | code << 6 | data[i + 3] & 0x3F], i + 4


@njit(cache=True)
def run_token(data, i, end, run_tokens):
    """Return the length of the token of spaces at byte i, 0 if there is none."""
    if run_tokens.size < 3 or i + 1 >= end or data[i] != BLANK or data[i + 1] != BLANK:
        return 0
    stop = min(end, i + run_tokens.size - 1)
    j = i + 2
    while j < stop and data[j] == BLANK:
        j += 1
    return run_tokens[j - i]


@njit(cache=True)
def contraction(data, i, end):
    """Return the length of the English contraction that a quote at byte i begins, 0 if none."""
    if i + 1 >= end:
        return 0
    a = data[i + 1]
    if a in (115, 116, 109, 100):  # s t m d
        return 2
    if i + 2 < end:
        b = data[i + 2]
        if (a == 114 and b == 101) or (a == 118 and b == 101) or (a == 108 and b == 108):  # re ve ll
            return 3
    return 0


@njit(cache=True)
def end_of_spaces(data, i, end, classes, run_tokens):
    """Return where the white space at byte i is cut: before its last character, if a word follows."""
    last = i
    characters = 0
    j = i
    while j < end:
        if run_token(data, j, end, run_tokens) > 0:
            return j
        kind, after = character(data, j, classes)
        if kind & CLASS != SPACE:
            return last if characters > 1 else j
        last, j = j, after
        characters += 1
    return end


@njit(cache=True)
def end_of_word(data, i, end, kind, classes):
    """Return where the characters of one class end."""
    while i < end:
        if data[i] < 0x80:
            if classes[data[i]] != kind:
                return i
            i += 1
        else:
            next_kind, after = character(data, i, classes)
            if next_kind & CLASS != kind:
                return i
            i = after
    return i


@njit(cache=True)
def may_change(data, start, end, classes):
    """Say whether a normaliser may change any of these characters."""
    i = start
    while i < end:
        if data[i] < 0x80:
            i += 1
            continue
        kind, i = character(data, i, classes)
        if kind & UNSAFE:
            return True
    return False


@njit(cache=True)
def end_of_pretoken(data, i, end, classes, run_tokens):
    """Return where the pre-token at byte i ends; no token of spaces begins there."""
    if data[i] == QUOTE:
        size = contraction(data, i, end)
        if size > 0:
            return i + size
    kind, stop = character(data, i, classes)
    if data[i] == BLANK and stop < end:
        next_kind, next_stop = character(data, stop, classes)
        if next_kind & CLASS != SPACE:
            kind, stop = next_kind, next_stop
    kind &= CLASS
    if kind == SPACE:
        return end_of_spaces(data, i, end, classes, run_tokens)
    return end_of_word(data, stop, end, kind, classes)


@njit(cache=True)
def _count_documents(data, offsets, is_normalised, tables, known, counts):
    # Local names: a tuple of arrays that is handed from call to call costs more than the look itself.
    classes, runs = tables.classes, tables.run_tokens
    entries, kept = known.entries, known.kept
    for d in range(counts.size):
        i, end = offsets[d], offsets[d + 1]
        count = 0
        if not is_normalised and may_change(data, i, end, classes):
            count, i = NEEDS_NORMALISER, end
        while i < end:
            run = run_token(data, i, end, runs)
            if run > 0:
                count += 1
                i += run
                continue
            stop = end_of_pretoken(data, i, end, classes, runs)
            if stop - i == 1:
                count += 1
            elif stop - i > LONGEST_KEPT:
                count += encode_long(data, i, stop, tables)
            else:
                tokens, key, slot = look_up(data, i, stop, entries, kept)
                count += tokens if tokens > 0 else learn(data, i, stop, key, slot, tables, known)
            i = stop
        counts[d] = count


def count_documents(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    tables: Tables,
    known: Known,
    *,
    is_normalised: bool,
) -> NDArray[np.int64]:
    """Count the tokens of every document of a block of text, none of which holds an added token.

    data: the documents' UTF-8 bytes, one after another, valid. offsets: (n + 1,). is_normalised: say
    that the tokenizer's normaliser would change nothing; else a document that it might change is not
    counted. Returns (n,) int64, NEEDS_NORMALISER for such a document. Adds to `known`.
    """
    counts = np.empty(len(offsets) - 1, np.int64)
    _count_documents(data, offsets, is_normalised, tables, known, counts)
    return counts
