"""Novelty: the share of word 3-grams that the kept text lacks, against plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.tasks.dedup.novelty import novel_share

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=30)


@pytest.mark.parametrize(
    ("text", "kept", "expected"),
    [
        ("a b c d", "a b c d", 0),
        ("a b c d", "x a b c", 1 / 2),
        ("a b c", "", 1),
        ("", "a b c", 0),
        ("", "", 0),
        ("a b", "a b c", 1),
        ("one, two; THREE", "One two (three) four", 0),
        ("我不去那里", "我去那里", 2 / 3),
        ("\ud800 a b c", "a b c", 0),
    ],
)
def test_share_of_new_grams(text, kept, expected):
    assert novel_share(text, kept) == pytest.approx(expected)


@given(WORDS, WORDS)
def test_share_is_that_of_sets_of_grams(own, other):
    grams, others = grams_of(own), grams_of(other)
    expected = len(grams - others) / len(grams) if grams else 0
    assert novel_share(" ".join(own), " ".join(other)) == pytest.approx(expected)


def grams_of(words):
    """Return the distinct 3-grams of words; a shorter text is a single one."""
    if len(words) < 3:
        return {tuple(words)} - {()}
    return {tuple(words[start : start + 3]) for start in range(len(words) - 2)}
