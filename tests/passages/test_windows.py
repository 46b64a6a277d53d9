"""Repeated windows equal those of a dictionary of all windows, for every unit, scope and length."""

import random
import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passages_here import marked_windows, repeated_windows, search_here
from small_corpus import TOKENIZER
from tokenizers import Tokenizer

from zyda_flows.tasks.passages.marks import passages_of
from zyda_flows.tasks.passages.units import units_of
from zyda_flows.tasks.recipe.passages import LongPassages, RepeatedLines, RepeatedParagraphs
from zyda_flows.tasks.tokens.engine import TokenEngine
from zyda_flows.textkernels import anchors

WORDS = (
    "alpha",
    "beta",
    "gamma. ",
    "delta!",
    "naïve",
    "e\u0301tude",
    "漢字。",
    "🙂",
    "\u3000",
    "x\r\n",
    "\n\n",
    "a",
)


def texts_with_repeats(seed, length, alphabet="acgt", glue=""):
    """Return three sources of random texts of few letters, into which passages and halves of them are planted."""
    chance = random.Random(f"{seed} {length}")

    def letters(count):
        return glue.join(chance.choice(alphabet) for _ in range(count))

    passages = [letters(chance.randrange(length // 2, 3 * length + 2)) for _ in range(4)]

    def text():
        pieces = []
        for _ in range(chance.randrange(5)):
            passage = chance.choice(passages)
            choices = [letters(chance.randrange(2 * length)), passage, passage[len(passage) // 2 :]]
            pieces.append(chance.choice([*choices, glue.join(alphabet[0] * chance.randrange(2 * length))]))
        return glue.join(pieces)

    return [[text() for _ in range(8)] for _ in range(3)]


def by_document(shards, split):
    return {
        int(doc_id): split(text)
        for shard in shards
        for doc_id, text in zip(shard.doc_ids, shard.texts.to_pylist(), strict=True)
    }


@pytest.mark.parametrize("length", [20, 21, 47, 100, 1000])
@pytest.mark.parametrize(("scope", "within"), [("global", False), ("across", False), ("global", True)])
def test_characters(length, scope, within):
    part = LongPassages(length=length, scope=scope, within=within)
    shards = search_here(texts_with_repeats(1, length), part)
    expected = repeated_windows(by_document(shards, list), length, scope=scope, within=within)
    assert marked_windows(shards) == expected
    assert expected


@pytest.mark.parametrize("unit", ["characters", "words", "tokens", "sentences"])
def test_units(unit):
    length = {"words": 7, "sentences": 2}.get(unit, 20)
    part = LongPassages(length=length, unit=unit)
    engine = TokenEngine(Tokenizer.from_file(str(TOKENIZER)))
    shards = search_here(texts_with_repeats(2, length, WORDS, " "), part, engine)
    splits = {
        "characters": list, "words": str.split,
        "tokens": lambda text: engine.reference.encode(text, add_special_tokens=False).ids,
        "sentences": plain_sentences,
    }  # fmt: skip
    expected = repeated_windows(by_document(shards, splits[unit]), length)
    assert marked_windows(shards) == expected
    assert expected


def plain_sentences(text):
    """Divide a text after a stop and white space, after a wide stop, and at line breaks."""
    closing = "[\"')\\]»’”」』）.!?。！？]*"
    broken = re.sub(f"([。！？]{closing})|([.!?]{closing})(?=\\s)", "\\g<0>\0", text)
    return [sentence.strip() for sentence in re.split("[\0\n]", broken) if sentence.strip()]


@pytest.mark.parametrize("kind", ["lines", "paragraphs"])
@pytest.mark.parametrize("least", [2, 4])
def test_lines_and_paragraphs(kind, least):
    chance = random.Random(3)
    lines = ["", " ", *(f"line {n} {'x' * (n % 7)}" for n in range(30)), "7 apples", "8 apples", "漢字"]
    sources = [["\n".join(chance.choice(lines) for _ in range(12)) for _ in range(9)] for _ in range(3)]
    kinds = {"lines": RepeatedLines, "paragraphs": RepeatedParagraphs}
    part = kinds[kind].model_validate({kind: {"in_documents": least, "at_least": 3}})
    shards = search_here(sources, part)
    borders = {"lines": r"\n", "paragraphs": r"\n(?:[^\S\n]*\n)+"}

    def split(text):
        found = [piece.strip() for piece in re.split(borders[kind], text)]
        return [piece for piece in found if len(piece) >= 3]

    expected = repeated_windows(by_document(shards, split), 1, least=least)
    assert marked_windows(shards) == expected
    assert (kind == "paragraphs") or expected


def test_ccnet_and_exceptions():
    fields = {"lines": {"in_documents": 2}, "normalise": "ccnet", "except": ["brackets", "headings", "latex"]}
    part = RepeatedLines.model_validate(fields)
    left = "Page 17 of 90…\n# Heading\n{\n\\begin{document}\nOwn line one\n"
    right = "page 23 OF 11\n# Heading\n{\n\\begin{document}\nAnother line\n"
    shards = search_here([[left], [right]], part)
    assert sorted(marked_windows(shards)) == [(0, 0), ((1 << 54) + 1, 0)]


@pytest.mark.parametrize(("most_bytes", "documents"), [(1, 2), (3_000, 8), (30_000, 8)])
@pytest.mark.parametrize(("length", "scope", "within"), [(20, "across", False), (47, "global", True)])
def test_contexts_compared_in_local_files(tmp_path, most_bytes, documents, length, scope, within):
    part = LongPassages(length=length, scope=scope, within=within)
    sources = [texts[:documents] for texts in texts_with_repeats(4, length)]
    shards = search_here(sources, part, large=(tmp_path, most_bytes))
    assert marked_windows(shards) == repeated_windows(
        by_document(shards, list), length, scope=scope, within=within
    )
    for shard, other in zip(shards, search_here(sources, part), strict=True):
        found, expected = (
            passages_of(each.marks, each.units, each.texts, each.doc_ids, part, 1) for each in (shard, other)
        )
        assert found == expected
    assert not [*tmp_path.iterdir()]


def test_words_compared_in_local_files(tmp_path):
    part = LongPassages(length=7, unit="words")
    shards = search_here(texts_with_repeats(2, 7, WORDS, " "), part, large=(tmp_path, 500))
    assert marked_windows(shards) == repeated_windows(by_document(shards, str.split), 7)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.text("ab", max_size=60), max_size=5), min_size=1, max_size=3))
def test_few_letters(sources):
    part = LongPassages(length=20)
    shards = search_here(sources, part)
    assert marked_windows(shards) == repeated_windows(by_document(shards, list), 20)


def test_long_texts_are_searched_in_parts(monkeypatch):
    monkeypatch.setattr(anchors, "WINDOWS_AT_ONCE", 64)
    part = LongPassages(length=20)
    shards = search_here([["a" * 300, "ab" * 200], ["b" * 10 + "a" * 250 + "ab" * 90]], part)
    assert marked_windows(shards) == repeated_windows(by_document(shards, list), 20)


@pytest.mark.parametrize("unit", ["characters", "words", "tokens", "sentences", "lines", "paragraphs"])
def test_bytes_of_units(unit):
    texts = [
        "",
        "a",
        "naïve 漢字。 🙂 e\u0301tude\r\n\n two. Three!",
        " \n",
        "\u3000x y",
        "one\ntwo\n\n\nthree",
    ]
    engine = TokenEngine(Tokenizer.from_file(str(TOKENIZER)))
    part = LongPassages(length=20)
    if unit in ("lines", "paragraphs"):
        kinds = {"lines": RepeatedLines, "paragraphs": RepeatedParagraphs}
        part = kinds[unit].model_validate({unit: {"in_documents": 2}})
    elif unit != "characters":
        part = LongPassages(length=20, unit=unit)
    units = units_of(pa.array(texts, pa.large_string()), part, engine)
    for number, (begin, end) in enumerate(pairwise(units.ends.tolist())):
        every = np.arange(begin, end)
        firsts, lasts = units.spans(every, every + 1)
        data = texts[number].encode()
        pieces = [
            data[first:last].decode()
            for first, last in zip(firsts - units.offsets[number], lasts - units.offsets[number], strict=True)
        ]
        if unit in ("characters", "words", "sentences"):
            assert "".join(pieces) == (texts[number] if end > begin else "")
        assert all(piece in texts[number] for piece in pieces)
