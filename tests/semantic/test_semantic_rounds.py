"""Semantic rounds: the pairs equal those of brute force, and the removals a greedy search in plain Python."""

from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from semantic_corpus import COSINE, PROPOSE, recipe_of
from small_corpus import build_here, contents, published, table_of
from token_judges import ids_of

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.publish import published_shards
from zyda_flows.tasks.semantic import groups


def texts_by_id(recipe):
    kept = [row for name in ("good", "web") for row in table_of(recipe, name)]
    return {row["doc_id"]: row["text"] for row in kept}


def plain_vectors(folder, text):
    """Return the mean of the embeddings of a text, of length 1, and centred and rounded to 8 bits."""
    table = load_file(folder / "model.safetensors")["table"].astype(np.int64)
    ids = ids_of(folder, text)
    mean = np.array([sum(int(table[i, dim]) for i in ids) * 256 // len(ids) for dim in range(table.shape[1])])
    unit = mean / np.linalg.norm(mean)
    centre = np.rint(load_file(folder / "mean.safetensors")["mean"].astype(np.float64) * (1 << 14))
    centred = np.rint(unit * (1 << 14)) - centre
    return unit, np.rint(centred / np.abs(centred).max() * 127)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.fixture(scope="module")
def reported(families):
    """The tables of a build that removes nothing."""
    recipe = recipe_of(families, scope="global")
    build_here(recipe)
    places = ("good", "web", "pairs", "contradictions", "removed")
    tables = {place: table_of(recipe, place) for place in places}
    return SimpleNamespace(**tables, texts=texts_by_id(recipe), contents=contents(recipe))


def test_pairs_equal_those_of_brute_force(families, reported):
    vectors = {i: plain_vectors(Path(families.model), text) for i, text in reported.texts.items()}
    expected = {}
    for a, b in combinations(sorted(vectors), 2):
        proposed, strong = cosine(vectors[a][1], vectors[b][1]), cosine(vectors[a][0], vectors[b][0])
        if proposed >= PROPOSE and strong >= 0.8:
            expected |= {(a, b): (strong, proposed), (b, a): (strong, proposed)}
    found = {(row["doc_id"], row["other_id"]): row for row in reported.pairs}
    assert len(expected) > 100
    # One pair in two thousand at the cosine may have too many different signs.
    assert found.keys() <= expected.keys()
    assert len(found) >= 0.99 * len(expected)
    for pair, row in found.items():
        assert (row["cosine"], row["proposed_cosine"]) == pytest.approx(expected[pair], abs=1e-3)


def test_report_keeps_all_documents_and_publishes_contradictions(families, reported):
    assert len(reported.texts) > 80
    assert not reported.removed
    texts, pairs = reported.texts, reported.contradictions
    assert pairs
    for row in pairs:
        both = {text.partition(" of it")[2] for text in (texts[row["doc_id"]], texts[row["other_id"]])}
        assert both == {" in 1984", " in 1985"} or " which is not true" in both
        assert row["doc_id"] < row["other_id"]
        assert row["cosine"] >= np.float32(COSINE)


def greedy(pairs, order, group, protected):
    """Return the kept document for each removed one. order: of preference. group: of each document."""
    partners, kept_for = {}, {}
    for row in pairs:
        partners.setdefault(row["doc_id"], []).append(
            (-row["cosine"], order.index(row["other_id"]), row["other_id"])
        )
    for doc_id in order:
        candidates = [
            entry for entry in sorted(partners.get(doc_id, []))
            if entry[2] not in kept_for and group(entry[2]) < group(doc_id)
        ]  # fmt: skip
        if candidates and doc_id not in protected:
            kept_for[doc_id] = candidates[0][2]
    return kept_for


@pytest.mark.parametrize(
    ("scope", "prefer", "facts", "protect"),
    [("across", "source", "same", False), ("global", "source", "same", False), ("global", "longest", "same", False),
     ("global", "source", "ignore", False), ("global", "longest", "same", True)],
)  # fmt: skip
def test_removed_documents_equal_a_greedy_search(
    families, reported, scope, prefer, facts, protect, monkeypatch
):
    monkeypatch.setattr(groups, "GROUP_BYTES", 20_000)  # several groups
    recipe = recipe_of(
        families,
        scope=scope,
        prefer=prefer,
        facts=facts,
        remove=True,
        web={"protect": True} if protect else {},
    )
    build_here(recipe)
    texts = reported.texts
    pairs = [
        row for row in reported.pairs
        if row["cosine"] >= np.float32(COSINE) and (facts == "ignore" or row["agrees"])
    ]  # fmt: skip
    web = {row["doc_id"] for row in reported.web}
    protected = web if protect else set()
    size = {i: -len(text.encode()) if prefer == "longest" else 0 for i, text in texts.items()}
    order = sorted(texts, key=lambda i: (i not in protected, size[i], i))
    group = (lambda i: i in web) if scope == "across" else order.index
    removed = {row["doc_id"]: row["kept_doc_id"] for row in table_of(recipe, "removed")}
    assert removed == greedy(pairs, order, group, protected)
    assert removed
    assert sorted([*removed, *texts_by_id(recipe)]) == sorted(texts)


@pytest.mark.parametrize(("size", "proposed", "confirmed"), [(5_000, 3, 3), (30_000, 1, 2)])
def test_result_does_not_depend_on_the_groups(
    families, reported, size, proposed, confirmed, monkeypatch, tmp_path
):
    monkeypatch.setattr(groups, "GROUP_BYTES", size)
    recipe = recipe_of(families.elsewhere(tmp_path), scope="global")
    build_here(recipe)
    assert len(published(recipe).files("pairs/")) == confirmed
    assert len([*(tmp_path / "out/small/work/propose").glob("0*.parquet")]) == proposed
    assert table_of(recipe, "pairs") == reported.pairs
    assert table_of(recipe, "contradictions") == reported.contradictions


@pytest.mark.parametrize("remove", [False, True])
def test_pairs_with_another_corpus_equal_those_of_one_corpus(
    families, reported, remove, monkeypatch, tmp_path
):
    """One of the sources is a published corpus; its documents have the ids of another corpus."""
    monkeypatch.setattr(groups, "GROUP_BYTES", 20_000)
    monkeypatch.setattr(published_shards, "ROW_GROUP_BYTES", 4096)
    monkeypatch.setattr(groups, "SECTION_BYTES", 10_000)  # of a file of the other corpus
    first, second = (families.elsewhere(tmp_path / name) for name in ("first", "second"))
    for each, name in ((first, "good"), (second, "web")):
        each.folder.mkdir()
        each.recipe["name"] = f"corpus-{name}"
        each.recipe["sources"] = [entry for entry in each.recipe["sources"] if entry["name"] == name]
    older = recipe_of(first, scope="global")
    build_here(older)
    place = f"{older.folder.url}/published"
    newer = recipe_of(second, scope="global", against=place, remove=remove)
    sections = groups.shards_of_corpus(PublishedCorpus.at(place), ((0, 9),))
    assert len(sections) > len({each.texts.artifact for each in sections})
    build_here(newer)
    # In the corpus of both, the sources have the numbers 0 and 1.
    good = {row["doc_id"]: row["text"] for row in reported.good}
    expected = {
        (row["doc_id"] % (1 << 54), row["other_id"]): row for row in reported.pairs
        if row["doc_id"] not in good and row["other_id"] in good
    }  # fmt: skip
    rows = table_of(newer, "pairs_against")
    found = {(row["doc_id"], row["matched_doc_id"]): row for row in rows}
    assert len(found) == len(rows)
    assert found.keys() == expected.keys()
    assert {row["matched_corpus"] for row in rows} == {"corpus-good"}
    for pair, row in found.items():
        assert {name: row[name] for name in ("cosine", "agrees", "lacks")} == {
            name: expected[pair][name] for name in ("cosine", "agrees", "lacks")
        }
    may_be_removed = {
        pair[0] for pair, row in expected.items() if row["agrees"] and row["cosine"] >= np.float32(COSINE)
    }
    removed = [row for row in table_of(newer, "removed") if row["reason"] == "content_in_other_corpus"]
    assert may_be_removed
    assert {row["doc_id"] for row in removed} == (may_be_removed if remove else set())
    for row in removed:
        best = max(
            found[pair]["cosine"] for pair in found if pair[0] == row["doc_id"] and found[pair]["agrees"]
        )
        assert row["cosine"] == best
        assert (row["matched_corpus"], row["doc_id"]) == ("corpus-good", row["doc_id"])
        assert found[row["doc_id"], row["matched_doc_id"]]["cosine"] == best
