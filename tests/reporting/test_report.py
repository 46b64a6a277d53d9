"""Test the content of the report."""

import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from report_pages import cells_of, page_of, plain_counts, read, titles
from small_corpus import (
    Corpus,
    build_here,
    edited,
    prose,
    published,
    rows,
    table_of,
    write_rows,
)

from zyda_flows.flows.reporting.report_about import about_sections
from zyda_flows.flows.reporting.report_markdown import as_markdown
from zyda_flows.flows.reporting.report_page import sections
from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.lookup.report_data import findings_of
from zyda_flows.tasks.publish import differences
from zyda_flows.tasks.publish.differences import MOST_COMPARED, changes


def markdown_of(recipe):
    findings = findings_of(recipe)
    return as_markdown(recipe, findings, [*sections(findings), *about_sections(findings)])


@pytest.mark.slow
def test_report_is_a_single_page_with_all_plots_and_no_external_files(labelled):
    recipe = labelled.load()
    build_here(recipe)
    page = page_of(recipe)
    assert titles(page) == [
        "Tokens", "Composition", "Lengths", "Sizes of duplicate clusters", "Clusters shared by sources",
        "Similarity of removed documents to the kept ones",
        "The removed documents that are least similar to the kept ones", "The largest clusters", "Judges",
        "Quality labels",
    ]  # fmt: skip
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 6  # the few sizes of clusters are shown as a table
    for drawing in drawings:
        ground = ET.fromstring(drawing).find(".//{*}g[@id='patch_1']/{*}path")
        assert "fill: #ffffff" in ground.get("style")  # legible on any background
    assert not re.search(r"<(script|link|img)\b", page)
    assert "mathdefault" not in page  # unrendered TeX of matplotlib
    assert ">1k</text>" in page


def test_head_shows_corpus_time_and_parameters(corpus):
    recipe = corpus.load(
        dedup={"bands": 16, "rows": 8, "verify": {"containment": 0.8}, "scope": "global", "prefer": "longest"}
    )
    build_here(recipe)
    page, manifest = page_of(recipe, has_plots=False), published_manifest(recipe.folder)
    text_of_page = read(page)
    modified = (corpus.folder / "out/small/published/manifest.json").stat().st_mtime
    assert time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(modified)) in text_of_page
    assert len(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text_of_page)) == 2
    assert f"<code>{published(recipe).url}</code>" in page
    assert manifest.tokenizer["digest"] in text_of_page
    assert "signatures of 128 values in 16 bands of 8 rows" in text_of_page
    half = (1 - 0.5 ** (1 / 16)) ** (1 / 8)
    assert f"half of the pairs with a Jaccard similarity of {half:.3f} share a bucket" in text_of_page
    assert "kept first: longest; verified: containment of 0.8 or more" in text_of_page
    for name in ("zyda-flows", "Python", "prefect", "dask", "pyarrow"):
        assert re.search(rf"{name} \d", text_of_page)
    assert "files:\n  - in/best-*.parquet" in text_of_page
    links = re.findall(r'<a href="(.*?)"', page)
    assert {"published/README.md", "published/ledger.json", "published/removed/"} <= set(links)
    assert all((corpus.folder / "out/small" / link).exists() for link in links)


def test_stages_without_removals_have_no_bar(corpus):
    recipe = corpus.load()
    ledger = build_here(recipe)
    bars = re.search(r"<svg.*?</svg>", page_of(recipe), re.DOTALL).group(0)
    assert {"start", "after removals", "after filter"} <= set(re.findall(r">([^<>]+)</text>", bars))
    assert not any(f"after {stage}" in bars for stage in ledger.stages if not ledger.removed(stage).documents)
    share = ledger.of("removals").tokens / ledger.of("ingest").tokens
    assert f"{share:.1%}" in bars


def test_corpus_without_clusters_has_no_chapters_about_them(corpus):
    recipe = corpus.load(sources=corpus.recipe["sources"][:1], dedup={"exact": "text", "scope": "global"})
    write_rows(corpus.folder / "in/best-0.parquet", rows(one=prose("one"), two=prose("two")))
    (corpus.folder / "in/best-1.parquet").unlink()
    build_here(recipe)
    assert titles(page_of(recipe, has_plots=False)) == ["Tokens", "Composition", "Lengths"]


@pytest.mark.slow
def test_each_round_of_several_has_its_chapters(labelled):
    recipe = labelled.load(dedup=[{"exact": "normalised", "scope": "global"}, {"scope": "global"}])
    build_here(recipe)
    page, findings = page_of(recipe, has_plots=False), findings_of(recipe)
    for dedup_round, place in zip(findings.rounds, ("clusters", "clusters2"), strict=True):
        members, *_ = plain_counts(recipe, place)
        assert dedup_round.clusters.clusters == len(members) > 0
        assert f"Sizes of duplicate clusters, round {dedup_round.number}" in titles(page)
    assert "texts with the same words in the same order; scope: global" in read(page)
    assert "round 2" in next(title for title in titles(page) if title.startswith("Similarity of removed"))
    assert "clusters of round 2 with several labelled documents" in page


@pytest.mark.slow
def test_report_describes_the_published_corpus_and_not_a_changed_recipe(labelled):
    recipe = labelled.load(dedup=[{"exact": "normalised", "scope": "global"}, {"scope": "global"}])
    build_here(recipe)
    page = titles(page_of(recipe, has_plots=False))
    assert titles(page_of(labelled.load(), has_plots=False)) == page
    assert titles(page_of(labelled.load(sources=labelled.recipe["sources"][:2]), has_plots=False)) == page


def test_largest_clusters_are_shown_with_differences(corpus):
    recipe = corpus.load(sources=[{"name": "best", "files": "in/best-*.parquet"}], dedup={"scope": "global"})
    text = prose("large", 400)
    write_rows(corpus.folder / "in/best-2.parquet", rows(a=text, b=text, c=edited(text, 1)))
    build_here(recipe)
    text_of_page = read(page_of(recipe, has_plots=False))
    assert re.search(r"cluster \d+: 3 documents \(best 3\)", text_of_page)
    word = text.split(" ")[200]
    assert f"\n-{word}\n+edit0\n" in text_of_page
    assert "best-2.parquet, row 0" in text_of_page
    assert re.search(r"from that to best, .*best-2\.parquet, row 2", text_of_page)
    (corpus.folder / "in/best-2.parquet").unlink()
    text_of_page = read(page_of(recipe, has_plots=False))
    assert f"\n-{word}\n+edit0\n" not in text_of_page
    assert re.search(r"\(.*best-2\.parquet.*\)", text_of_page)


def test_huge_texts_are_compared_near_their_first_difference(corpus, monkeypatch):
    compared = []

    def note_units(units, others):
        compared.extend([units, others])
        return changes(units, others)

    monkeypatch.setattr(differences, "changes", note_units)
    text = " ".join(prose(f"part {i}", 300) for i in range(1400))
    other = text[: len(text) // 2] + "OTHER" + text[len(text) // 2 :]
    assert len(text) > 2_000_000
    sources = [{"name": "best", "files": "in/huge.parquet"}]
    write_rows(corpus.folder / "in/huge.parquet", rows(first=text, second=other))
    recipe = corpus.load(sources=sources, dedup={"scope": "global"})
    build_here(recipe)
    page = page_of(recipe, has_plots=False)
    (removed,) = table_of(recipe, "removed")
    difference = "\n".join(explain(recipe, str(removed["doc_id"])).diff)
    assert compared
    assert max(sum(map(len, units)) for units in compared) <= MOST_COMPARED
    for shown in (read(page), difference):
        assert "OTHER" in shown
        assert re.search(r"@@ the first 1,\d{3},\d{3} characters are the same @@", shown)
    assert len(page) < 500_000


def test_markup_in_a_text_is_escaped(corpus):
    hostile = "<script>alert(1)</script> | `x` ![x](y) " + prose("hostile")
    write_rows(corpus.folder / "in/best-2.parquet", rows(a=hostile, b=edited(hostile)))
    recipe = corpus.load()
    build_here(recipe)
    page = page_of(recipe, has_plots=False)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in markdown_of(recipe)


@pytest.mark.slow
def test_report_of_many_sources_plots_the_largest(tmp_path):
    corpus = Corpus(tmp_path)
    for i in range(40):
        words = 40 + 10 * i
        documents = rows(own=prose(f"own {i}", words), same=prose("same"))
        write_rows(tmp_path / f"in/many-{i}.jsonl", documents)
    sources = [{"name": f"source{i}", "files": f"in/many-{i}.jsonl"} for i in range(40)]
    recipe = corpus.load(sources=sources)
    build_here(recipe)
    page = page_of(recipe)
    tokens, _, lengths, shared, *_ = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert [*cells_of(page, "Clusters by size").values()] == [["1"] * 10 + ["30"]]
    for drawing in (tokens, lengths):
        names = set(re.findall(r">(source\d+|\d+ others)</text>", drawing))
        assert names == {f"source{i}" for i in range(30, 40)} | {"30 others"}
    assert len(re.findall(r">source\d+</text>", shared)) == 2 * 20
    assert "The 20 sources with most clusters, of 40." in page
    assert len(cells_of(page, "By source: 41 rows")) == 41
    assert len(markdown_of(recipe).encode()) < 1_000_000


def test_markdown_has_tables_and_plots_and_no_local_links(labelled):
    recipe = labelled.load()
    build_here(recipe)
    text = markdown_of(recipe)
    assert len(re.findall(r"!\[[^]]*\]\(data:image/svg\+xml;base64,[A-Za-z0-9+/=]+\)", text)) == 11
    assert f"`{recipe.folder.url}/report.html`" in text
    assert not re.search(r"\]\(<?(file:|/)", text)
    assert re.search(r"^\| total \|", text, re.MULTILINE)
    for paragraph in text.split("\n\n"):
        kinds = {line[:2] for line in paragraph.strip().splitlines()}
        assert len(kinds) == 1
        assert len(paragraph.strip().splitlines()) == 1 or kinds <= {"| ", "- "}


def test_report_flow_shows_the_report_in_the_dashboard(server, corpus):
    from prefect.client.orchestration import get_client

    from zyda_flows.flows.dashboard.artifact_keys import artifact_key
    from zyda_flows.flows.report import report

    recipe = corpus.load()
    build_here(recipe)
    url = report(str(corpus.path))
    assert Path(url).read_text().startswith("<!doctype html>")
    with get_client(sync_client=True) as client:
        artifacts = [
            artifact
            for artifact in client.read_artifacts(limit=200)
            if artifact.key == artifact_key(recipe, "report")
        ]
    (report_artifact,) = artifacts
    assert (report_artifact.type, report_artifact.description) == ("markdown", "The report")
    assert "![Tokens](data:image/svg+xml;base64," in report_artifact.data
