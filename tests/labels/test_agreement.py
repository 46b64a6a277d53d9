"""The agreement of scores within clusters of near-duplicates, against a dictionary of all clusters."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from language_models import train_model
from small_corpus import Corpus, build_here, contents, edited, prose, write_rows

from zyda_flows.flows.reporting.report_agreement import agreements
from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.labels import agreement_jobs
from zyda_flows.tasks.labels.agreement import answers_of
from zyda_flows.tasks.labels.agreement_jobs import Threshold
from zyda_flows.tasks.lookup.report_data import findings_of
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.quality.heads import ModelHead

CLUSTERS = {1: [3.0], 2: [1.0, 4.5], 3: [2.0, 2.0, 2.5], 6: [0.5, None, 3.5, 3.0, 1.0, 1.0], 7: [None, 4.0]}


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """Clusters of near-duplicates with scores, in two sources."""
    corpus = Corpus(tmp_path_factory.mktemp("rated"))
    rows = [
        {"name": f"{number}-{copy}", "rating": score, "text": edited(prose(f"page {number}"), copy)}
        for number, scores in CLUSTERS.items()
        for copy, score in enumerate(scores)
    ]
    write_rows(corpus.folder / "in/web.parquet", rows[::2])
    write_rows(corpus.folder / "in/wiki.parquet", rows[1::2])
    corpus.recipe["sources"] = [
        {"name": name, "files": f"in/{name}.parquet", "keep": keep}
        for name, keep in {"web": "rating >= 3", "wiki": '(3 <= "rating")'}.items()
    ]
    return corpus


def published(recipe):
    return pq.read_table(f"{recipe.folder.url}/published/agreement").to_pylist()


def test_spreads_are_those_of_a_dictionary(rated, monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.dedup.document_names.PART_ROWS", 8)
    monkeypatch.setattr(agreement_jobs, "BATCH_ROWS", 2)
    recipe = rated.load(agreement=["rating"], name="rated")
    build_here(recipe)
    rows = published(recipe)
    scored = {number: [score for score in scores if score is not None] for number, scores in CLUSTERS.items()}
    sizes = {number: len(scores) for number, scores in CLUSTERS.items()}
    for row in rows:
        inside = [
            scores
            for number, scores in scored.items()
            if row["from_size"] <= sizes[number] <= row["to_size"] and len(scores) > 1
        ]
        spreads = [max(scores) - min(scores) for scores in inside]
        assert row["clusters"] == len(inside)
        assert row["mean_spread"] == pytest.approx(sum(spreads) / len(spreads))
        assert row["largest_spread"] == max(spreads)
        assert row["both_sides"] == sum(min(scores) < 3 <= max(scores) for scores in inside)
        assert row["threshold"] == "rating >= 3"
    assert [(row["from_size"], row["to_size"]) for row in rows] == [(2, 2), (3, 4), (5, 8)]
    sections = [*agreements(findings_of(recipe))]
    assert [section.title for section in sections] == ["rating within clusters"]
    assert "In 2 of them (66.7%), `rating >= 3` holds for some documents only." in sections[0].notes[0]
    assert sections[0].texts[0].summary.endswith("1 to 4.5")
    texts = [text for _, text in sections[0].texts[0].parts]
    assert texts[0] == prose("page 2")[:400]
    assert "edit0" in texts[1]
    card = recipe.folder.folder("published").read("README.md").decode()
    assert sections[0].notes[0] in card


def test_judges_before_deduplication_are_compared_and_the_table_does_not_depend_on_parts(
    rated, tmp_path, monkeypatch
):
    model = train_model(tmp_path, ("hq", "cc"))
    judges = [{"name": "cheap", "model": str(model), "at": "ingest"}, {"name": "late", "model": str(model)}]
    sources = [source | {"keep": "rating > 1 OR rating IS NULL"} for source in rated.recipe["sources"]]
    recipe = rated.load(judges=judges, sources=sources, name="judged", agreement="rating")
    build_here(recipe)
    rows = published(recipe)
    assert {row["column"] for row in rows} == {"rating", "cheap_prob", "cheap_hq", "cheap_cc"} & {
        row["column"] for row in rows
    }
    assert {"rating", "cheap_prob"} <= {row["column"] for row in rows}
    assert all(row["threshold"] is None and row["both_sides"] is None for row in rows)
    assert all(0 <= row["mean_spread"] <= row["largest_spread"] for row in rows)
    monkeypatch.setattr("zyda_flows.tasks.dedup.document_names.PART_ROWS", 5)
    again = rated.load(
        judges=judges, sources=sources, name="judged", agreement="rating", storage=str(rated.folder / "again")
    )
    build_here(again)
    assert {path: data for path, data in contents(again).items() if path.startswith("agreement")} == {
        path: data for path, data in contents(recipe).items() if path.startswith("agreement")
    }


def test_corpus_without_scores_has_no_agreement(rated):
    recipe = rated.load(name="plain")
    build_here(recipe)
    assert not recipe.folder.files("published/agreement")
    assert not [*agreements(findings_of(recipe))]


def test_unknown_columns_and_texts_are_refused(rated):
    with pytest.raises(
        ZydaError, match="agreement: no source has a column 'stars'; there are 'name', 'rating'"
    ):
        build_here(rated.load(agreement="stars", name="faults"))
    with pytest.raises(ZydaError, match="source web: agreement: 'name' is string, expected a number"):
        build_here(rated.load(agreement="name", name="faults"))


def test_only_a_keep_after_deduplication_has_a_threshold_which_is_rounded_as_the_score(tmp_path):
    corpus = Corpus(tmp_path)
    scores = np.array([0.7, 0.9, 0.6, 0.8], np.float32)
    texts = [edited(prose(f"page {number // 2}"), number % 2) for number in range(4)]
    table = pa.table({"rating": scores, "text": texts})
    (tmp_path / "in").mkdir(exist_ok=True)
    pq.write_table(table, tmp_path / "in/web.parquet")
    judge = {
        "name": "cheap",
        "at": "ingest",
        "model": str(train_model(tmp_path)),
        "keep": "cheap_prob >= 0.1",
    }
    source = {"name": "web", "files": "in/web.parquet", "keep": "rating >= 0.7"}
    recipe = corpus.load(agreement="rating", judges=[judge], sources=[source])
    build_here(recipe)
    found = {
        row["column"]: (row["clusters"], row["threshold"], row["both_sides"]) for row in published(recipe)
    }
    is_kept = (scores >= np.float32(0.7)).reshape(2, 2)
    assert found["rating"] == (2, "rating >= 0.7", (is_kept.any(1) & ~is_kept.all(1)).sum())
    assert found["cheap_prob"] == (2, None, None)


@pytest.mark.parametrize(
    ("is_above", "expected"), [(True, [False, True, True]), (False, [True, True, False])]
)
def test_threshold_divides_scores_on_both_sides(is_above, expected):
    scores = [(3.0, 4.0), (2.0, 4.0), (2.0, 3.0)]
    low, high = (np.array(column) for column in zip(*scores, strict=True))
    assert Threshold(3.0, is_above).divides(low, high).tolist() == expected


def test_judge_with_many_scores_has_a_column_of_each_head_in_the_comparison():
    heads = (ModelHead(name="level"), ModelHead(name="topic", labels=tuple("abcdefgh")))
    model = Model(
        judge="web", form="encoder", name="m", revision=None, digest="d", heads=heads, every_label=True
    )
    assert [*answers_of(model)] == ["web_level_score", "web_topic_prob"]
    assert {*answers_of(model)} < {field.name for field in model.added_columns}
