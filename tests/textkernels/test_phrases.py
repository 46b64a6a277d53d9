"""Phrases are found at the same positions as by comparing all positions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.textkernels.phrases import PhraseIndex, hash_around, hash_of, places_of

WORDS = st.integers(1, 3)  # few words, so that phrases are found, also inside each other


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(WORDS, max_size=30), max_size=5),
    st.lists(st.lists(WORDS, min_size=2, max_size=6), max_size=9),
)
def test_phrases_are_found_at_all_positions(documents, phrases):
    words = np.array([word for document in documents for word in document], np.uint64)
    ends = np.cumsum([0, *map(len, documents)])
    known = np.array([word for phrase in phrases for word in phrase], np.uint64)
    lengths = np.array([*map(len, phrases)], np.int64)
    index = PhraseIndex.of(known, np.cumsum([0, *lengths])[:-1], lengths, 2)
    found = {
        (document, place - ends[document], index.hashes[number], index.lengths[number])
        for document, place, number in zip(*index.find(words, ends), strict=True)
    }
    expected = {
        (number, place, hash_of(np.array(phrase, np.uint64), 0, len(phrase)), len(phrase))
        for number, document in enumerate(documents)
        for phrase in phrases
        for place in range(len(document) - len(phrase) + 1)
        if document[place : place + len(phrase)] == phrase
    }
    assert found == expected


def test_a_table_of_many_phrases_finds_each_of_them():
    known = np.random.default_rng(0).integers(1, 1 << 63, 5000).astype(np.uint64)
    index = PhraseIndex.of(known, np.arange(4988), np.full(4988, 13), 13)
    documents, places, numbers = index.find(known, np.array([0, 5000]))
    assert places.tolist() == list(range(4988))
    assert len({*numbers.tolist()}) == 4988
    assert not documents.any()


def test_phrase_is_found_between_two_positions():
    words = np.arange(1, 20, dtype=np.uint64)
    answer = hash_of(words, 5, 3)
    assert places_of(words, 5, 8, answer, 3).tolist() == [5]
    assert places_of(np.tile(words, 2), 0, 38, answer, 3).tolist() == [5, 24]
    assert not len(places_of(words, 6, 19, answer, 3))
    assert not len(places_of(words, 0, 7, answer, 3))


def test_near_copies_have_the_same_hash_around_a_passage():
    words = np.random.default_rng(0).integers(1, 1 << 63, 300).astype(np.uint64)
    far, near, passage = words.copy(), words.copy(), words.copy()
    far[[10, 290]], near[100:200], passage[140:160] = 1, np.arange(100), 2

    def around(hashes):
        return hash_around(hashes, 0, 140, 160, 300, 32)

    assert around(far) == around(passage) == around(words) != around(near)
    edited = {around(np.where(np.arange(300) == place, np.uint64(3), words)) for place in range(108, 192)}
    assert len(edited) < 10  # of 84 copies with a changed word near the passage


def test_passage_without_surrounding_words_has_no_hash():
    words = np.arange(20, dtype=np.uint64)
    assert hash_around(words, 0, 3, 17, 20, 32) == hash_around(words, 5, 5, 9, 9, 32) == 2**64 - 1


def test_too_short_phrase_raises():
    with pytest.raises(ValueError, match="a phrase of 2 words, expected at least 3"):
        PhraseIndex.of(np.ones(4, np.uint64), np.array([0]), np.array([2]), 3)
