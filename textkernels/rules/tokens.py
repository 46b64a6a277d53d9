"""Cut English text into tokens: words, and the punctuation around and within them. Compiled by numba.

White space, which is found 64 bytes at a time, cuts a text into chunks; cutting.py cuts a chunk into tokens. Texts
repeat their chunks: a memo stores the pieces of a chunk by its bytes, until another chunk takes its slot. The memo
returns the result of cutting, so it saves time and changes nothing else.

A token is a row of `tokens`: START and END as bytes, its CHARACTERS and its MARKS; `hashes` has a polynomial in its
bytes, modulo 2**64.
"""

import threading

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.rules.cutting import BASE, CHARACTERS, END, MARKS, SPREAD, cut_new_chunk, describe
from zyda_flows.textkernels.swar import load_8, prefetch, trailing_zeros, white_space_of_64

# A slot of the memo has the chunk's first 15 bytes with its size in the 16th, and INLINE pieces; further bytes and
# pieces are in MORE other numbers. A piece is a number with CHARACTERS and MARKS as in `tokens`, whose unused bits
# store the number of pieces (in the first piece) and the end of the piece; and its hash.
MEMO_SLOTS, MEMO_TOP = 1 << 17, np.uint64(64 - 17)
SLOT, INLINE, MORE = 8, 3, 32
COUNT, ENDS, BYTE = np.uint64(36), np.uint64(52), np.uint64(0xFF)
INLINE_BYTES, SIZE = 15, np.uint64(56)
MEMO = MEMO_SLOTS * (SLOT + MORE)
MEMO_BYTES = 64  # bytes of a chunk, at most
BATCH = 128  # chunks whose slots are prefetched before the first is read
PADDING = 80  # bytes after a block that may be read, and positions after its tokens that may be written
ZERO, ONE, TWO, EIGHT, FIRST_BYTES, HALF = (np.uint64(n) for n in (0, 1, 2, 8, INLINE_BYTES, 32))
LAST_BIT, WITHIN, ALL = np.uint64(63), np.uint64(63), np.uint64(2**64 - 1)
# By a chunk's size: masks for its bytes among the 8 bytes from its start on, and among the next 8.
LOW_BYTES = np.array([(1 << 8 * min(size, 8)) - 1 for size in range(INLINE_BYTES + 1)], np.uint64)
HIGH_BYTES = np.array([(1 << 8 * max(size - 8, 0)) - 1 for size in range(INLINE_BYTES + 1)], np.uint64)


@njit(cache=True, nogil=True)
def find_white_space(block, size, spaces):
    """Write a bit for each byte of a block, 64 a word: whether it is part of white space."""
    rest = ZERO  # the bits of wide white space in the next word
    for word in range((size + 63) // 64):
        found, wide = white_space_of_64(block, 64 * word)
        found |= rest
        rest = ZERO
        while wide:
            bit = trailing_zeros(wide)
            # White space of two bytes begins with 0xC2; the others have three bytes.
            more = np.uint64(3) if block[np.uint64(64 * word) + bit] == 0xC2 else np.uint64(7)
            found |= more << bit
            rest |= (more >> ONE) >> (LAST_BIT - bit)
            wide &= wide - ONE
        spaces[word] = found


@njit(cache=True, nogil=True)
def find_chunks(spaces, a, b, edges):
    """Write the begins and ends of the chunks between two bytes, in turn; return the number of chunks."""
    n, before, first, last = 0, ZERO, np.uint64(a) >> np.uint64(6), np.uint64(b) >> np.uint64(6)
    for word in range(np.int64(first), (b + 63) // 64):
        solid = ~spaces[word]
        if np.uint64(word) == first:
            solid &= ALL << (np.uint64(a) & WITHIN)
        if np.uint64(word) == last:
            solid &= ~(ALL << (np.uint64(b) & WITHIN))
        turns = solid ^ (solid << ONE | before)
        before = solid >> LAST_BIT
        while turns:
            edges[n] = np.uint64(64 * word) + trailing_zeros(turns)
            turns &= turns - ONE
            n += 1
    if before:
        edges[n] = b
        n += 1
    return n // 2


@njit(cache=True, nogil=True)
def hash_of_long(block, a, b, h):
    """Extend the hash of a chunk of more than INLINE_BYTES."""
    for k in range(a + FIRST_BYTES, b, EIGHT):
        word = load_8(block, np.int64(k)) & LOW_BYTES[min(b - k, EIGHT)]
        h = ((h >> HALF) ^ h ^ word) * SPREAD
    return h


@njit(cache=True, nogil=True)
def prefetch_slots(block, edges, first, last, memo, batch):
    """Write the first two numbers and the slot of chunks, and prefetch the cache line of each slot."""
    for chunk in range(first, last):
        a, b = np.uint64(edges[2 * chunk]), np.uint64(edges[2 * chunk + 1])
        short = min(b - a, FIRST_BYTES)
        key = load_8(block, np.int64(a)) & LOW_BYTES[short]
        second = load_8(block, np.int64(a + EIGHT)) & HIGH_BYTES[short] | min(b - a, BYTE) << SIZE
        h = key * SPREAD ^ (second + (second >> HALF)) * BASE
        if b - a > FIRST_BYTES:
            h = hash_of_long(block, a, min(b, a + np.uint64(MEMO_BYTES)), h)
        slot = h >> MEMO_TOP
        prefetch(memo, slot * np.uint64(SLOT))
        row = chunk - first
        batch[row, 0], batch[row, 1], batch[row, 2] = key, second, slot


@njit(cache=True, nogil=True)
def has_rest(block, a, b, memo, place):
    """Return whether the bytes of a chunk after the first equal the bytes in the memo."""
    for k in range(a + FIRST_BYTES, b, EIGHT):
        if memo[place] != load_8(block, np.int64(k)) & LOW_BYTES[min(b - k, EIGHT)]:
            return False
        place += ONE
    return True


@njit(cache=True, nogil=True)
def memorise(block, a, b, start, slot, key, second, memo, tokens, hashes, first, n):
    """Write the pieces of a chunk, which begins at `start` of its document, to a slot of the memo."""
    entry, place = slot * SLOT, MEMO_SLOTS * SLOT + slot * MORE
    words = max(b - a - INLINE_BYTES + 7, 0) // 8
    if words + 2 * max(n - first - INLINE, 0) > MORE:
        return
    memo[entry], memo[entry + 1] = key, second
    for k in range(words):
        i = a + INLINE_BYTES + 8 * k
        memo[place + k] = load_8(block, i) & LOW_BYTES[min(b - i, 8)]
    place += words
    more = np.uint64(n - first) << COUNT
    for k in range(n - first):
        at = entry + 2 + 2 * k if k < INLINE else place + 2 * (k - INLINE)
        more |= np.uint64(tokens[first + k, END] - start) << ENDS
        marks = np.uint64(tokens[first + k, MARKS]) << HALF
        memo[at], memo[at + 1] = more | marks | np.uint64(tokens[first + k, CHARACTERS]), hashes[first + k]
        more = ZERO


@njit(cache=True, nogil=True, inline="always")
def copy_piece(memo, place, chunk, start, pairs, hashes, n):
    """Write a piece from the memo to index n; return its end."""
    piece = memo[place]
    end = chunk + (piece >> ENDS & BYTE)
    pairs[n, ZERO], pairs[n, ONE], hashes[n] = start | end << HALF, piece, memo[place + ONE]
    return end


@njit(cache=True, nogil=True, inline="always")
def copy_pieces(memo, entry, place, chunk, pairs, hashes, n):
    """Write the pieces of a slot, with the further pieces at `place`; return the index after them."""
    count, start = memo[entry + TWO] >> COUNT & BYTE, chunk
    for k in range(INLINE):  # also if there are fewer: faster than a branch
        start = copy_piece(
            memo, entry + TWO + TWO * np.uint64(k), chunk, start, pairs, hashes, n + np.uint64(k)
        )
    for k in range(n + np.uint64(INLINE), n + count):
        start = copy_piece(memo, place, chunk, start, pairs, hashes, k)
        place += TWO
    return n + count


@njit(cache=True, nogil=True)
def cut_chunks(block, base, edges, first, last, classes, rules, memo, batch, tokens, pairs, hashes, n):
    """Write the tokens of chunks of the document at `base` from index n on; return the next index.

    pairs: (tokens, 2) uint64, a view of `tokens`.
    """
    n = np.uint64(n)
    for chunk in range(first, last):
        a, b, row = np.uint64(edges[2 * chunk]), np.uint64(edges[2 * chunk + 1]), chunk - first
        key, second, slot, length = batch[row, 0], batch[row, 1], batch[row, 2], b - a
        entry, place = slot * np.uint64(SLOT), np.uint64(MEMO_SLOTS * SLOT) + slot * np.uint64(MORE)
        known = (memo[entry] == key) & (memo[entry + ONE] == second)
        if known and length > FIRST_BYTES:
            known = has_rest(block, a, b, memo, place)
            place += (length - np.uint64(INLINE_BYTES - 7)) // EIGHT
        if known:
            n = copy_pieces(memo, entry, place, a - np.uint64(base), pairs, hashes, n)
            continue
        begin, end, at = np.int64(a), np.int64(b), np.int64(n)
        next_at = cut_new_chunk(block, begin, end, classes, rules, hashes, at) - 1
        describe(block, base, classes, rules, tokens, hashes, at, next_at)
        if length <= MEMO_BYTES:
            memorise(
                block, begin, end, np.uint32(begin - base), np.int64(slot), key, second, memo, tokens, hashes,
                at, next_at,
            )  # fmt: skip
        n = np.uint64(next_at)
    return np.int64(n)


@njit(cache=True, nogil=True)
def cut_all(block, offsets, classes, rules, memo, tokens, pairs, hashes, ends):
    size, longest, n = offsets[-1], 0, 0
    for d in range(offsets.size - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    spaces, edges = np.empty((size + 63) // 64, np.uint64), np.empty(longest + 2, np.uint32)
    batch = np.empty((BATCH, 3), np.uint64)
    find_white_space(block, size, spaces)
    for d in range(offsets.size - 1):
        base = offsets[d]
        chunks = find_chunks(spaces, base, offsets[d + 1], edges)
        for first in range(0, chunks, BATCH):
            last = min(first + BATCH, chunks)
            prefetch_slots(block, edges, first, last, memo, batch)
            n = cut_chunks(
                block, base, edges, first, last, classes, rules, memo, batch, tokens, pairs, hashes, n
            )
        ends[d + 1] = n


class Memory(threading.local):
    """For each thread, a padded copy of the text, and a memo with the tables by which it was filled.

    With other tables, the memo is cleared.
    """

    block: NDArray[np.uint8] = np.empty(0, np.uint8)
    tables: tuple[NDArray[np.uint32], NDArray[np.uint64]] | None = None

    def memo(self, classes: NDArray[np.uint32], rules: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if self.tables is None or self.tables[0] is not classes or self.tables[1] is not rules:
            room = np.zeros(MEMO + 8, np.uint64)
            first = -room.ctypes.data % 64 // 8  # aligned: a slot is a cache line
            self.kept, self.tables = room[first : first + MEMO], (classes, rules)
        return self.kept

    def padded(self, text: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if len(self.block) < len(text) + PADDING:
            self.block = np.empty(len(text) + PADDING, np.uint8)
        self.block[: len(text)] = text
        self.block[len(text) : len(text) + PADDING] = 0
        return self.block


MEMORY = Memory()


def tokenize(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    classes: NDArray[np.uint32],
    rules: NDArray[np.uint64],
    tokens: NDArray[np.uint32],
    hashes: NDArray[np.uint64],
    ends: NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Cut documents into tokens; return them, in larger arrays if necessary; document d begins at ends[d].

    data: the documents' UTF-8 bytes, valid. offsets: (n + 1,). ends: (n + 1,), written. START and END count from
    the beginning of the document. classes: (0x110000,) uint32. rules: (RULES,) uint64. The contents of classes and
    rules must not change while they are the same arrays.
    """
    text = data[offsets[0] : offsets[-1]]
    if len(tokens) < len(text) + PADDING:  # a token has at least one byte
        tokens, hashes = (
            np.empty((len(text) + PADDING, 4), np.uint32),
            np.empty(len(text) + PADDING, np.uint64),
        )
    memo, block = MEMORY.memo(classes, rules), MEMORY.padded(text)
    ends[0] = 0
    cut_all(block, offsets - offsets[0], classes, rules, memo, tokens, tokens.view(np.uint64), hashes, ends)
    return tokens, hashes
