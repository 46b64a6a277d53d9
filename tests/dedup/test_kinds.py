"""A kind of round that is defined in a test runs like the built-in kinds."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from small_corpus import build_here, rows, table_of, write_rows

from zyda_flows.tasks.recipe.dedup import Against, Dedup, Prefer, Reason, Scope, Sentences
from zyda_flows.tasks.recipe.kinds import ExactRound
from zyda_flows.tasks.signatures.keys import KEY_FUNCTIONS, keys_of_texts


class FirstWords(Dedup):
    """A round in which documents that begin with the same word are duplicates."""

    scope: Scope = "across"
    prefer: Prefer = ("source",)
    against: Against = ()

    @property
    def key_bands(self):
        return 1

    @property
    def key_parameters(self):
        return {"kind": "first words"}

    @property
    def sentences(self):
        return Sentences(
            Reason("same_first_word", "it begins as a document that is preferred"),
            Reason("first_word_in_other_corpus", "another corpus has one that begins like it"),
            "Documents that begin with the same word were found.",
            ("first words",),
        )


def first_words(texts, dedup):
    """Hash the first word of each text: (n, 1) uint64, and which texts have a word."""
    words = [text.split()[:1] for text in texts.to_pylist()]
    digests = [hashlib.sha256(word[0].encode()).digest()[:8] if word else bytes(8) for word in words]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 1), np.array(
        [bool(word) for word in words]
    )


def test_new_kind_of_round_is_a_class_and_a_function_of_keys(corpus, monkeypatch):
    monkeypatch.setitem(KEY_FUNCTIONS, FirstWords, first_words)
    write_rows(corpus.folder / "in/a.parquet", rows(a="One of them.", b="Two of them.", c=""))
    write_rows(
        corpus.folder / "in/b.parquet", rows(d="One more.", e="Two more.", f="Three of them.", g="One alone.")
    )
    corpus.recipe["sources"] = [{"name": name, "files": f"in/{name}.parquet"} for name in ("a", "b")]
    recipe = corpus.load().model_copy(update={"rounds": (ExactRound(exact="text"), FirstWords())})
    ledger = build_here(recipe)
    assert ledger.removed("removals2").documents == 3
    assert {row["reason"] for row in table_of(recipe, "removed")} == {"same_first_word"}
    assert [row["name"] for row in table_of(recipe, "b")] == ["f"]
    assert "begin with the same word were found" in recipe.folder.read("published/README.md").decode()


def test_incomplete_kind_of_round_raises():
    class Silent(Dedup):
        scope: Scope = "across"

    with pytest.raises(TypeError, match="abstract"):
        Silent()


def test_kind_of_round_without_keys_raises():
    with pytest.raises(KeyError):
        keys_of_texts(pa.array(["a"], pa.large_string()), FirstWords())
