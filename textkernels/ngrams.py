"""Add up the rows of a matrix for the n-grams of token ids, weighted by their counts. Compiled by numba.

An n-gram of 1 to LONGEST ids is known by a hash of 64 bits. It counts if it and all its beginnings are in the
vocabulary; a vocabulary of the most frequent n-grams has their beginnings, which are as frequent. All arithmetic is
of integers, so that every machine computes the same numbers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

LONGEST = 5
MOST_WEIGHT = 1 << 22  # of an n-gram in a document; the products with 8 bits have 30 bits
FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2 ** 64 divided by the golden ratio
HALF = np.uint64(32)


class Vocabulary(NamedTuple):
    """A hash table of n-grams: hashes, 0 in empty slots, and their places in the vocabulary, -1 in empty slots."""

    hashes: NDArray[np.uint64]
    places: NDArray[np.int32]


@njit(cache=True, nogil=True, inline="always")
def extended(hashed, token):
    """Return the hash of an n-gram with one more token."""
    mixed = (hashed + np.uint64(token) + np.uint64(1)) * FACTOR
    return mixed ^ (mixed >> HALF)


@njit(cache=True, nogil=True, inline="always")
def place_of(hashes, places, hashed):
    """Return the place of an n-gram in the vocabulary, or -1."""
    mask = np.uint64(len(hashes) - 1)
    slot = hashed & mask
    while places[slot] >= 0 and hashes[slot] != hashed:
        slot = (slot + np.uint64(1)) & mask
    return places[slot]


@njit(cache=True, nogil=True)
def _fill(ngrams, hashes, places):
    mask = np.uint64(len(hashes) - 1)
    for place in range(len(ngrams)):
        slot = ngrams[place] & mask
        while places[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        hashes[slot] = ngrams[place]
        places[slot] = place


@njit(cache=True, nogil=True)
def _hashes(ids, ends, hashes):
    for text in range(len(ends) - 1):
        for start in range(ends[text], ends[text + 1]):
            hashed = np.uint64(0)
            for end in range(start, min(start + hashes.shape[0], ends[text + 1])):
                hashed = extended(hashed, ids[end])
                hashes[end - start, start] = hashed


@njit(cache=True, nogil=True)
def _count(ids, start, stop, hashes, places, counts, found):
    """Count the n-grams of a document; return how many different ones were found, and write their places."""
    different = 0
    for first in range(start, stop):
        hashed = np.uint64(0)
        for place in range(first, min(first + LONGEST, stop)):
            hashed = extended(hashed, ids[place])
            ngram = place_of(hashes, places, hashed)
            if ngram < 0:
                break
            if counts[ngram] == 0:
                found[different] = ngram
                different += 1
            counts[ngram] += 1
    return different


@njit(cache=True, nogil=True)
def _add(found, counts, idf, rows, sums, totals):
    """Add up rows times weights, 32 bits at a time, and clear the counts."""
    used = 0
    for ngram in found:
        weight = np.int32(min(counts[ngram] * np.int64(idf[ngram]), MOST_WEIGHT))
        counts[ngram] = 0
        used += weight
        if used > 2 * MOST_WEIGHT:
            totals += sums
            sums[:] = 0
            used = np.int64(weight)
        row = rows[ngram]
        for dim in range(len(row)):
            sums[dim] += weight * row[dim]
    totals += sums
    sums[:] = 0


@njit(cache=True, nogil=True)
def _sums(ids, ends, hashes, places, idf, rows, counts, found, sums, totals):
    for text in range(len(ends) - 1):
        different = _count(ids, ends[text], ends[text + 1], hashes, places, counts, found)
        _add(found[:different], counts, idf, rows, sums, totals[text])


@njit(cache=True, nogil=True)
def _counts(ids, ends, hashes, places, counts, found, numbers, all_places, all_counts):
    written = 0
    for text in range(len(ends) - 1):
        different = _count(ids, ends[text], ends[text + 1], hashes, places, counts, found)
        for ngram in found[:different]:
            all_places[written] = ngram
            all_counts[written] = counts[ngram]
            counts[ngram] = 0
            written += 1
        numbers[text] = different
    return written


def vocabulary_of(ngrams: NDArray[np.uint64]) -> Vocabulary:
    """Return the hash table of n-grams. ngrams: hashes, all different, (m,)."""
    slots = 1 << max(4, int(2 * len(ngrams)).bit_length())
    table = Vocabulary(np.zeros(slots, np.uint64), np.full(slots, -1, np.int32))
    _fill(ngrams, *table)
    return table


def hashes_of(ids: NDArray[np.uint32], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash of the n-gram of each length at each token, (LONGEST, t); 0 beyond the end of a document."""
    hashes = np.zeros((LONGEST, len(ids)), np.uint64)
    _hashes(ids, ends, hashes)
    return hashes


def counts_of(
    ids: NDArray[np.uint32], ends: NDArray[np.int64], vocabulary: Vocabulary
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return the number of different n-grams of each document, (n,), and the places and counts of all."""
    ngrams, longest = int((vocabulary.places >= 0).sum()), LONGEST * len(ids)
    found, numbers = np.empty(ngrams, np.int32), np.empty(len(ends) - 1, np.int64)
    places, counts = np.empty(longest, np.int32), np.empty(longest, np.int64)
    written = _counts(ids, ends, *vocabulary, np.zeros(ngrams, np.int64), found, numbers, places, counts)
    return numbers, places[:written], counts[:written]


def ngram_sums(
    ids: NDArray[np.uint32],
    ends: NDArray[np.int64],
    vocabulary: Vocabulary,
    idf: NDArray[np.uint8],
    rows: NDArray[np.int8],
) -> NDArray[np.int64]:
    """Return the sum of the rows of a document's n-grams, each times its count and its idf: (n, dims).

    Args:
        ids: the token ids of all documents, (t,).
        ends: the end of each document in `ids`, (n + 1,), with a first 0.
        vocabulary: of m n-grams.
        idf: the weight of each n-gram, (m,). Its product with a count is at most MOST_WEIGHT.
        rows: the matrix, (m, dims).
    """
    totals = np.zeros((len(ends) - 1, rows.shape[1]), np.int64)
    counts, found = np.zeros(len(idf), np.int64), np.empty(len(idf), np.int32)
    _sums(ids, ends, *vocabulary, idf, rows, counts, found, np.zeros(rows.shape[1], np.int32), totals)
    return totals
