"""Vectors of judges: published in 8 bits for the kept documents, computed once for heads on the same body."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file
from small_corpus import build_here, contents, table_of
from token_judges import ids_of, plain_features, random_judge

from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.errors import BadRecipe, BadRequest, Denied, NotConserved, ZydaError
from zyda_flows.tasks.lookup.nearest_meaning import nearest_in_meaning
from zyda_flows.tasks.lookup.verify_and_clean import files_to_check, orphans_of, strangers_in
from zyda_flows.tasks.quality import stored_vectors, token_models
from zyda_flows.tasks.quality.vector_files import VectorsOfFile
from zyda_flows.tasks.quality.vector_forms import quantised


def other_head(judge, folder, *, replaced=False):
    """Copy a judge with another head on the same body. replaced: whether the folder exists."""
    copy = shutil.copytree(judge, folder, dirs_exist_ok=replaced)
    tensors = load_file(copy / "model.safetensors")
    tensors["1.bias"] = tensors["1.bias"][::-1] + 1
    save_file(tensors, copy / "model.safetensors")
    return copy


@pytest.fixture
def judges(corpus):
    first = random_judge(corpus.folder / "first")
    return first, other_head(first, corpus.folder / "second")


def vectors_in(recipe, judge):
    """Return the rows of the published vectors of a judge, by id."""
    return {row["doc_id"]: row for row in table_of(recipe, f"vectors/{judge}")}


def plain_vector(judge, text):
    """Return the vector of a text by plain Python: means of int8 embeddings."""
    table = load_file(judge / "model.safetensors")["table"]
    return np.array(plain_features(ids_of(judge, text), table, 7)) / 256


def test_vectors_of_kept_and_judged_documents_are_published_with_their_error(corpus, judges, monkeypatch):
    monkeypatch.setattr(stored_vectors, "BATCH_BYTES", 3 * 12 * 4)  # three documents
    first, second = judges
    recipe = corpus.load(
        judges=[
            {"name": "a", "model": str(first), "keep": "a_prob < 0.99"},
            {"name": "b", "model": str(second), "only_if": "stars < 2"},
        ],
        publish_vectors=["a", "b"],
    )
    ledger = build_here(recipe)
    rows = {row["doc_id"]: row for source in recipe.sources for row in table_of(recipe, source.name)}
    assert {*vectors_in(recipe, "a")} == {*rows}
    read_by_b = {doc_id for doc_id, row in rows.items() if row["b_pred"] is not None}
    assert {*vectors_in(recipe, "b")} == read_by_b
    assert 0 < len(read_by_b) < len(rows)
    errors = []
    for doc_id, row in vectors_in(recipe, "a").items():
        exact, found = plain_vector(first, rows[doc_id]["text"]), row["scale"] * np.array(row["vector"])
        assert np.abs(exact - found).max() <= row["scale"] * 0.500001
        errors.append(np.linalg.norm(exact - found) / max(np.linalg.norm(exact), 1e-30) if exact.any() else 0)
        if doc_id in read_by_b:
            assert vectors_in(recipe, "b")[doc_id] == row
    wanted = plain_vector(first, text := next(iter(rows.values()))["text"])
    exact = {doc_id: plain_vector(first, row["text"]) for doc_id, row in rows.items()}
    lengths = {doc_id: max(np.linalg.norm(vector), 1e-30) for doc_id, vector in exact.items()}
    cosines = {doc_id: wanted @ exact[doc_id] / np.linalg.norm(wanted) / lengths[doc_id] for doc_id in rows}
    found = nearest_in_meaning(recipe, text, "a", most=4)
    expected = sorted(cosines.values(), reverse=True)[:4]
    assert [near.cosine for near in found] == pytest.approx(expected, abs=0.02)
    for near in found:
        assert near.cosine == pytest.approx(cosines[near.doc_id], abs=0.02)
        assert near.beginning == rows[near.doc_id]["text"][:200]
    assert {near.doc_id for near in nearest_in_meaning(recipe, text, "b", most=1000)} == read_by_b
    with pytest.raises(BadRequest, match=r"c is neither a judge .*; there are a, b; name a judge"):
        nearest_in_meaning(recipe, text, "c")
    with pytest.raises(BadRequest, match="the text has no characters"):
        nearest_in_meaning(recipe, " ", "a")
    accounts = published_manifest(recipe.folder).vectors
    a = [account for account in accounts if account.judge == "a"]
    assert sum(account.documents for account in a) == len(rows)
    assert {account.dimensions for account in a} == {12}
    assert max(account.largest_error for account in a) == pytest.approx(max(errors), rel=1e-3)
    mean = sum(account.mean_error * account.documents for account in a) / len(rows)
    assert mean == pytest.approx(np.mean(errors), rel=1e-3)
    assert not any("vectors" in stage for stage in ledger.stages)
    file = next(Path(recipe.folder.url, "published/vectors/a").rglob("*.parquet"))
    assert str(pq.read_schema(file).field("vector").type) == "fixed_size_list<element: int8>[12]"
    card = recipe.folder.folder("published").read("README.md").decode()
    assert "12 dimensions" in card
    other_head(second, first, replaced=True)
    with pytest.raises(Denied, match=r"the model .* of judge a has changed since the build"):
        nearest_in_meaning(recipe, text, "a")
    checked = [item.path for item in files_to_check(recipe)[0]]
    assert any(path.startswith("published/vectors/a/best/") for path in checked)


def test_body_runs_once_for_two_heads_and_answers_do_not_change(corpus, judges, monkeypatch):
    read, features = [], token_models.PooledEmbeddings.features

    def counted(body, tokens):
        read.append(len(tokens.ends) - 1)
        return features(body, tokens)

    monkeypatch.setattr(token_models.PooledEmbeddings, "features", counted)
    first, second = judges
    both = [{"name": "a", "model": str(first)}, {"name": "b", "model": str(second)}]
    alone = [corpus.load(judges=[judge], name=judge["name"]) for judge in both]
    for recipe in alone:
        build_here(recipe)
    apart = sum(read)
    recipe = corpus.load(judges=both, name="both")
    build_here(recipe)
    assert apart == 2 * (sum(read) - apart) > 0
    for source in recipe.sources:
        together = table_of(recipe, source.name)
        for judge, single in zip("ab", alone, strict=True):
            for row, other in zip(together, table_of(single, source.name), strict=True):
                assert row[f"{judge}_prob"] == other[f"{judge}_prob"]
    assert not [orphan for orphan in orphans_of(recipe, dry_run=True) if "/vectors/" in orphan.path]
    assert not strangers_in(recipe)
    before = sum(read)
    published = corpus.load(judges=both, name="both", publish_vectors="b")
    build_here(published)
    assert sum(read) == before
    assert table_of(published, "vectors/b")
    fresh = corpus.load(judges=both, name="both", publish_vectors="b", storage=str(corpus.folder / "fresh"))
    build_here(fresh)
    assert contents(published) == contents(fresh)


def test_missing_vector_ends_the_build(corpus, judges, monkeypatch):
    kept = VectorsOfFile.kept_and_judged
    monkeypatch.setattr(VectorsOfFile, "kept_and_judged", lambda job, history: kept(job, history)[1:])
    sources = corpus.recipe["sources"][1:2]
    recipe = corpus.load(
        judges=[{"name": "a", "model": str(judges[0])}], publish_vectors="a", sources=sources
    )
    with pytest.raises(NotConserved, match=r"judge a, source middle: (\d+) vectors of (\d+) kept documents"):
        build_here(recipe)


def test_largest_number_is_127_and_zeros_have_no_error():
    vectors = np.array([[0, 0], [512, -1024], [3, 4]], np.int32)
    scales, numbers, errors = quantised(vectors, 1 / 256)
    assert numbers.tolist() == [[0, 0], [64, -127], [95, 127]]
    assert scales == pytest.approx([0, 4 / 127, 4 / 256 / 127])
    expected = [0, np.hypot(64 * 4 / 127 - 2, 0) / np.hypot(2, 4), np.hypot(95 * 4 / 127 - 3, 0) / 5]
    assert errors == pytest.approx(expected, rel=1e-5)


def test_unknown_judges_and_models_without_vectors_are_one_error(corpus, judges):
    from language_models import train_model

    with pytest.raises(
        BadRecipe, match=r"publish_vectors: no judge has the name c; the judges are a"
    ) as raised:
        corpus.load(judges=[{"name": "a", "model": str(judges[0])}], publish_vectors=["c"])
    assert len(raised.value.faults) == 1
    model = train_model(corpus.folder)
    recipe = corpus.load(judges=[{"name": "a", "model": str(model)}], publish_vectors=["a"])
    with pytest.raises(ZydaError, match=r"publish_vectors: judge a: the model .* has no vectors"):
        build_here(recipe)
