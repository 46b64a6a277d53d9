r"""Exact token counts of byte-level BPE on the CPU, compiled by numba.

Counting needs no ids, and the pre-tokens of a corpus repeat: each is encoded once and its count kept
in a hash table. What is left is to cut the text into pre-tokens, as GPT-2's pattern does:

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

Tokenizers may have added tokens that are runs of spaces; those are cut out first, the longest first,
and the text between them is cut piece by piece. Plain English is cut 64 bytes at a time, for where a
pre-token begins follows from the classes of a byte and its neighbours; all else is cut byte by byte.
"""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textkernels.buffers import check_buffers
from textkernels.swar import edges_of_64, like_or_beyond, load_8, prefetch, trailing_zeros

OTHER, LETTER, NUMBER, SPACE = 0, 1, 2, 3
CLASS = 3  # the bits of a character's class
UNSAFE = 4  # the bit of a character that a normaliser may change
BLANK, QUOTE = 32, 39
# Bytes of a pre-token up to which a scan for the best merge beats a heap: with 8 the first counting of a text
# takes a quarter longer, with 128 as long (python -m benchmarks.constants).
SHORT = 32
LONGEST_KEPT = 64  # bytes of a pre-token that is worth a place in the table
NO_MERGE = np.uint64(2**64 - 1)  # above every rank << 32 | new id, so that a search for the least passes it
LONGEST_KEY = 15  # bytes of a pre-token that is its own key
LONG_KEY = np.uint64(0xFF << 56)  # in the place of a short one's size, which is less
SIZE_SHIFT, HASH_SHIFT = np.uint64(56), np.uint64(32)
NOTHING, ONE = np.uint64(0), np.uint64(1)
# Pre-tokens that are cut before the first is looked up; 64 bytes hold 64 at most. With 64 counting takes three
# times as long, with 1,024 and more as long (python -m benchmarks.constants).
BATCH = 256
FIELDS = np.uint64(4)  # of an entry of the table
HASH = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd: multiplicative (Fibonacci) hashing
ALL = np.uint64(2**64 - 1)
# By a pre-token's size: masks that leave of the 8 bytes from its start on, and of the next 8, its own.
LOW_BYTES = np.array([(1 << 8 * min(size, 8)) - 1 for size in range(LONGEST_KEY + 1)], np.uint64)
HIGH_BYTES = np.array([(1 << 8 * max(size - 8, 0)) - 1 for size in range(LONGEST_KEY + 1)], np.uint64)
NEEDS_NORMALISER, HOLDS_ADDED = -1, -2


class Tables(NamedTuple):
    """What a tokenizer says. Made by `tasks.tokens.byte_level`.

    classes: (0x110000,) uint8, the class of each code point and UNSAFE. run_tokens: (runs,) int64, the
    longest run of at most so many spaces that is a token, 0 for none. byte_ids: (256,) int64.
    merge_keys: (slots,) uint64, left id << 32 | right id, and merge_values: (slots,) uint64,
    rank << 32 | new id, or NO_MERGE in an empty slot. added: uint8, the texts of the added tokens that
    are no runs of spaces, one after another; added_ends: (n + 1,) int64, where each begins and ends;
    added_firsts: uint8, the bytes that one of them begins with.
    """

    classes: NDArray[np.uint8]
    run_tokens: NDArray[np.int64]
    byte_ids: NDArray[np.int64]
    merge_keys: NDArray[np.uint64]
    merge_values: NDArray[np.uint64]
    added: NDArray[np.uint8]
    added_ends: NDArray[np.int64]
    added_firsts: NDArray[np.uint8]


class Known(NamedTuple):
    """Pre-tokens that were counted before: a hash table (linear probing) that is filled up to a limit.

    The threads of a worker share one, so nothing that writes to it may be compiled with `nogil`.

    entries: (slots, 4) uint64, so that a look takes one cache line: two words of a key, the second of
    which is 0 in an empty slot, and place << 16 | tokens. A pre-token of up to 15 bytes is its own key,
    with its size in the last byte; of a longer one the first word is a hash, and its bytes stand in
    `kept`, uint8, at its place. used: (2,) int64, how many slots and how many of the bytes.
    """

    entries: NDArray[np.uint64]
    kept: NDArray[np.uint8]
    used: NDArray[np.int64]


def nothing_known(slots: int = 1 << 21, kept: int = 1 << 25) -> Known:
    """Return an empty table: 96 MiB, for a million and a half pre-tokens."""
    return Known(np.zeros((slots, 4), np.uint64), np.zeros(kept, np.uint8), np.zeros(2, np.int64))


@njit(cache=True)
def merge_of(left, right, tables):
    """Return rank << 32 | new id of two neighbours, or NO_MERGE."""
    key = np.uint64(left) << np.uint64(32) | np.uint64(right)
    # As in `tasks.tokens.byte_level.merge_table`, which fills it: slots are a power of two, and chosen by
    # bits of the product to which both ids contribute.
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
        best = 0  # the rank is the upper half of a merge, so the least number is of the best rank
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
    heap = [np.uint64(0) for _ in range(0)]  # empty, but numba sees of what type its members will be
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
        ids[j] = -1  # part of its left neighbour now: its pairs that are still in the heap are passed over
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
def word_of(data, start, stop):
    """Read up to 8 bytes as one word, whether or not more follow."""
    # The first byte is the lowest, as in `load_8`: a pre-token has the same key by either way.
    word = np.uint64(0)
    for i in range(stop - start):
        word |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return word


@njit(cache=True)
def pre_token_key(data, start, stop):
    """Return the two words of a pre-token's key."""
    size = stop - start
    if size <= LONGEST_KEY:
        middle = min(start + 8, stop)
        low, high = word_of(data, start, middle), word_of(data, middle, stop)
        return low, high | np.uint64(size) << SIZE_SHIFT
    hashed = np.uint64(0)
    for i in range(start, stop):
        hashed = (hashed ^ np.uint64(data[i])) * HASH  # wraps: a hash modulo 2**64
    return hashed, LONG_KEY | np.uint64(size)


@njit(cache=True)
def is_at(data, start, size, kept, place):
    for i in range(size):  # noqa: SIM110 (numba has no all())
        if data[start + i] != kept[place + i]:
            return False
    return True


@njit(cache=True)
def learn(data, start, low, high, slot, tables, known):
    """Encode a pre-token that is not in the table, and put it there if there is room."""
    size = np.int64(high >> SIZE_SHIFT if high < LONG_KEY else high & ~LONG_KEY)
    stop = start + size
    is_short = size <= SHORT
    tokens = encode_short(data, start, stop, tables) if is_short else encode_long(data, start, stop, tables)
    slots, used = known.used
    kept = size if high >= LONG_KEY else 0
    if slots * 4 < len(known.entries) * 3 and used + kept <= known.kept.size:
        known.kept[used : used + kept] = data[start : start + kept]
        known.entries[slot, 0], known.entries[slot, 1] = low, high
        known.entries[slot, 2] = used << 16 | tokens  # no more tokens than bytes, so 16 bits hold them
        known.used[0], known.used[1] = slots + 1, used + kept
    return tokens


@njit(cache=True)
def slot_of(low, high, mask):
    """Return where in the table a pre-token is looked for first."""
    return ((low ^ high * HASH) * HASH >> HASH_SHIFT) & mask


@njit(cache=True)
def look_up(data, start, low, high, slot, entries, kept):
    """Return the tokens of a pre-token, -1 if it is not in the table, and its slot there."""
    mask = np.uint64(len(entries) - 1)
    while entries[slot, 1] != 0:  # a size stands in every key's second word, so only an empty slot has 0
        if entries[slot, 0] == low and entries[slot, 1] == high:
            value = np.int64(entries[slot, 2])
            # A short key is the pre-token itself. A long one is a hash, so its bytes decide.
            if high < LONG_KEY or is_at(data, start, np.int64(high & ~LONG_KEY), kept, value >> 16):
                return value & 0xFFFF, slot
        slot = (slot + ONE) & mask
    return -1, slot


@njit(cache=True)
def character(data, i, classes):
    """Return the class of the character at byte i of valid UTF-8, with UNSAFE, and where it ends."""
    # The first byte says how many there are (110xxxxx: 2, 1110xxxx: 3, 11110xxx: 4); each after it is
    # 10xxxxxx and adds six bits to the code point.
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
    last_start = i
    characters = 0
    j = i
    while j < end:
        if run_token(data, j, end, run_tokens) > 0:
            return j
        kind, after = character(data, j, classes)
        if kind & CLASS != SPACE:
            return last_start if characters > 1 else j
        last_start, j = j, after
        characters += 1
    return end


@njit(cache=True)
def end_of_word(data, i, end, kind, classes):
    """Return where the characters of one class end."""
    while i < end:
        if data[i] < 0x80:
            if classes[data[i]] != kind:  # without a mask: no ASCII is UNSAFE
                return i
            i += 1
        else:
            next_kind, after = character(data, i, classes)
            if next_kind & CLASS != kind:
                return i
            i = after
    return i


@njit(cache=True)
def starts_added(data, i, end, added, added_ends):
    """Say whether the text of an added token begins at byte i."""
    for t in range(added_ends.size - 1):
        size = added_ends[t + 1] - added_ends[t]
        if i + size <= end and is_at(data, i, size, added, added_ends[t]):
            return True
    return False


@njit(cache=True)
def needs_library(data, i, end, is_normalised, tables):
    """Return why a document is not counted here, HOLDS_ADDED or NEEDS_NORMALISER, or 0.

    What is plain ASCII, without a byte that an added token begins with, is passed over 64 bytes at a time.
    """
    classes, added, ends, firsts = tables.classes, tables.added, tables.added_ends, tables.added_firsts
    reason = 0
    while i < end:
        while i + 64 <= end:
            stops = like_or_beyond(data, i, 0x80)  # 0x80 is beyond ASCII anyway: for that alone
            for first in firsts:
                stops |= like_or_beyond(data, i, first)
            if stops != 0:
                i += np.int64(trailing_zeros(stops))
                break
            i += 64
        stop = min(end, i + 8)
        while i < stop:
            if starts_added(data, i, end, added, ends):
                return HOLDS_ADDED
            kind, i = character(data, i, classes)
            if kind & UNSAFE and not is_normalised:
                reason = NEEDS_NORMALISER
    return reason


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
def starts_in_64(data, i, end, cuts_blanks):
    """Return at which of the 64 bytes from i on, where one begins, another pre-token does: a bit for each.

    cuts_blanks: all bits set where two blanks begin a token wherever they stand. The bits end where the next may
    be something else than classes say: at a contraction, at a token of blanks, and two bytes before a
    character beyond ASCII or the end of the document, which decide what comes before them.
    """
    begins, beyond, blanks, quotes = edges_of_64(data, i)
    if end - i < 64:
        beyond |= ALL << np.uint64(end - i)
    starts = begins << ONE
    special = blanks | quotes & (starts | ONE)
    # x & -x is the lowest bit of x alone, or 0; -x is written ~x + 1, for these numbers have no sign.
    lowest, far = special & (~special + ONE), beyond & (~beyond + ONE)
    starts |= lowest & blanks & cuts_blanks & ~ONE
    # A bit less one is all the bits below it; 0 less one wraps to all there are.
    return starts & ((lowest << ONE) - ONE) & (far - ONE) >> ONE


@njit(cache=True)
def cut(data, i, end, tables, entries, batch):
    """Cut a batch of pre-tokens from byte i on; look for each, which takes a while, but do not wait.

    batch: (BATCH, 4) uint64; a row is the two words of a key, its slot, and the byte where it begins.
    Returns the byte after the last, how many rows there are, and how many tokens are none of them.
    """
    # Local names: a tuple of arrays that is handed from call to call costs more than the look itself.
    classes, runs = tables.classes, tables.run_tokens
    # 64 bytes are read from the two after i on, and 16 from the start of each pre-token: up to i + 79.
    last_loaded, mask, room = data.size - 80, np.uint64(len(entries) - 1), len(batch) - 64
    cuts_blanks = ALL if runs.size > 2 and runs[2] > 0 else NOTHING
    rows = count = 0
    while i < end and rows <= room:
        run = run_token(data, i, end, runs)
        if run > 0:
            count += 1
            i += run
            continue
        starts = starts_in_64(data, i, end, cuts_blanks) if i <= last_loaded else NOTHING
        begin = i
        while starts != 0:
            stop = i + np.int64(trailing_zeros(starts))
            starts &= starts - ONE  # without its lowest bit
            size = stop - begin
            if size <= LONGEST_KEY:
                low = load_8(data, begin) & LOW_BYTES[size]
                high = load_8(data, begin + 8) & HIGH_BYTES[size] | np.uint64(size) << SIZE_SHIFT
            else:
                low, high = pre_token_key(data, begin, stop)
            slot = slot_of(low, high, mask)
            prefetch(entries, slot * FIELDS)
            batch[rows, 0], batch[rows, 1], batch[rows, 2], batch[rows, 3] = (
                low,
                high,
                slot,
                np.uint64(begin),
            )
            # One byte is one token. What is written for it is overwritten: that costs less than a branch.
            rows += size > 1
            count += size == 1
            begin = stop
        if begin > i:
            i = begin
            continue
        size = end_of_pretoken(data, i, end, classes, runs) - i
        if size > LONGEST_KEPT:
            count += encode_long(data, i, i + size, tables)
        elif size == 1:
            count += 1
        else:
            low, high = pre_token_key(data, i, i + size)
            slot = slot_of(low, high, mask)
            prefetch(entries, slot * FIELDS)
            batch[rows, 0], batch[rows, 1], batch[rows, 2], batch[rows, 3] = low, high, slot, np.uint64(i)
            rows += 1
        i += size
    return i, rows, count


@njit(cache=True)
def count_batch(data, batch, tables, known):
    """Count the tokens of a batch of pre-tokens."""
    entries, kept = known.entries, known.kept
    count = 0
    for k in range(len(batch)):
        low, high, slot, start = batch[k, 0], batch[k, 1], batch[k, 2], np.int64(batch[k, 3])
        tokens, slot = look_up(data, start, low, high, slot, entries, kept)
        if tokens < 0:
            tokens = learn(data, start, low, high, slot, tables, known)
        count += tokens
    return count


@njit(cache=True)
def _count_documents(data, offsets, is_normalised, tables, known, counts):
    batch = np.empty((BATCH, 4), np.uint64)
    for d in range(counts.size):
        i, end = offsets[d], offsets[d + 1]
        counts[d] = needs_library(data, i, end, is_normalised, tables)
        while counts[d] >= 0 and i < end:
            i, rows, count = cut(data, i, end, tables, known.entries, batch)
            counts[d] += count + count_batch(data, batch[:rows], tables, known)


def count_documents(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    tables: Tables,
    known: Known,
    *,
    is_normalised: bool,
) -> NDArray[np.int64]:
    """Count the tokens of every document of a block of text.

    data: the documents' UTF-8 bytes, one after another, valid. offsets: (n + 1,). is_normalised: say
    that the tokenizer's normaliser would change nothing. Returns (n,) int64: NEEDS_NORMALISER for a
    document that the normaliser might change, HOLDS_ADDED for one with an added token. Adds to `known`.
    """
    check_buffers(data, offsets)
    counts = np.empty(len(offsets) - 1, np.int64)
    _count_documents(data, offsets, is_normalised, tables, known, counts)
    return counts
