"""Test the report's chapters about semantic rounds, and `zyda explain` of documents in pairs."""

import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from browser import new_page
from report_pages import cells_of, page_of, read, titles
from semantic_corpus import family, recipe_of
from small_corpus import build_here, published, rows, table_of, write_rows

from zyda_flows.flows.command.explain import decision, print_explanation
from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.lookup import nearest_meaning
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.lookup.nearest_meaning import nearest_in_meaning
from zyda_flows.tasks.lookup.pair_stats import LISTED
from zyda_flows.tasks.lookup.verify_and_clean import orphans_of
from zyda_flows.tasks.semantic import groups

THRESHOLDS = [f"0.{hundredths}" for hundredths in range(80, 100)]


def built(corpus, **changes):
    """Build a corpus; return its recipe, tables and the tokens of its documents."""
    recipe = recipe_of(corpus, **changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "GROUP_BYTES", 20_000)  # several files of pairs
        build_here(recipe)
    pairs, removed = table_of(recipe, "pairs"), table_of(recipe, "removed")
    documents = [row for name in ("good", "web") for row in table_of(recipe, name)]
    tokens = {row["doc_id"]: row["n_tokens"] for row in (*documents, *removed)}
    web = {row["doc_id"] for row in (*documents, *removed) if row["source"] == "web"}
    return SimpleNamespace(recipe=recipe, pairs=pairs, removed=removed, tokens=tokens, web=web)


@pytest.fixture(scope="module")
def removing(families, tmp_path_factory):
    folder = tmp_path_factory.mktemp("removing")
    return built(families.elsewhere(folder), scope="global", remove=True)


def numbers(page, title):
    cells = cells_of(page, title)
    return {name: [int(cell.replace(",", "")) for cell in row] for name, row in cells.items()}


def removable(build, is_preferred):
    """Return what each threshold would remove in plain Python: documents and tokens, without and with the guard."""
    found = {}
    for threshold in THRESHOLDS:
        above = [
            row for row in build.pairs
            if row["cosine"] >= np.float32(threshold) and is_preferred(row["other_id"], row["doc_id"])
        ]  # fmt: skip
        both = [{row["doc_id"] for row in above}, {row["doc_id"] for row in above if row["agrees"]}]
        found[threshold] = [
            count for ids in both for count in (len(ids), sum(build.tokens[doc_id] for doc_id in ids))
        ]
    return found


def test_removable_documents_equal_a_plain_count(removing):
    web = removing.web
    expected = removable(removing, lambda other, own: (other in web, other) < (own in web, own))
    assert expected["0.80"][0] > expected["0.80"][2] > expected["0.99"][2] > 0
    assert numbers(page_of(removing.recipe, has_plots=False), "At most removed by each cosine") == expected


def test_scope_across_and_protected_sources_are_considered(families, tmp_path):
    build = built(families.elsewhere(tmp_path), scope="across", web={"protect": True})
    web = build.web
    expected = removable(build, lambda other, own: other in web and own not in web)
    assert expected["0.80"][0] > expected["0.80"][2] > 0
    page = page_of(build.recipe, has_plots=False)
    assert numbers(page, "At most removed by each cosine") == expected
    assert "no documents removed" in read(page)
    assert "Removed documents with the most new words" not in titles(page)


def test_pairs_by_cosine_equal_a_plain_count(removing):
    expected, rows_of_pairs = {}, {(row["doc_id"], row["other_id"]): row for row in removing.pairs}
    for (a, b), row in rows_of_pairs.items():
        if a < b:
            low = max(threshold for threshold in THRESHOLDS if row["cosine"] >= np.float32(threshold))
            counts = expected.setdefault(f"{low} to {float(low) + 0.01:.2f}", [0, 0, 0, 0, 0])
            both = (row, rows_of_pairs[b, a])
            kind = 2 if any(side["agrees"] for side in both) else 4
            if all(
                re.search("(^|; )(?!words:|sentence:|language:)", side["lacks"]) and side["lacks"]
                for side in both
            ):
                kind = 1
            for place in (0, kind):
                counts[place] += 1
    assert len(expected) > 5
    assert all(sum(counts[kind] for counts in expected.values()) for kind in (1, 2, 4))
    assert numbers(page_of(removing.recipe, has_plots=False), "Pairs by cosine") == dict(
        sorted(expected.items())
    )


def test_listed_contradictions_have_the_highest_cosines_and_the_facts_of_both(removing):
    contradictions = table_of(removing.recipe, "contradictions")
    contradictions.sort(key=lambda row: (-row["cosine"], row["doc_id"], row["other_id"]))
    lacks = {(row["doc_id"], row["other_id"]): row["lacks"] for row in removing.pairs}
    page = page_of(removing.recipe, has_plots=False)
    chapter = read(page.partition("<h2>Contradictions</h2>")[2].partition("<h2>")[0])
    shown = [(int(a), int(b)) for a, b in re.findall(r"document (\d+) \(\w+\) and (\d+) \(", chapter)]
    assert shown == [(row["doc_id"], row["other_id"]) for row in contradictions[:LISTED]]
    for a, b in shown:
        assert lacks[a, b] in chapter
        assert lacks[b, a] in chapter
    assert "in 1984" in chapter


def test_statistics_of_the_report_do_not_look_like_a_running_build(removing):
    page_of(removing.recipe, has_plots=False)
    assert any(path.startswith("work/pair_stats/") for path in removing.recipe.folder.files("work"))
    assert orphans_of(removing.recipe)  # raises Denied while a build writes files


def test_manifest_and_card_have_the_account(removing):
    account = published_manifest(removing.recipe.folder).semantic["pairs"]
    pairs, removed = len(removing.pairs) // 2, len(removing.removed)
    contradictions = len(table_of(removing.recipe, "contradictions"))
    assert (account.confirmed.pairs, account.contradictions, account.removed) == (
        pairs,
        contradictions,
        removed,
    )
    assert account.confirmed.proposed.documents == len(removing.tokens)
    card = " ".join(published(removing.recipe).read("README.md").decode().split())
    assert f"{pairs} pairs confirmed with a cosine of 0.8 or more, {contradictions} contradictions" in card
    assert f"{removed} documents removed" in card


def test_removed_documents_with_the_most_new_words_are_shown(removing):
    most = sorted(removing.removed, key=lambda row: (-row["novel"], row["doc_id"]))[:5]
    page = page_of(removing.recipe, has_plots=False)
    chapter = read(page.partition("<h2>Removed documents with the most new words</h2>")[2])
    shown = re.findall(r"document (\d+) \(\w+\) and (\d+) \(", chapter)
    assert [(int(a), int(b)) for a, b in shown] == [(row["doc_id"], row["kept_doc_id"]) for row in most]
    assert f"{most[0]['novel']:.1%} new 3-grams" in chapter


def test_explain_states_the_cosines_of_a_removed_document(removing):
    row = max(removing.removed, key=lambda row: row["novel"])
    explanation = explain(removing.recipe, str(row["doc_id"]))
    sentence = decision(explanation)
    assert (
        f"is {row['cosine']:.3f} by the confirming model and {row['proposed_cosine']:.3f} by the" in sentence
    )
    assert f"lacks {row['novel']:.1%} of its 3-grams of words." in sentence
    assert not explanation.similar


def test_find_by_the_model_of_a_round_finds_the_proposed_pairs(removing, monkeypatch):
    monkeypatch.setattr(nearest_meaning, "TEXTS_AT_ONCE", 7)
    texts = {
        row["doc_id"]: row["text"] for name in ("good", "web") for row in table_of(removing.recipe, name)
    }
    kept = [row for row in removing.pairs if {row["doc_id"], row["other_id"]} <= {*texts}]
    doc_id, number = Counter(row["doc_id"] for row in kept).most_common(1)[0]
    found = nearest_in_meaning(removing.recipe, texts[doc_id], "pairs", most=len(texts))
    cosines = {near.doc_id: near.cosine for near in found}
    assert {*cosines} == {*texts}
    assert cosines[doc_id] == pytest.approx(1)
    expected = {row["other_id"]: row["proposed_cosine"] for row in kept if row["doc_id"] == doc_id}
    assert number == len(expected) > 2
    assert {other: cosines[other] for other in expected} == pytest.approx(expected)
    assert sorted(cosines.values(), reverse=True) == [near.cosine for near in found]
    with pytest.raises(BadRequest, match=r"pairs2 is neither .* a folder of pairs; there are pairs"):
        nearest_in_meaning(removing.recipe, "a text", "pairs2")


def test_explain_lists_the_pairs_of_a_kept_document(removing, capsys):
    removed = {row["doc_id"] for row in removing.removed}
    by_document = {}
    for row in removing.pairs:
        by_document.setdefault(row["doc_id"], []).append(row)
    kept = {doc_id: found for doc_id, found in by_document.items() if doc_id not in removed}
    doc_id = next(i for i, found in kept.items() if any(row["relation"] == "contradiction" for row in found))
    expected = sorted(kept[doc_id], key=lambda row: (-row["cosine"], row["other_id"]))
    explanation = explain(removing.recipe, str(doc_id))
    assert [other.place.doc_id for other in explanation.similar] == [row["other_id"] for row in expected[:10]]
    assert explanation.similar_count == len(expected)
    print_explanation(explanation)
    out = capsys.readouterr().out
    first = next(row for row in expected if row["relation"] == "contradiction")
    (back,) = (row for row in by_document[first["other_id"]] if row["other_id"] == doc_id)
    assert f"cosine {first['cosine']:.3f}, contradiction" in out
    assert f"the other document lacks {first['lacks']}" in out
    assert f"this document lacks {back['lacks']}" in out


@pytest.mark.slow
def test_chapters_fit_a_browser_and_escape_texts(families, tmp_path, browser):
    import random

    corpus = families.elsewhere(tmp_path)
    text = family(random.Random(5), 1)[0].partition(" of it")[0]
    pair = {str(year): f"{text} <i id=bad>of</i> it in {year}" for year in (1990, 1991)}
    write_rows(tmp_path / "in" / "web.parquet", rows(**pair))
    corpus.recipe["sources"][1]["files"] = [str(tmp_path / "in/web.parquet")]
    build = built(corpus, scope="global", remove=True)
    page_of(build.recipe)
    for size in ({"width": 390, "height": 844}, {"width": 1280, "height": 844}):
        page = new_page(browser, viewport=size)
        page.goto(f"file://{tmp_path}/out/small/report.html")
        page.get_by_role("heading", name="Removals by cosine").wait_for()
        assert page.locator("#bad").count() == 0
        width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert width <= 0
        page.get_by_role("heading", name="Contradictions").wait_for()
        assert "<i id=bad>" in page.locator("body").text_content()
        page.close()
