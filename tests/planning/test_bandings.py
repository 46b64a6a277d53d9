"""Several bandings at once: what each takes is what a build with it takes, and texts are read once for all."""

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
    """Return a corpus with pairs of all similarities from 0.3 on."""
    corpus = Corpus(tmp_path)
    texts = {f"n{i}": prose(f"pair {i}") for i in range(44)}
    write_rows(tmp_path / "in/best-7.parquet", rows(**texts))
    write_rows(
        tmp_path / "in/worst-7.arrow",
        rows(**{name: edited(text, 1 + i // 2) for i, (name, text) in enumerate(texts.items())}),
    )
    corpus.recipe["dedup"] = {"scope": "global"}
    return corpus


def removed_of(recipe):
    """Return documents and tokens that near-duplicates took, by source, as they are published."""
    counts = {source.name: [0, 0] for source in recipe.sources}
    for row in table_of(recipe, "removed"):
        if row["stage"] == "removals":
            counts[row["source"]][0] += 1
            counts[row["source"]][1] += row["n_tokens"]
    return counts


@pytest.mark.slow
def test_three_bandings_at_once_are_those_of_three_builds(corpus, monkeypatch):
    recipe = corpus.load()
    build_here(recipe)
    before = {path: recipe.folder.read(f"published/{path}") for path in published(recipe).files("")}
    found = run_bandings(recipe, THRESHOLDS, HERE)
    assert {path: recipe.folder.read(f"published/{path}") for path in published(recipe).files("")} == before
    assert [one.threshold for one in found.tried] == [*THRESHOLDS]
    took = []
    for one in found.tried:
        dedup = {"scope": "global", "bands": one.bands, "rows": one.rows}
        folder = corpus.folder / f"by {one.threshold}"
        folder.mkdir()
        other = corpus.elsewhere(folder).load(dedup=dedup)
        build_here(other)
        assert {of.source: [of.removed.documents, of.removed.tokens] for of in one.sources} == removed_of(
            other
        )
        audit = table_of(other, "audit")
        assert (one.pairs, one.below) == (len(audit), sum(row["jaccard"] < one.threshold for row in audit))
        ledger = json.loads(published(other).read("ledger.json"))
        assert one.entering.tokens == sum(row["tokens"] for row in ledger if row["stage"] == "ingest")
        took.append(one.removed.documents)
    assert took[0] > took[1] > took[2] > 0
    assert tried_before(recipe.folder) == found


@pytest.mark.slow
def test_texts_are_read_once_for_all_and_a_build_finds_what_was_made(corpus, monkeypatch):
    recipe, read = corpus.load(), []
    build_here(recipe)
    sketch = minhash.keys_of_texts
    monkeypatch.setattr(
        minhash,
        "keys_of_texts",
        lambda texts, dedup: read.append((len(texts), dedup.bands)) or sketch(texts, dedup),
    )
    tables, shards = bandings.tables_of, []
    monkeypatch.setattr(
        bandings,
        "tables_of",
        lambda folder, shard, names: shards.append(shard.path) or tables(folder, shard, names),
    )
    found = run_bandings(recipe, THRESHOLDS, HERE)
    assert len(shards) == len(set(shards)) > 0
    documents = sum(one.entering.documents for one in found.tried[:1])
    made = {bands: sum(count for count, of in read if of == bands) for _, bands in read}
    assert made == {32: documents, 18: documents}  # those of 8 are the corpus's own
    read.clear()
    assert run_bandings(recipe, THRESHOLDS, HERE) == found
    build_here(
        corpus.load(dedup={"scope": "global", "bands": found.tried[1].bands, "rows": found.tried[1].rows})
    )
    assert not read


def test_rounds_before_it_and_other_fields_stay(corpus):
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
    (one,) = run_bandings(recipe, [0.6], HERE).tried
    assert one.entering.documents < sum(len(table_of(recipe, s.name)) for s in recipe.sources) + len(
        table_of(recipe, "removed")
    )


def test_a_recipe_without_such_a_round_is_refused(corpus):
    with pytest.raises(BadRecipe, match="a round of near-duplicates is needed"):
        with_threshold(corpus.load(dedup={"exact": "text"}), 0.5)
