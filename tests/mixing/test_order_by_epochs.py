"""Test `order: epochs`: one copy of every document comes before any second copy, in all files and formats."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_mixtures import (
    all_files,
    copies_in,
    megatron,
    mixed_in,
    mixing_of,
    mixture_file,
    origins,
    run_here,
)

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.mixing import gathering
from zyda_flows.tasks.mixing.amounts import Amount
from zyda_flows.tasks.mixing.passes import KEYS, keys_in_passes, tokens_of_passes, upper_half
from zyda_flows.tasks.mixing.tracing import MixtureTracer

PARTS = [
    {"name": "long", "source": "good", "where": "n_tokens > 300", "weight": 3},
    {"name": "rest", "weight": 5, "max_epochs": 9},
]
OPTIONS = {
    "parts": PARTS, "budget": {"epochs": 2.4}, "repeat": {1: 1, 2: 3}, "validation": {"share": 0.2}, "file_gib": 4e-5,
    "formats": ["megatron", "text"],
}  # fmt: skip
NUMBERS = st.integers(0, KEYS - 1)


def trained_pieces(mixed, place):
    """Return the pieces of the training files in their order."""
    names = [output.name for output in mixed.outputs if output.name.startswith("train")]
    return [row for name in names for row in origins(place, name)]


@pytest.mark.parametrize("packed", [None, 64])
def test_every_document_occurs_once_before_any_occurs_twice(corpora, tmp_path, packed):
    options = OPTIONS | ({"packed": packed} if packed else {})
    shuffled, shuffled_place = mixed_in(mixture_file(tmp_path / "a", corpora, **options))
    mixed, place = mixed_in(mixture_file(tmp_path / "b", corpora, order="epochs", **options))
    assert copies_in(mixed, place) == copies_in(shuffled, shuffled_place)
    assert copies_in(mixed, place, "validation") == copies_in(shuffled, shuffled_place, "validation")
    assert [part.model_dump() for part in mixed.parts] == [part.model_dump() for part in shuffled.parts]
    pieces = trained_pieces(mixed, place)
    assert all(a["copy"] <= b["copy"] for a, b in pairwise(pieces))
    assert [row["copy"] for row in trained_pieces(shuffled, shuffled_place)] != [
        row["copy"] for row in pieces
    ]
    documents_by_pass = {}
    for row in pieces:
        if row["offset"] == 0:
            documents_by_pass.setdefault(row["copy"], []).append((row["corpus"], row["doc_id"]))
    assert len(documents_by_pass) > 4
    first, second = documents_by_pass[0], documents_by_pass[1]
    assert {*first} > {*second}
    assert len({*first}) == len(first)
    assert [key for key in first if key in {*second}] != second  # each pass has an order of its own
    assert first != sorted(first)
    sizes = [output.tokens for output in mixed.outputs if output.name.startswith("train")]
    assert len(sizes) > 2
    assert max(sizes) < 1.5 * min(sizes)
    texts = [key for text in mixed.texts[:-1] for key in text_keys(place, text.name)]
    if not packed:
        assert texts == [(row["corpus"], row["doc_id"]) for row in pieces]


def text_keys(place, name):
    rows = pq.read_table(place / f"text/{name}.parquet").to_pylist()
    return [(["small", "second"].index(row["corpus"]), row["doc_id"]) for row in rows]


def test_memory_and_order_of_jobs_do_not_change_the_files(corpora, tmp_path, monkeypatch):
    options = OPTIONS | {"order": "epochs", "formats": ["megatron"]}
    _, place = mixed_in(mixture_file(tmp_path / "a", corpora, **options))
    monkeypatch.setattr(gathering, "MEMORY_BYTES", 4096)
    path = mixture_file(tmp_path / "b", corpora, **options)
    _, other = mixed_in(path, lambda jobs, step: run_here(jobs[::-1], step)[::-1])
    files, others = (
        {name: content for name, content in all_files(folder).items() if name.endswith((".bin", ".idx"))}
        for folder in (place, other)
    )
    assert len(files) > 4
    assert files == others


def test_positions_are_traced_to_the_copies(corpora, tmp_path):
    mixed, place = mixed_in(mixture_file(tmp_path, corpora, order="epochs", **OPTIONS))
    tracer, last = MixtureTracer.at(str(place)), mixed.outputs[0]
    sequences = megatron(place, last.name)
    ends = np.cumsum([len(ids) for ids in sequences])
    for number in (0, len(sequences) - 1):
        (piece,) = tracer.pieces(last, int(ends[number]) - 1, int(ends[number]))
        row = origins(place, last.name)[number]
        assert (piece.sequence, piece.doc_id, piece.copy_number) == (number, row["doc_id"], row["copy"])


def test_too_many_copies_raise_before_writing(corpora, tmp_path):
    parts = [{"name": "one", "source": "good", "where": "name = 'empty'", "epochs": 300}]
    options = {"parts": parts, "budget": ..., "repeat": {1: 255}}
    with pytest.raises(BadRecipe, match="order: a document has 76,500 copies, and `epochs` allows 4,096"):
        mixed_in(mixture_file(tmp_path, corpora[:1], order="epochs", **options))
    assert mixing_of(mixture_file(tmp_path, corpora[:1], **options)).plan.passes == ()


@given(a=NUMBERS, b=NUMBERS)
def test_upper_half_of_products_is_at_most_two_too_small(a, b):
    (high,) = upper_half(np.array([a], np.uint64), np.array([b], np.uint64)).tolist()
    assert 0 <= (a * b >> 64) - high <= 2


@given(st.lists(NUMBERS, min_size=1, max_size=20), st.lists(st.integers(1, 1 << 60), min_size=1, max_size=5))
def test_keys_of_passes_ascend(keys, tokens):
    starts = [sum(tokens[:number]) * KEYS // sum(tokens) for number in range(len(tokens))]
    for number, start in enumerate(starts):
        passes = np.full(len(keys), number, np.uint64)
        end = [*starts, KEYS][number + 1]
        assert all(
            start <= key < end for key in keys_in_passes(np.array(keys, np.uint64), passes, starts).tolist()
        )


def test_tokens_of_passes_are_those_of_the_documents():
    """Part a has documents of 5 and 7 tokens, with 1 and 3 copies in each of 2 epochs; b has 4 tokens, 1.5 epochs."""
    copies = np.zeros((2, 256), np.int64)
    copies[0, [1, 3]], copies[1, 1] = (5, 7), 4
    totals = [5 + 3 * 7, 4]
    amounts = [
        Amount(part="a", whole=2, last=None, target=0, epochs=2, tokens=2 * totals[0]),
        Amount(part="b", whole=1, last=(1, 1), target=0, epochs=1.5, tokens=6),
    ]
    copies_of_documents = Counter({5: 2, 7: 6})
    expected = [
        sum(size for size, count in copies_of_documents.items() if count > number) for number in range(6)
    ]
    expected[0], expected[1] = expected[0] + 4, expected[1] + 2
    assert tokens_of_passes(copies, totals, amounts) == expected
