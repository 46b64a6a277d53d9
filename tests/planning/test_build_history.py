"""Test the records of a corpus's builds, and the section of the report with changes since the previous build."""

import json
import re
import shutil

import pytest
from report_pages import cells_of, page_of, read, titles
from small_corpus import Corpus, build_here, contents, edited, prose, published, rows, table_of, write_rows

from zyda_flows.tasks.accounts.published import published_manifest
from zyda_flows.tasks.lookup.verify_and_clean import orphans_of
from zyda_flows.tasks.planning.build_history import HISTORY, builds_of, record_build
from zyda_flows.tasks.storage.records import BODY

SECTION = "Changes since the previous build"


def published_counts(recipe):
    """Return (documents, tokens, kept documents, kept tokens) by source, counted from the published tables."""
    counts = {}
    removed = table_of(recipe, "removed")
    for source in recipe.sources:
        kept_tokens = [row["n_tokens"] for row in table_of(recipe, source.name)]
        removed_tokens = [row["n_tokens"] for row in removed if row["source"] == source.name]
        counts[source.name] = (
            len(kept_tokens + removed_tokens),
            sum(kept_tokens + removed_tokens),
            len(kept_tokens),
            sum(kept_tokens),
        )
    return counts


def changed_recipe(corpus):
    """Add a file to source best, change a file of middle, remove a file of worst; return a recipe with other bands."""
    write_rows(corpus.folder / "in/best-2.parquet", rows(new=prose("new"), like=edited(prose("new"))))
    write_rows(corpus.folder / "in/middle.jsonl.gz", rows(only=prose("only", 400)))
    (corpus.folder / "in/worst-1.arrow").unlink()
    sources = [{**source} for source in corpus.recipe["sources"]]
    sources[2]["files"] = "in/worst-*.jsonl.zst"
    return corpus.load(sources=sources, dedup={"bands": 16, "rows": 8, "scope": "global"})


@pytest.mark.slow
def test_report_compares_with_the_previous_build(corpus):
    recipe = corpus.load()
    build_here(recipe)
    assert SECTION not in titles(page_of(recipe, has_plots=False))
    counts_before = published_counts(recipe)
    recipe = changed_recipe(corpus)
    build_here(recipe)
    page, counts_now = page_of(recipe, has_plots=False), published_counts(recipe)
    assert SECTION in titles(page)
    table = page[page.index(SECTION) :]
    for title, prefix, sources in (
        ("All sources", "", list(counts_now)),
        *(("By source", f"{source}, ", [source]) for source in counts_now),
    ):
        cells_by_row = cells_of(table, title)
        for place, documents in (("start", 0), ("end", 2)):
            cells = []
            for column in (documents, documents + 1):
                old, new = (
                    sum(counts[source][column] for source in sources)
                    for counts in (counts_before, counts_now)
                )
                cells += [f"{old:,}", f"{new:,}", f"{new - old:+,}" if new != old else "0"]
            assert cells_by_row[f"{prefix}{place}"] == cells
    files = cells_of(page, "Files of the sources")
    assert [re.sub(r": /.*/", " ", cell) for cell in files["best"]] == ["1 best-2.parquet", "0", "0"]
    assert [re.sub(r": /.*/", " ", cell) for cell in files["middle"]] == ["0", "1 middle.jsonl.gz", "0"]
    assert [re.sub(r": /.*/", " ", cell) for cell in files["worst"]] == ["0", "0", "1 worst-1.arrow"]
    text = read(page)
    assert "-  bands: 8\n-  scope: across\n+  bands: 16\n+  scope: global\n" in text


def test_report_shows_added_and_removed_sources(corpus):
    build_here(corpus.load(sources=corpus.recipe["sources"][:2]))
    recipe = corpus.load(sources=corpus.recipe["sources"][1:])
    build_here(recipe, replace=True)
    cells_by_row = cells_of(
        page_of(recipe, has_plots=False)[page_of(recipe, has_plots=False).index(SECTION) :], "By source"
    )
    assert cells_by_row["best, end"][:3] == ["6", "", "-6"]
    count = len(table_of(recipe, "worst"))
    assert cells_by_row["worst, end"][:3] == ["", f"{count}", f"+{count}"]


def test_build_without_changes_adds_no_record(corpus):
    recipe = corpus.load()
    build_here(recipe)
    record = builds_of(recipe.folder)
    files_before = contents(recipe)
    build_here(recipe)
    page_of(recipe, has_plots=False)
    assert builds_of(recipe.folder) == record
    assert contents(recipe) == files_before
    assert not [path for path in files_before if HISTORY in path]


def test_number_of_records_is_limited_and_records_are_not_orphans(corpus):
    for width in range(20, 24):
        recipe = corpus.load(dedup={"width": width})
        build_here(recipe)
    record_build(recipe.folder, published_manifest(recipe.folder), (), most=3)
    assert [build.number for build in builds_of(recipe.folder)] == [3, 4, 5]
    assert [build.recipe["dedup"]["width"] for build in builds_of(recipe.folder)] == [22, 23, 23]
    assert not [orphan for orphan in orphans_of(recipe) if orphan.path.startswith(HISTORY)]


DAMAGES = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "changed": lambda path: path.write_bytes(path.read_bytes().replace(b"documents", b"Documents")),
    "deleted": lambda path: path.unlink(),
    "another version": lambda path: path.write_bytes(without_ledger(path.read_bytes())),
    "no record": lambda path: path.with_name("notes.txt").write_text("something"),
}


def without_ledger(content):
    """Return a record without the field `ledger`, with a valid checksum."""
    from hashlib import sha256

    body = json.loads(content.partition(BODY)[2][:-1])
    del body["ledger"]
    body = json.dumps(body).encode()
    return b'{"sha256":"' + sha256(body).hexdigest().encode() + BODY + body + b"}"


@pytest.fixture(scope="module")
def built_thrice(tmp_path_factory):
    """Return a corpus built with three widths. Tests copy its files."""
    corpus = Corpus(tmp_path_factory.mktemp("sources")).elsewhere(tmp_path_factory.mktemp("thrice"))
    for width in (20, 21, 22):
        build_here(corpus.load(dedup={"width": width}))
    return corpus


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_damaged_record_fails_neither_build_nor_report(built_thrice, tmp_path, damage, number):
    shutil.copytree(built_thrice.folder / "out", tmp_path / "out")
    corpus = built_thrice.elsewhere(tmp_path)
    recipe = corpus.load(dedup={"width": 22})
    files_before = contents(recipe)
    DAMAGES[damage](corpus.folder / f"out/small/{HISTORY}/{number:06d}.json")
    page = page_of(recipe, has_plots=False)
    assert (SECTION in titles(page)) is True
    is_reported = damage != "no record" and number == 2
    assert ("cannot be read: it is unknown which files" in page) is is_reported
    build_here(recipe)
    assert contents(recipe) == files_before
    recipe = corpus.load(dedup={"width": 23})
    build_here(recipe)
    assert "-  width: 22\n+  width: 23" in read(page_of(recipe, has_plots=False))
    assert published(recipe).files("")
