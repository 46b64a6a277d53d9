"""Test the comparison of bandings: each removes the same documents as a build, and texts are read once for all."""

import json

import pytest
from small_corpus import Corpus, build_here, edited, prose, published, rows, table_of, write_rows

from zyda_flows.flows.bandings import run_bandings
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.planning import bandings
from zyda_flows.tasks.planning.bandings import tried_before, with_threshold
from zyda_flows.tasks.signatures import minhash
from zyda_flows.tasks.stage.results import HERE

THRESHOLDS = (0.4, 0.6, 0.85)


@pytest.fixture
def corpus(tmp_path):
    """Return a corpus with pairs of documents of similarities from 0.3 to 1."""
    corpus = Corpus(tmp_path)
    texts = {f"n{i}": prose(f"pair {i}") for i in range(44)}
    write_rows(tmp_path / "in/best-7.parquet", rows(**texts))
    write_rows(
        tmp_path / "in/worst-7.arrow",
        rows(**{name: edited(text, 1 + i // 2) for i, (name, text) in enumerate(texts.items())}),
    )
    corpus.recipe["dedup"] = {"scope": "global"}
    return corpus


def removed_counts(recipe):
    """Return, by source, the numbers of documents and tokens that the published table lists as near-duplicates."""
    counts = {source.name: [0, 0] for source in recipe.sources}
    for row in table_of(recipe, "removed"):
        if row["stage"] == "removals":
            counts[row["source"]][0] += 1
            counts[row["source"]][1] += row["n_tokens"]
    return counts


@pytest.mark.slow
def test_three_bandings_in_one_run_equal_three_builds(corpus, monkeypatch):
    recipe = corpus.load()
    build_here(recipe)
    files_before = {path: recipe.folder.read(f"published/{path}") for path in published(recipe).files("")}
    comparison = run_bandings(recipe, THRESHOLDS, HERE)
    assert {
        path: recipe.folder.read(f"published/{path}") for path in published(recipe).files("")
    } == files_before
    assert [banding.threshold for banding in comparison.tried] == [*THRESHOLDS]
    removed = []
    for banding in comparison.tried:
        dedup = {"scope": "global", "bands": banding.bands, "rows": banding.rows}
        folder = corpus.folder / f"by {banding.threshold}"
        folder.mkdir()
        other = corpus.elsewhere(folder).load(dedup=dedup)
        build_here(other)
        assert {
            counts.source: [counts.removed.documents, counts.removed.tokens] for counts in banding.sources
        } == removed_counts(other)
        audit = table_of(other, "audit")
        assert (banding.pairs, banding.below) == (
            len(audit),
            sum(row["jaccard"] < banding.threshold for row in audit),
        )
        ledger = json.loads(published(other).read("ledger.json"))
        assert banding.entering.tokens == sum(row["tokens"] for row in ledger if row["stage"] == "ingest")
        removed.append(banding.removed.documents)
    assert removed[0] > removed[1] > removed[2] > 0
    assert tried_before(recipe.folder) == comparison


@pytest.mark.slow
def test_texts_are_read_once_for_all_bandings_and_a_build_reuses_the_keys(corpus, monkeypatch):
    recipe, calls = corpus.load(), []
    build_here(recipe)
    sketch = minhash.keys_of_texts
    monkeypatch.setattr(
        minhash,
        "keys_of_texts",
        lambda texts, dedup: calls.append((len(texts), dedup.bands)) or sketch(texts, dedup),
    )
    tables, shards = bandings.tables_of, []
    monkeypatch.setattr(
        bandings,
        "tables_of",
        lambda folder, shard, names: shards.append(shard.path) or tables(folder, shard, names),
    )
    comparison = run_bandings(recipe, THRESHOLDS, HERE)
    assert len(shards) == len(set(shards)) > 0
    documents = sum(banding.entering.documents for banding in comparison.tried[:1])
    documents_by_bands = {
        bands: sum(count for count, bands_of_call in calls if bands_of_call == bands) for _, bands in calls
    }
    assert documents_by_bands == {32: documents, 18: documents}  # the keys of 8 bands exist from the build
    calls.clear()
    assert run_bandings(recipe, THRESHOLDS, HERE) == comparison
    build_here(
        corpus.load(
            dedup={"scope": "global", "bands": comparison.tried[1].bands, "rows": comparison.tried[1].rows}
        )
    )
    assert not calls


def test_changed_threshold_keeps_earlier_rounds_and_other_fields(corpus):
    recipe = corpus.load(
        dedup=[
            {"exact": "text"},
            {"shingle": "words", "width": 5, "values": 64},
            {"shingle": "words", "width": 13},
        ]
    )
    tried = with_threshold(recipe, 0.6)
    assert len(tried.rounds) == 2
    assert tried.rounds[1].width == 5
    assert tried.rounds[1].values <= 64
    build_here(recipe)
    (banding,) = run_bandings(recipe, [0.6], HERE).tried
    assert banding.entering.documents < sum(
        len(table_of(recipe, source.name)) for source in recipe.sources
    ) + len(table_of(recipe, "removed"))


def test_recipe_without_a_near_duplicate_round_raises(corpus):
    with pytest.raises(BadRecipe, match="a round of near-duplicates is needed"):
        with_threshold(corpus.load(dedup={"exact": "text"}), 0.5)
