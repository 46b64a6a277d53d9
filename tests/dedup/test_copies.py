"""Copies: the words of a text, and whether another text has its sentences in their order."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.tasks.dedup.copies import changed_sentence, content_of, is_copied, lacking_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("One, two; ONE (three)!", {"one": 2, "two": 1, "three": 1}),
        (
            "a<b + 5% of C# and C",
            {"a": 1, "<": 1, "b": 1, "+": 1, "5": 1, "%": 1, "of": 1, "c#": 1, "and": 1, "c": 1},
        ),
        ("\u5317\u4eac\u3002\uff15\u5ea6", {"\u5317": 1, "\u4eac": 1, "5": 1, "\u5ea6": 1}),
        ("\u2713 \U0001f44d Is it?", {"\u2713": 1, "\U0001f44d": 1, "is": 1, "it": 1, "?": 1}),
        ("*soft\u00adened* | `x`", {"softened": 1, "x": 1}),
        (" \n\0", {}),
    ],
)
def test_words_and_symbols(text, words):
    assert content_of(text).words == words


@pytest.mark.parametrize(
    ("text", "kept", "is_copy"),
    [
        ("It is old. It is red.", "It is red. It is old.", False),
        ("It is old. It is red.", "It is old. It was new. It is red. And big.", True),
        ("It is old. It is red.", "It is old\nIt is\nred.", True),
        ("It is old.", "It is very old.", False),
        ("It is old.", "It is old in parts.", False),
        ("It is old.", "Once more: it is old.", False),
        ("- one\n- two\n", "- one\n- three\n- two\n", True),
        ("Title\n\nIt is a long\nline of words.", "Title\n\nMore.\n\nIt is a\nlong line of words.", True),
        ("A = 1\nB = 2", "A = 1\nC = 3\nB = 2", True),
        ("It is safe\nin water.", "It is safe\nin cold and clean\nin water.", False),
        ("the sum is a * b here", "the sum is a / b here", False),
        ("the sum is a - b here", "the sum is a b here", False),
        ("write `!done` there", "write `done` there", False),
        ("It is old!", "It is old", True),
        ("It is old!!! So.", "It is old. So.", True),
        (
            "\u4ed6\u8d70\u4e86\u3002\u5979\u5728\u3002",
            "\u4ed6\u8d70\u4e86\u3002\u5c31\u8fd9\u6837\uff01\u5979\u5728\u3002",
            True,
        ),
        ("", "Any text.", True),
        ("Any text.", "", False),
    ],
)
def test_copy_has_the_sentences_in_their_order(text, kept, is_copy):
    assert is_copied(content_of(text), content_of(kept)) == is_copy


@given(st.text(max_size=200), st.text(max_size=50))
def test_text_is_a_copy_of_itself_and_has_all_words(text, more):
    own = content_of(text)
    assert is_copied(own, content_of(text))
    assert changed_sentence(text, text) == ""
    assert not lacking_words(own, content_of(f"{text}\n\n{more}"))


def test_first_changed_sentence_is_named():
    assert changed_sentence("One. Two here. Three.", "One. Two there. Three.") == "two here"
    assert changed_sentence("One. Two.", "Two. One.") == "two"


@pytest.mark.parametrize("piece", [".", ". ", '."', "\n", "\n ", " ", "\n1", "*", "a*", " - ", "\u3002", "?"])
def test_time_is_linear_in_the_length_of_the_text(piece):
    small, large = (seconds_of(f"{piece * (count // len(piece))}a") for count in (50_000, 200_000))
    assert large < 6 * max(0.02, small)


def seconds_of(text):
    """Return the CPU seconds of the content of a text."""
    start = time.process_time()
    content_of(text)
    return time.process_time() - start
