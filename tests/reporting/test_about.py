"""Test the page about a corpus: its figures equal counts of the published tables."""

import re
from collections import Counter
from pathlib import Path

import pytest
from report_pages import cells_of, page_of, read, titles
from small_corpus import build_here, edited, prose, published, rows, table_of, write_rows

from zyda_flows.flows.bandings import run_bandings
from zyda_flows.tasks.stage.results import HERE


def about_of(recipe):
    """Write the report of a corpus without plots; return the content of about.html."""
    page_of(recipe, has_plots=False)
    return Path(recipe.folder.url, "about.html").read_text(encoding="utf-8")


@pytest.fixture
def crossed(corpus):
    """Return a corpus with duplicates within and between its sources."""
    for i in range(8):
        text = prose(f"crossed {i}")
        write_rows(corpus.folder / f"in/best-{i + 4}.parquet", rows(**{f"b{i}": text}))
        write_rows(
            corpus.folder / f"in/worst-{i + 4}.arrow",
            rows(**{f"w{i}_{j}": edited(text, j + 1) for j in range(i % 3 + 1)}),
        )
    corpus.recipe["sources"][2]["component"] = {"path": "worst-([0-9]+)"}
    return corpus


@pytest.mark.slow
def test_figures_equal_the_published_tables(crossed):
    recipe = crossed.load(dedup={"scope": "global"})
    build_here(recipe)
    run_bandings(recipe, [0.5, 0.8], HERE)
    page = about_of(recipe)
    assert titles(page) == [
        "Own duplicates", "Sources of duplicates: documents that would be removed with scope global", "Similarities",
        "Lengths of duplicates", "False positives by length", "Several bandings", "Components of worst",
    ]  # fmt: skip
    clusters = {row["doc_id"]: row["cluster_id"] for row in table_of(recipe, "clusters")}
    source_of = {
        row["doc_id"]: origin.name for origin in recipe.sources for row in table_of(recipe, origin.name)
    }
    pairs = Counter()
    for row in table_of(recipe, "removed"):
        if row["stage"] == "removals":
            assert clusters[row["doc_id"]] == clusters[row["kept_doc_id"]]
            pairs[row["source"], source_of.get(row["kept_doc_id"], "middle")] += 1
    matrix = cells_of(page, "Documents that would be removed with scope global")
    names = re.search(r"Documents that would be removed with scope global.*?<tr>(.*?)</tr>", page, re.DOTALL)[
        1
    ]
    columns = re.findall(r"<th>(.*?)</th>", names)[1:-1]
    for source, cells in matrix.items():
        counts = [int(cell.split(" ")[0]) for cell in cells]
        assert counts[:-1] == [pairs[source, column] for column in columns]
        assert counts[-1] == sum(counts[:-1])
        shares = [float(cell.split("(")[1].rstrip("%)")) for cell in cells[:-1] if "(" in cell]
        assert sum(shares) == pytest.approx(100, abs=0.2)
    assert sum(pairs.values()) == sum(int(cells[-1]) for cells in matrix.values())
    audit = table_of(recipe, "audit")
    similar = cells_of(page, "Pairs by similarity")
    assert sum(int(cells[0]) for cells in similar.values()) == len(audit)
    last = [row["jaccard"] for row in audit if row["jaccard"] >= 0.95]
    assert int(similar["0.95 to 1.00"][0]) == len(last)
    components = cells_of(page, "By component")
    documents = Counter(row["component"] for row in table_of(recipe, "worst"))
    assert {name: int(cells[1]) for name, cells in components.items()} == {
        name: documents[name] for name in components
    }
    assert cells_of(page, "False positives by threshold").keys() >= {"0.5 (25 x 5)"}


@pytest.mark.slow
def test_about_page_is_linked_and_self_contained_and_labels_its_axes(crossed):
    recipe = crossed.load(dedup={"scope": "global"})
    build_here(recipe)
    assert '<a href="about.html">' in page_of(recipe)
    page = Path(recipe.folder.url, "about.html").read_text(encoding="utf-8")
    assert '<a href="report.html">' in page
    assert not re.search(r"<(script|link|img)\b", page)
    assert "source of kept documents" in page
    assert page.count("<svg") == 4
    assert "Several bandings" not in read(page)


@pytest.mark.slow
def test_damaged_record_of_bandings_is_reported_and_skipped(crossed, caplog):
    recipe = crossed.load(dedup={"scope": "global"})
    build_here(recipe)
    run_bandings(recipe, [0.5], HERE)
    recipe.folder.write("bandings.json", recipe.folder.read("bandings.json")[:-9])
    assert "Several bandings" not in about_of(recipe)
    assert "zyda params --try makes it again" in caplog.text


@pytest.mark.slow
def test_changed_sources_since_the_bandings_were_tried_are_reported(crossed):
    recipe = crossed.load(dedup={"scope": "global"})
    build_here(recipe)
    run_bandings(recipe, [0.5], HERE)
    assert "have changed since" not in read(about_of(recipe))
    write_rows(crossed.folder / "in/best-99.parquet", rows(new=prose("new")))
    build_here(recipe)
    assert "have changed since" in read(about_of(recipe))
    assert published(recipe).exists("components.parquet")


@pytest.mark.slow
def test_bandings_of_other_shingles_are_reported(crossed):
    recipe = crossed.load(dedup={"scope": "global"})
    build_here(recipe)
    run_bandings(recipe, [0.5], HERE)
    assert "has changed since" not in read(about_of(recipe))
    other = crossed.load(dedup={"scope": "global", "shingle": "words", "width": 5})
    build_here(other)
    assert "`dedup` of the recipe has changed since" in read(about_of(other))
