"""Documents are drawn by the hashes of their texts, as a plain computation of all published texts finds them."""

import hashlib
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from small_corpus import edited, prose
from small_mixtures import documents

from zyda_flows.tasks.ablation.documents import (
    CELLS,
    Encoder,
    clusters_of_documents,
    histogram,
    token_ids,
)
from zyda_flows.tasks.ablation.drawing import available_tokens, draw
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.mixing.mixture import Part
from zyda_flows.tasks.signatures.exact import text_hashes
from zyda_flows.tasks.tokens.engine import TokenEngine

SOURCES = [Part(name="good", source="good"), Part(name="other", source="other")]


def plain_hash(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest()[:8], "little")


@pytest.fixture
def encoder(tokenizer):
    return Encoder(TokenEngine(tokenizer), tokenizer.token_to_id("<|endoftext|>"))


@pytest.fixture
def corpus(small):
    return PublishedCorpus.of(small.load())


def texts_of(small, condition):
    return sorted(
        {row["text"] for row in documents([small]).values() if row["text"] and condition(row)}, key=plain_hash
    )


@pytest.mark.parametrize("need", [1, 1500, 9000])
def test_documents_with_the_smallest_hashes_are_drawn(small, corpus, encoder, tokenizer, need):
    drawn = draw([corpus], SOURCES, [need, 0], encoder, held_out=3)
    texts = texts_of(small, lambda row: row["source"] == "good")
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    enough = next(i for i, total in enumerate(accumulate(len(each) + 1 for each in ids), 1) if total >= need)
    found = token_ids(drawn.parts[0])
    assert drawn.parts[0].column("hash").to_pylist() == [plain_hash(text) for text in texts[:enough]]
    assert [found.of(i).tolist() for i in range(enough)] == [
        [encoder.separator, *each] for each in ids[:enough]
    ]
    assert drawn.parts[0].column("n_bytes").to_pylist() == [len(text.encode()) for text in texts[:enough]]
    assert drawn.candidates["good"].column("hash").to_pylist() == [plain_hash(text) for text in texts[:-4:-1]]
    assert len(drawn.parts[1]) == 0


def test_a_document_belongs_to_the_first_part_that_it_matches(small, corpus, encoder):
    parts = [Part(name="long", where="n_tokens > 300"), Part(name="good", source="good")]
    drawn = draw([corpus], parts, [10**6, 10**6], encoder, held_out=0)
    long = texts_of(small, lambda row: row["n_tokens"] > 300)
    rest = texts_of(small, lambda row: row["n_tokens"] <= 300 and row["source"] == "good")
    assert [{*drawn.parts[i].column("hash").to_pylist()} for i in range(2)] == [
        {plain_hash(text) for text in texts} for texts in (long, rest)
    ]
    rows = documents([small]).values()
    totals = [
        sum(row["n_tokens"] for row in rows if row["n_tokens"] > 300),
        sum(row["n_tokens"] for row in rows if row["n_tokens"] <= 300 and row["source"] == "good"),
    ]
    assert available_tokens([corpus], parts) == totals


def test_kept_documents_are_found_again(small, corpus, encoder):
    wanted = [plain_hash(text) for text in texts_of(small, lambda row: row["source"] == "other")[5:8]]
    drawn = draw([corpus], SOURCES, [10, 10], encoder, held_out=1, kept=[*wanted, 12345])
    assert sorted(drawn.kept["other"].column("hash").to_pylist()) == sorted(wanted)
    assert len(drawn.kept["good"]) == 0


def test_near_duplicates_are_in_one_cluster(encoder):
    texts = pa.array(
        [prose("a"), prose("b"), edited(prose("a")), "short", "short", prose("b")], pa.large_string()
    )
    found = encoder.documents(texts, text_hashes(texts)[0])
    assert clusters_of_documents(found).tolist() == [0, 1, 0, 3, 3, 1]


def test_histograms_of_the_same_words_are_nearer(encoder):
    def cells(names):
        texts = pa.array([prose(name) for name in names], pa.large_string())
        return histogram(encoder.documents(texts, text_hashes(texts)[0]))

    assert cells("abc").sum() == 3 * 64
    assert cells("abc").shape == (CELLS,)
    assert np.array_equal(cells("abc"), cells("cab"))
    assert not np.array_equal(cells("abc"), cells("abd"))
