"""The report's chapters about judges: figures equal SciPy's, texts near thresholds, curves of the model's card."""

import html
import json
import shutil
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from language_models import train_model
from report_pages import cells_of, page_of, read, titles
from scipy import stats
from small_corpus import Corpus, build_here, prose, rows, table_of, write_rows
from token_judges import plain_outputs, random_judge

from zyda_flows.tasks.ids import hash_ids
from zyda_flows.tasks.lookup import judge_counting, judge_stats
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.lookup.judge_columns import columns_of_judges
from zyda_flows.tasks.lookup.judge_findings import judge_findings
from zyda_flows.tasks.quality.forms import digest_of_model
from zyda_flows.tasks.stage import trees

TAGGED = "<script>alert(1)</script> "
CURVE = [[5, 0.125, 0.25], [4, 0.5, 0.375], [5, 0.75, 0.875]]


def measures(model, target="edu"):
    """Return a record of measures with figures that are written out."""
    repeats = {"mean": 0.8125, "low": 0.625, "high": 0.9375}
    curve = [dict(zip(("documents", "answer", "score"), part, strict=True)) for part in CURVE]
    result = {
        "answer": "score", "target": target, "spearman": 0.84375, "auc": 0.96875, "spearman_repeats": repeats,
        "auc_repeats": None, "curve": curve,
    }  # fmt: skip
    digest = digest_of_model(str(model))
    return {
        "digest": digest, "form": "pooled", "targets": [target], "trained": 56, "held_out": 14, "repeats": 3,
        "results": [result],
    }  # fmt: skip


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A corpus with three judges, of which two have a threshold; some files for each source."""
    corpus = Corpus(tmp_path_factory.mktemp("judged"))
    for source in corpus.recipe["sources"]:
        source.pop("keep", None)
    deep, last = random_judge(corpus.folder / "deep", labels=()), random_judge(corpus.folder / "last")
    scores, outputs = [], []
    for number in range(3):
        texts = {"n" * i + f"{number}": f"{TAGGED}{prose(f'{number} {i}', 60)}" for i in range(16)}
        write_rows(corpus.folder / f"in/best-{number + 2}.parquet", rows(**texts))
        scores += [plain_outputs(deep, text)[0] for text in texts.values()]
        outputs += [plain_outputs(last, text) for text in texts.values()]
    half = round(float(np.median([1 / (1 + np.exp(cc - hq)) for cc, hq in outputs])), 3)
    lowest, cheap = round(float(np.quantile(scores, 0.3)), 3), train_model(corpus.folder, ("hq", "cc"))
    last = random_judge(corpus.folder / "last")
    (deep / "measures.json").write_text(json.dumps(measures(deep)))
    judges = [
        {"name": "cheap", "model": str(cheap)},
        {"name": "deep", "model": str(deep), "keep": f"deep_score >= {lowest}"},
        {"name": "last", "model": str(last), "probabilities": True, "only_if": "stars < 3"},
    ]
    judges[2]["keep"] = f"stars >= 3 OR last_hq > {half}"
    recipe = corpus.load(judges=judges, published_mib=0.002)
    build_here(recipe)
    documents = [row for source in recipe.sources for row in table_of(recipe, source.name)]
    removed = [row for row in table_of(recipe, "removed") if row["deep_score"] is not None]
    return SimpleNamespace(
        corpus=corpus, recipe=recipe, kept=documents, removed=removed, deep=deep, lowest=lowest, half=half
    )


def expected_pairs(judged):
    scores = {"cheap": "cheap_hq", "deep": "deep_score", "last": "last_hq"}
    for one, other in combinations(scores, 2):
        both = [
            (row[scores[one]], row[scores[other]])
            for row in [*judged.kept, *judged.removed]
            if row[scores[one]] is not None and row[scores[other]] is not None
        ]
        yield one, other, both


def test_pairs_are_those_of_scipy_and_decisions_those_of_the_rows(judged):
    found = {
        (pair.first, pair.second): pair for pair in judge_findings(DocumentReader.of(judged.recipe)).pairs
    }
    for one, other, both in expected_pairs(judged):
        pair = found.pop((one, other))
        assert (pair.documents, pair.sampled) == (len(both), len(both))
        assert pair.correlation == pytest.approx(stats.spearmanr(both).statistic)
        if (one, other) != ("deep", "last"):
            assert pair.decisions is None
            continue
        read_by_last = [row for row in judged.kept if row["last_hq"] is not None]
        removed_by = [row["stage"] for row in judged.removed]
        assert pair.decisions == ((len(read_by_last), removed_by.count("keep_last")), (0, 0))
        not_read = len(judged.kept) - len(read_by_last)
        assert pair.alone == (not_read + removed_by.count("keep_deep"), 0)
        assert min(len(read_by_last), not_read, *map(removed_by.count, ("keep_last", "keep_deep"))) > 0
    assert not found


def test_sample_is_bounded_and_does_not_depend_on_the_tree(judged, monkeypatch):
    monkeypatch.setattr(judge_counting, "LENGTHS", {**judge_counting.LENGTHS, judge_counting.SAMPLED: 20})
    monkeypatch.setattr(judge_stats, "VERSION", 1000)
    monkeypatch.setattr(judge_counting.JudgesOfFile, "version", 1000)
    monkeypatch.setattr(judge_counting.SumOfJudges, "version", 1000)
    monkeypatch.setattr(trees, "FAN_IN", 2)
    (pair, *_) = judge_findings(DocumentReader.of(judged.recipe)).pairs
    rows = [*judged.kept, *judged.removed]
    order = np.argsort(hash_ids(np.array([row["doc_id"] for row in rows], np.uint64)))[:20]
    expected = stats.spearmanr(
        [(rows[i]["cheap_hq"], rows[i]["deep_score"]) for i in order.tolist()]
    ).statistic
    assert (pair.sampled, pair.documents) == (20, len(rows))
    assert pair.correlation == pytest.approx(expected)


def nearest(rows, column, threshold, is_above):
    side = [row for row in rows if row[column] is not None and (row[column] >= threshold) == is_above]
    hashes = hash_ids(np.array([row["doc_id"] for row in side], np.uint64)).tolist()
    ordered = sorted(
        zip(side, hashes, strict=True), key=lambda pair: (abs(pair[0][column] - threshold), pair[1])
    )
    by_score = {row[column]: row["doc_id"] for row, _ in reversed(ordered)}
    return list(reversed(by_score.values()))[:3]


def test_nearest_documents_are_shown_with_their_texts_while_those_are_stored(judged, tmp_path):
    found = judge_findings(DocumentReader.of(judged.recipe))
    assert [shown.threshold.shown for shown in found.thresholds] == [
        f"deep_score >= {judged.lowest}", f"last_hq > {judged.half}",
    ]  # fmt: skip
    (deep, _), rows = found.thresholds, [*judged.kept, *judged.removed]
    texts = {row["doc_id"]: row["text"] for row in judged.kept}
    for is_above, documents in enumerate((deep.below, deep.above)):
        assert [near.place.doc_id for near in documents] == nearest(
            rows, "deep_score", judged.lowest, bool(is_above)
        )
        for near in documents:
            remover = "keep_last" if is_above else "keep_deep"
            assert near.decision == ("kept" if near.place.doc_id in texts else f"removed by {remover}")
            assert near.beginning == texts.get(near.place.doc_id, near.beginning)[:400]
            assert len(near.beginning) > 100 or near.beginning in texts.values()
    page = page_of(judged.recipe, has_plots=False)
    assert "<script>alert" not in page
    assert html.escape(deep.below[0].beginning[:100], quote=False) in page
    copy = shutil.copytree(judged.corpus.folder / "out", tmp_path / "out")
    shutil.rmtree(copy / "small/work/ingest")
    elsewhere = judged.corpus.load(storage=str(copy), judges=[])
    for near in judge_findings(DocumentReader.of(elsewhere)).thresholds[0].below:
        assert near.beginning == "(the text is neither published nor in the work folder)"


def test_curves_are_those_of_the_card_of_the_same_model(judged):
    page = page_of(judged.recipe)
    title = "Judge deep against its targets"
    assert [each for each in titles(page) if "judge" in each.lower()] == [
        "Judges", title, f"Documents around the threshold of judge deep: deep_score &gt;= {judged.lowest}",
        f"Documents around the threshold of judge last: last_hq &gt; {judged.half}", "Agreement between judges",
    ]  # fmt: skip
    assert cells_of(page, "On held-out documents") == {
        "score against edu": ["0.844", "0.969", "0.812 (0.625 to 0.938)", ""]
    }
    assert cells_of(page, "Curve of score against edu") == {
        f"{answer:.4g}": [str(documents), f"{score:.4g}"] for documents, answer, score in CURVE
    }
    chapter = read(page.partition(title)[2].partition("<h2>")[0])
    assert "14 held-out documents" in chapter
    assert "against one target only" in chapter
    assert "better" not in chapter
    other = {**measures(judged.deep), "digest": "0" * 20}
    (judged.deep / "measures.json").write_text(json.dumps(other))
    assert title not in titles(page_of(judged.recipe, has_plots=False))
    (judged.deep / "measures.json").write_text("{")
    assert title not in titles(page_of(judged.recipe, has_plots=False))


def test_columns_of_judges_with_similar_names_are_told_apart():
    judges = [
        {"name": "a", "model": "m.bin", "keep": "a_b_hq < 0.5"},
        {"name": "a_b", "model": "n.bin", "keep": "a_b_prob > 0.5 OR a_hq > 1"},
        {"name": "p", "model": "x.arpa", "keep": "p_perplexity < 2e3"},
    ]
    names = ["doc_id", "text", "a_pred", "a_prob", "a_b_hq", "a_hq", "a_b_pred", "a_b_prob", "p_perplexity"]
    manifest = SimpleNamespace(recipe={"judges": judges, "sources": [{"name": "s"}]})
    a, a_b, p = columns_of_judges(manifest, "s", names)
    assert (a.first, a.score, a.stage, a.threshold.shown) == ("a_pred", "a_b_hq", "keep_a", "a_b_hq < 0.5")
    assert (a_b.first, a_b.score, a_b.threshold) == ("a_b_pred", "", None)
    assert (p.first, p.score, p.threshold.number) == ("p_perplexity", "p_perplexity", "2e3")


def test_column_of_a_source_with_the_name_of_a_head_is_no_column_of_the_judge():
    judges = [{"name": "h", "model": "folder", "keep": "h_level_score >= 2"}]
    manifest = SimpleNamespace(recipe={"judges": judges, "sources": [{"name": "s"}]})
    names = ["h_rank_score", "n_tokens", "h_level_score", "h_level_int_score"]
    (judge,) = columns_of_judges(manifest, "s", names)
    assert (judge.first, judge.threshold.column) == ("h_level_score", "h_level_score")


def test_judge_with_several_heads_orders_documents_by_its_threshold_only():
    judges = [
        {"name": "h", "model": "folder", "keep": "h_topic_law < 0.5"},
        {"name": "h_x", "model": "other"},
        {"name": "g", "model": "folder"},
    ]
    names = [
        "h_x_score", "h_x_int_score", "h_level_score", "h_level_int_score", "h_topic_pred", "h_topic_law",
        "g_level_score", "g_level_int_score",
    ]  # fmt: skip
    manifest = SimpleNamespace(recipe={"judges": judges, "sources": [{"name": "s"}]})
    h, x, g = columns_of_judges(manifest, "s", names)
    assert (h.first, h.score, x.score) == ("h_level_score", "h_topic_law", "h_x_score")
    assert (g.first, g.score) == ("g_level_score", "")
