"""The sums of the rows of n-grams are those of plain Python."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.textkernels.ngrams import MOST_WEIGHT, counts_of, hashes_of, ngram_sums, vocabulary_of


def grams_of(document):
    return [
        tuple(document[start:stop])
        for start in range(len(document))
        for stop in range(start + 1, min(start + 5, len(document)) + 1)
    ]


def flat(documents):
    ids = np.array([token for document in documents for token in document], np.uint32)
    return ids, np.cumsum([0, *map(len, documents)], dtype=np.int64)


@given(st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=1, max_size=5), st.integers(1, 60))
def test_sums_and_counts_are_those_of_plain_python(documents, size):
    ids, ends = flat(documents)
    totals = Counter(gram for document in documents for gram in grams_of(document))
    known = sorted(totals, key=lambda gram: (-totals[gram], len(gram), gram))[:size]  # with their beginnings
    hashes = hashes_of(ids, ends)
    named = {}
    for number, document in enumerate(documents):
        for start in range(len(document)):
            for length in range(1, min(5, len(document) - start) + 1):
                gram = tuple(document[start : start + length])
                assert named.setdefault(gram, hashes[length - 1, ends[number] + start]) == named[gram]
    assert len({*named.values()}) == len(totals)
    vocabulary = vocabulary_of(np.array([named[gram] for gram in known], np.uint64))
    chance = np.random.default_rng(size)
    idf = chance.integers(1, 256, len(known)).astype(np.uint8)
    rows = chance.integers(-128, 128, (len(known), 3)).astype(np.int8)
    sums = ngram_sums(ids, ends, vocabulary, idf, rows)
    numbers, places, counts = counts_of(ids, ends, vocabulary)
    stops = np.cumsum([0, *numbers])
    for number, document in enumerate(documents):
        found = Counter(gram for gram in grams_of(document) if gram in known)
        expected = [
            sum(
                count * int(idf[known.index(gram)]) * int(rows[known.index(gram), dim])
                for gram, count in found.items()
            )
            for dim in range(3)
        ]
        assert sums[number].tolist() == expected
        part = slice(stops[number], stops[number + 1])
        assert {known[place]: count for place, count in zip(places[part], counts[part], strict=True)} == found


def test_long_documents_do_not_overflow_and_weights_are_bounded():
    ids, ends = flat([[0] * 100_000 + [1] * 90_000])
    hashes = hashes_of(ids, ends)
    vocabulary = vocabulary_of(np.array([hashes[0, 0], hashes[0, -1], hashes[1, 0]], np.uint64))
    idf, rows = np.full(3, 255, np.uint8), np.array([[-128], [-128], [-128]], np.int8)
    assert ngram_sums(ids, ends, vocabulary, idf, rows).tolist() == [[-128 * 3 * MOST_WEIGHT]]
    assert ngram_sums(ids[:0], np.zeros(2, np.int64), vocabulary, idf, rows).tolist() == [[0]]
