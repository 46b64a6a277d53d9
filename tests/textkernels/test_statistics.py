"""Statistics and cleaning of texts equal plain Python and Zyda-1's published code."""

import re
import unicodedata
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.textkernels.rules.characters import DIGIT, LEAST_RUN, SPACE, WORD
from zyda_flows.textkernels.texts.classes import character_classes
from zyda_flows.textkernels.texts.cleaning import (
    ZYDA1,
    with_newlines,
    without_control_characters,
    without_long_runs,
)
from zyda_flows.textkernels.texts.counting import statistics

HOSTILE = [
    "", " ", "\n" * 1_000_000, "a" * 100, "12345", "\0\0\0", "e\u0301" * 9, "👩‍👩‍👧" * 8, "שלום " * 20, "\xa0" * 10,
    "\xa0" * 9, "-" * 9, "-" * 10, "\t" * 20 + " " * 40, "\t" * 19 + " " * 39, "漢" * 7, "٣" * 7, "__________",
    "\r\n" * 20, "\r\r\n\n\r", "\ufeffa\x9f\x7f\x80b\x1b[0m", "\x85\u2028\u2029", "x" * 10_000_000, "\u2028\x1c\x85", "aaaaaaabbbbbbb", "a.b-c/d\\e f",
]  # fmt: skip
CHARACTERS = st.sampled_from(
    [
        *"ab_-/\\\n\r.,:?\t 7",
        "\xa0",
        "é",
        "漢",
        "🙂",
        "٣",
        "\u0301",
        "\u2003",
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
        "\x00",
        "\x7f",
        "\x9f",
    ]
)
TEXTS = st.lists(st.tuples(CHARACTERS, st.integers(1, 45)), max_size=12).map(
    lambda runs: "".join(character * times for character, times in runs)
)


def plain_statistics(text):
    """Compute the statistics by the regular expressions of Zyda-1."""
    words = re.split(r"[\s\-/\\.]", text)
    size = max(1, len(text))
    return {
        "characters": len(text),
        "mean_word_length": sum(map(len, words)) / len(words),
        "symbols": len(re.findall(r"[^\w\s]", text)) / size,
        "digits": len(re.findall(r"\d", text)) / size,
        "runs": len(re.findall(rf"(\w)\1{{{LEAST_RUN - 1},}}", text)),
    }


def plain_cleaning(text):
    for character, most in ZYDA1.items():
        text = re.sub(f"{re.escape(character)}{{{most + 1},}}", lambda _, one=character: one, text)
    return text


def plain_newlines(text):
    return re.sub("\r\n|[\r\x85\u2028\u2029]", "\n", text)


def plain_control_characters(text):
    kept = (one for one in text if one in "\t\n\r" or (unicodedata.category(one) != "Cc" and one != "\ufeff"))
    return "".join(kept)


CLEANINGS = [
    (without_long_runs, plain_cleaning),
    (with_newlines, plain_newlines),
    (without_control_characters, plain_control_characters),
]


def column(*texts):
    return pa.array(texts, pa.large_string())


def test_classes_of_characters_equal_regular_expressions():
    classes = character_classes()
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for pattern, bit in ((r"\w", WORD), (r"\s", SPACE), (r"\d", DIGIT)):
        expected = {ord(character) for character in re.findall(pattern, "".join(every))}
        found = {code for code in np.flatnonzero(classes & bit).tolist() if not 0xD800 <= code < 0xE000}
        assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text(text):
    assert statistics(column(text)).to_pylist() == [plain_statistics(text)]
    for cleaning, plainly in CLEANINGS:
        cleaned, is_changed = cleaning(column(text))
        assert cleaned.to_pylist() == [plainly(text)]
        assert is_changed.tolist() == [plainly(text) != text]


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=6), st.integers(0, 3))
def test_any_text(texts, skipped):
    given_texts = column(*texts)[skipped:]  # a slice has the buffers of the whole column
    assert statistics(given_texts).to_pylist() == [plain_statistics(text) for text in texts[skipped:]]
    for cleaning, plainly in CLEANINGS:
        cleaned, is_changed = cleaning(given_texts)
        expected = [plainly(text) for text in texts[skipped:]]
        assert cleaned.to_pylist() == expected
        assert is_changed.tolist() == [
            one != other for one, other in zip(texts[skipped:], expected, strict=True)
        ]


def test_control_characters_equal_unicode():
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert without_control_characters(column(every))[0].to_pylist() == [plain_control_characters(every)]


def test_unchanged_texts_are_not_copied():
    texts = column("as it is\n", "and\tthis: é 漢")
    for cleaning, _ in CLEANINGS:
        cleaned, is_changed = cleaning(texts)
        assert cleaned is texts
        assert not is_changed.any()


def test_statistics_equal_the_published_code(judged):
    said, texts = judged.rows, judged.texts
    cleaned, _ = without_long_runs(texts)
    pairs = zip(said, statistics(texts).to_pylist(), statistics(cleaned).to_pylist(), strict=True)
    for row, before, after in pairs:
        assert before["mean_word_length"] == pytest.approx(row["mean_word_length"], abs=1e-12)
        assert before["symbols"] == pytest.approx(row["fraction_non_alphanumeric"], abs=1e-12)
        assert before["digits"] == pytest.approx(row["fraction_numerical"], abs=1e-12)
        assert after["characters"] == row["length"]
        assert after["runs"] == row["substrings_counts"]
    assert [zlib.crc32(text.encode()) for text in cleaned.to_pylist()] == [
        r["transformed_crc32"] for r in said
    ]
