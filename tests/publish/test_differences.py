"""Differences of two texts, and the limits for long texts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.tasks.publish import differences
from zyda_flows.tasks.publish.differences import (
    MOST_COMPARED,
    NOT_SHOWN,
    SHOWN_LINES,
    UNITS,
    WIDTH,
    changes,
    common_beginning,
    diff,
    side_by_side,
    split_units,
)

WORDS = st.lists(st.sampled_from(["one", "two", "three", "four five", "\n", ""]), max_size=60)


@given(WORDS, WORDS)
def test_changes_turn_a_text_into_the_other(units, others):
    texts, end = [], 0
    for a, b, c, d in changes(units, others):
        texts += units[end:a] + others[c:d]
        end = b
    assert texts + units[end:] == others


@given(st.text(), st.text(), st.sampled_from(["lines", "words"]))
def test_texts_are_cut_without_loss_and_are_equal_before_the_difference(text, other, by):
    assert ("\n" if by == "lines" else "").join(split_units(text, by)) == text
    same = common_beginning(text, other)
    assert text[:same] == other[:same]
    assert text[same : same + 1] != other[same : same + 1] or same == min(len(text), len(other))


@given(WORDS.map(" ".join), WORDS.map(" ".join))
def test_different_texts_have_a_difference(text, other):
    lines = diff(text, other)
    assert bool(lines) is (text != other)
    assert not lines or any(line[0] in "+-" for line in lines[2:])


def test_lines_and_words_are_shown_with_their_context():
    lines = [f"line {i}" for i in range(30)]
    changed = [*lines[:12], "another", *lines[13:]]
    assert diff("\n".join(lines), "\n".join(changed), kept="other") == (
        "--- this", "+++ other", "@@ -10 +10 @@", " line 9", " line 10", " line 11", "-line 12", "+another",
        " line 13", " line 14", " line 15",
    )  # fmt: skip
    words = " ".join(f"w{i}" for i in range(100))
    changed_lines = diff(words, words.replace("w50 ", "x y "))[2:]
    assert [line[0] for line in changed_lines] == ["@", " ", "-", "+", " "]
    assert changed_lines[2:4] == ("-w50", "+x y")


def marked(segments):
    return [segment.text for segment in segments if not segment.is_same]


@pytest.mark.parametrize(
    ("text", "other", "left", "right"),
    [
        ("see https://docs.x.org/v5.1/api now", "see https://docs.x.org/v7.6/api now", ["5.1"], ["7.6"]),
        ("version 5.1, see (5.1)", "version 7.6, see (7.6)", ["5.1", "5.1"], ["7.6", "7.6"]),
        ("of user_name and", "of user_id and", ["name"], ["id"]),
        ("彼は東京に住んでいます。" * 9, "彼は東京に住んでいました。" * 9, ["す"] * 9, ["した"] * 9),
        ("a cat sat", "a dog sat", ["cat"], ["dog"]),
        ("one two", "one", [" two"], []),
        ("same", "same", [], []),
    ],
)
def test_only_the_changed_part_of_a_word_is_marked(text, other, left, right):
    sides = side_by_side(text, other)
    assert [marked(side) for side in sides] == [left, right]


@given(WORDS.map(" ".join), WORDS.map(" ".join))
def test_segments_join_to_the_texts_and_have_equal_common_parts(text, other):
    sides = side_by_side(text, other)
    assert ["".join(segment.text for segment in side) for side in sides] == [text, other]
    ours, theirs = ("".join(segment.text for segment in side if segment.is_same) for side in sides)
    assert ours == theirs


def in_another_order(separator):
    words = [f"w{i}" for i in range(300_000)]
    return separator.join(words), separator.join(random.Random(1).sample(words, len(words)))


def of_two_words():
    letters = random.Random(2).choices("ab", k=2_000_000)
    return " ".join(letters), " ".join(reversed(letters))


SAME = "x" * 2_000_000
HOSTILE = {
    "one letter in a line of 2 MB": lambda: (SAME[:1_000_000] + "y" + SAME[1_000_000:], SAME),
    "2 MB in another order": lambda: in_another_order(" "),
    "lines in another order": lambda: in_another_order("\n"),
    "2 MB of two words": of_two_words,
    "nothing in common": lambda: (SAME, "y" * 2_000_000),
    "a text and nothing": lambda: (SAME, ""),
    "line ends alone": lambda: ("a\n" * 500_000, "a\r\n" * 500_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_at_most_some_thousand_words_are_compared(name, monkeypatch):
    (text, other), compared = HOSTILE[name](), []

    def noted(units, others):
        compared.append((units, others))
        return changes(units, others)

    monkeypatch.setattr(differences, "changes", noted)
    lines = diff(text, other)
    (sides,) = compared
    assert all(len(units) <= UNITS and sum(map(len, units)) <= MOST_COMPARED for units in sides)
    assert max(len(text), len(other)) > MOST_COMPARED
    assert lines[-1] == NOT_SHOWN
    assert len(lines) <= SHOWN_LINES + 1
    assert max(map(len, lines)) <= WIDTH + 2
