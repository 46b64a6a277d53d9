"""Search documents for many given phrases. Compiled by numba.

A phrase is a sequence of words, which `textkernels.words` hashes. Its hash is a polynomial in these modulo 2**64,
mixed, and rolls along a document. An index looks up the first `width` words of its phrases, and compares the whole
hash of a longer phrase where these match. A bitmap before the hash table rejects most words with one bit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import mix

BASE = np.uint64(0xD1B54A32D192ED03)
BITS = 16  # of the bitmap, for each distinct beginning of a phrase
ROOM = 2  # slots of the table, for each distinct beginning of a phrase
BEGINNING = 1 << 10  # matches for which there is room at first
GRAM = 4  # words of the n-grams that identify the surroundings of a passage

Hashes = NDArray[np.uint64]
Found = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@njit(cache=True, nogil=True)
def hash_of(words, start, length):
    """Return the hash of `length` words from index `start` on."""
    h = np.uint64(0)
    for i in range(start, start + length):
        h = h * BASE + words[i]
    return mix(h) | np.uint64(1)


@njit(cache=True, nogil=True)
def hashes_of(words, starts, lengths):
    """Return the hash of each phrase: (p,) uint64, never 0."""
    hashes = np.empty(len(starts), np.uint64)
    for i in range(len(starts)):
        hashes[i] = hash_of(words, starts[i], lengths[i])
    return hashes


@njit(cache=True, nogil=True)
def places_of(words, start, stop, sought, length):
    """Return the positions between two others of a phrase, given by its hash and its length: (m,) int64."""
    places, n = np.empty(max(0, stop - start - length + 1), np.int64), 0
    for i in range(start, stop - length + 1):
        if hash_of(words, i, length) == sought:
            places[n] = i
            n += 1
    return places[:n]


@njit(cache=True, nogil=True)
def hash_around(words, low, start, stop, high, width):
    """Return the least hash of GRAM words near a passage: most near-copies of a document have the same.

    low, high: the begin and end of the document. width: the number of words that are read before and after.
    """
    least = ~np.uint64(0)
    for begun, end in ((max(low, start - width), start), (stop, min(high, stop + width))):
        for i in range(begun, end - GRAM + 1):
            least = min(least, hash_of(words, i, GRAM))
    return least


@njit(cache=True, nogil=True)
def _fill(firsts, keys, numbers, bitmap):
    for number, h in enumerate(firsts):
        bit = (h >> np.uint64(8)) & np.uint64(bitmap.size * 64 - 1)
        bitmap[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
        place = (h >> np.uint64(1)) & np.uint64(keys.size - 1)
        while keys[place] != 0:
            place = (place + np.uint64(1)) & np.uint64(keys.size - 1)
        keys[place], numbers[place] = h, number


@njit(cache=True, nogil=True)
def _find(words, ends, width, keys, numbers, bitmap, first, lengths, hashes):
    documents, places = np.empty(BEGINNING, np.int64), np.empty(BEGINNING, np.int64)
    phrases, n = np.empty(BEGINNING, np.int64), 0
    highest = np.uint64(1)  # BASE to the power of width
    for _ in range(width):
        highest *= BASE
    for d in range(ends.size - 1):
        h = np.uint64(0)
        for i in range(ends[d], ends[d + 1]):
            h = h * BASE + words[i]
            if i - ends[d] >= width:
                h -= words[i - width] * highest
            if i - ends[d] < width - 1:
                continue
            x = mix(h) | np.uint64(1)
            bit = (x >> np.uint64(8)) & np.uint64(bitmap.size * 64 - 1)
            if not (bitmap[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
                continue
            place = (x >> np.uint64(1)) & np.uint64(keys.size - 1)
            while keys[place] != 0 and keys[place] != x:
                place = (place + np.uint64(1)) & np.uint64(keys.size - 1)
            if keys[place] == 0:
                continue
            start = i - width + 1
            for phrase in range(first[numbers[place]], first[numbers[place] + 1]):
                length = lengths[phrase]
                if start + length > ends[d + 1]:
                    continue
                if length > width and hash_of(words, start, length) != hashes[phrase]:
                    continue
                if n == documents.size:
                    documents = np.concatenate((documents, np.empty(n, np.int64)))
                    places = np.concatenate((places, np.empty(n, np.int64)))
                    phrases = np.concatenate((phrases, np.empty(n, np.int64)))
                documents[n], places[n], phrases[n] = d, start, phrase
                n += 1
    return documents[:n], places[:n], phrases[:n]


@dataclass(frozen=True)
class PhraseIndex:
    """Distinct phrases of at least `width` words, in the order of their first words.

    hashes: (p,) uint64. lengths: in words, (p,) int64.
    """

    width: int
    hashes: Hashes
    lengths: NDArray[np.int64]
    keys: Hashes
    numbers: NDArray[np.int32]
    bitmap: Hashes
    first: NDArray[np.int64]

    @classmethod
    def of(
        cls, words: Hashes, starts: NDArray[np.int64], lengths: NDArray[np.int64], width: int
    ) -> "PhraseIndex":
        """Make the index of phrases in an array of words, (w,) uint64, by their positions and lengths, (p,) each.

        Raises ValueError for a phrase of fewer than `width` words.
        """
        if len(lengths) and lengths.min() < width:
            raise ValueError(f"a phrase of {lengths.min()} words, expected at least {width}")
        hashes, distinct = np.unique(hashes_of(words, starts, lengths), return_index=True)
        lengths = lengths[distinct]
        beginnings = hashes_of(words, starts[distinct], np.full(len(distinct), width))
        order = np.argsort(beginnings, kind="stable")
        firsts, counts = np.unique(beginnings, return_counts=True)
        room = 1 << max(6, (ROOM * len(firsts)).bit_length())
        keys, numbers = np.zeros(room, np.uint64), np.zeros(room, np.int32)
        bitmap = np.zeros(max(1, room * BITS // ROOM // 64), np.uint64)
        _fill(firsts, keys, numbers, bitmap)
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(width, hashes[order], lengths[order], keys, numbers, bitmap, first)

    def find(self, words: Hashes, ends: NDArray[np.int64]) -> Found:
        """Find phrases in documents, whose words are (w,) uint64 with (n + 1,) ends.

        Returns for each match its document, its position among all words, and its phrase: (m,) each, in order.
        """
        found: Found = _find(
            words,
            ends,
            self.width,
            self.keys,
            self.numbers,
            self.bitmap,
            self.first,
            self.lengths,
            self.hashes,
        )
        return found
