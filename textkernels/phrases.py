"""Phrases: where in documents stand some of many that are known beforehand. Compiled by numba.

A phrase is words one after another, as `textkernels.words` hashes them. Its hash is a polynomial in these
modulo 2**64, which rolls along a document, mixed. A phrase is looked up by its first words, of a number that is
the same for all of an index, and the rest of a longer one is hashed where these are found. Before the table of
hashes stands a bitmap, of which a document that has none of the phrases touches one bit a word.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import mix

BASE = np.uint64(0xD1B54A32D192ED03)
BITS = 16  # of the bitmap, for each of the first words
ROOM = 2  # places of the table, for each of them
BEGINNING = 1 << 10  # places for what is found
GRAM = 4  # words by which what stands around a passage is known

Hashes = NDArray[np.uint64]
Found = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@njit(cache=True, nogil=True)
def hash_of(words, start, length):
    """Return the hash of the words from `start` on, of which there are as many as `length`."""
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
    """Return where a phrase, by its hash and its length, stands between two places: (m,) int64."""
    places, n = np.empty(max(0, stop - start - length + 1), np.int64), 0
    for i in range(start, stop - length + 1):
        if hash_of(words, i, length) == sought:
            places[n] = i
            n += 1
    return places[:n]


@njit(cache=True, nogil=True)
def hash_around(words, low, start, stop, high, width):
    """Return the least hash of GRAM words among those before and behind a passage: most near-copies have the same.

    low, high: where the document begins and ends. width: how many words before and behind are looked at.
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
    """Phrases of at least `width` words, each once, in the order of their first words.

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
        """Make the index of phrases that stand in some words, (w,) uint64: (p,) places and lengths.

        Raises ValueError where one has less than `width` words.
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

        Returns of each that is found its document, its place among all words and its number: (m,) each, in order.
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
