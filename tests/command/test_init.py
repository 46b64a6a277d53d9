"""`zyda init`: recipes for files of many kinds, which check passes and which build to the documents of the files."""

import gzip
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
import zstandard
from init_files import (
    PAGE,
    chinese,
    csv_in_windows,
    dump,
    eprints,
    folder_of,
    jsonl,
    nested,
    parquet,
    texts,
    tsv,
    two_strings,
    web_archive,
    wet,
    written_recipe,
)  # fmt: skip
from small_corpus import build_here, prose, table_of, write_rows, zyda_here

from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.sources.listing import list_files

pytestmark = pytest.mark.slow

# What makes the files, how they are given, and what of the source is written that is no default.
KINDS = {
    "parquet": (parquet, "flat.parquet", {"url": "link"}),
    "nested": (nested, "nested.parquet", {"text": "body", "url": "meta.url"}),
    "two strings": (two_strings, "abstracts.parquet", {"text": "abstract"}),
    "jsonl": (jsonl("plain.jsonl", "text"), "plain.jsonl", {}),
    "gzip": (jsonl("packed.jsonl.gz", "content", gzip.compress), "packed.jsonl.gz", {"text": "content"}),
    "zstd": (jsonl("small.jsonl.zst", "Content", zstandard.compress), "small.jsonl.zst", {"text": "Content"}),
    "arrow": (lambda p: write_rows(p / "a.arrow", [{"raw": t} for t in texts("arrow")]), "a.arrow", {"text": "raw"}),
    "csv with a mark and CRLF": (csv_in_windows, "table.csv", {"text": "Body"}),
    "tsv": (tsv, "tabs.tsv", {"text": "content"}),
    "texts": (folder_of("notes", ".txt"), "notes", {}),
    "markdown": (folder_of("manual", ".md", "# {0}\n\n{1}"), "manual/", {}),
    "html": (folder_of("site", ".html", PAGE), "site", {"extract": "structured"}),
    "warc": (web_archive, "crawl.warc.gz", {"extract": "structured"}),
    "wet": (wet, "plain.wet.gz", {}),
    "wikipedia": (dump, "pages.xml.bz2", {"extract": "wikitext"}),
    "arxiv": (eprints, "src.tar", {"extract": "latex"}),
    "chinese": (chinese, "zh.jsonl", {"text": "内容"}),
    "no ending": (jsonl("export", "text"), "export", {"format": "jsonl"}),
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Give a folder of this test, in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_recipes_for_all_kinds_of_files_build_to_their_documents(here, compiled):
    """One recipe for all: sources in the given order, the columns that were guessed, and each document published."""
    for make, _, _ in KINDS.values():
        make(here)
    recipe = written_recipe(*(name for _, name, _ in KINDS.values()))
    stated = yaml.safe_load((here / "recipe.yaml").read_text())
    assert len(recipe.sources) == len(KINDS)
    for source, as_written, (kind, (_, _, expected)) in zip(
        recipe.sources, stated["sources"], KINDS.items(), strict=True
    ):
        own = {name: as_written[name] for name in ("text", "url", "format") if name in as_written}
        own |= {"extract": source.documents[0].extract} if source.documents else {}
        assert own == expected, kind
    build_here(recipe)
    counts = {source.name: len(table_of(recipe, source.name)) for source in recipe.sources}
    assert counts == dict.fromkeys(counts, 3)


def test_files_that_look_alike_are_one_source_and_others_are_not(here):
    """A number in a name parts nothing; another format or other columns do, and so does another folder."""
    for number in range(12):
        write_rows(here / f"in/wiki-{number:03}.parquet", [{"text": prose(f"w{number}")}])
    write_rows(here / "in/news.parquet", [{"headline": "Short", "story": prose("news")}])
    write_rows(here / "more/b.jsonl", [{"text": prose("b")}])
    (here / "in/README.md").write_text("About these files.")
    (here / "in/picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    recipe = written_recipe("in", "more")
    files = {source.name: len(list_files(source)) for source in recipe.sources}
    assert files == {"wiki": 12, "news": 1, "more": 1} or files == {"news": 1, "wiki": 12, "more": 1}
    text = (here / "recipe.yaml").read_text()
    assert "files: in/wiki-*.parquet" in text
    assert "picture.png: its ending is that of no format" in text
    assert "README.md" in text
    recipe = written_recipe("in/wiki-001.parquet", "in/wiki-002.parquet", "--replace")
    assert [len(list_files(source)) for source in recipe.sources] == [2]


NAMES = [
    "with space", "a: b", "#text", "- text", "'q'", '"', "yes", "null", "1.5", "été", "{x}", "*x", "a\nb", "%", "! t", "@",
]  # fmt: skip


def test_names_of_columns_are_quoted_where_yaml_asks_for_it(here):
    for number, name in enumerate(NAMES):
        write_rows(
            here / f"f{chr(97 + number)}.jsonl", [{name: prose(name), f"{name} id": "x", "lang": "de"}]
        )
    recipe = written_recipe(*(f"f{chr(97 + number)}.jsonl" for number in range(len(NAMES))))
    assert [source.text for source in recipe.sources] == NAMES


PATHS = [
    "a b.jsonl", "a*b.jsonl", "aXb.jsonl", "a[1].jsonl", "#a.jsonl", "it's.jsonl", 'say "x".jsonl', "语料.jsonl", "a?c.jsonl",
    "./-x.jsonl", "~x.jsonl", "a: b.jsonl", "été/x*/q[1]/in.jsonl", "!x.jsonl", "&x.jsonl", "a\nb.jsonl",
]  # fmt: skip


def test_paths_with_marks_name_one_file_each(here):
    for number, path in enumerate(PATHS):
        write_rows(
            here / path, [{f"text {number}": prose(path)}]
        )  # in the same column they would be one source
    recipe = written_recipe(*PATHS)
    assert len(recipe.sources) == len(PATHS)
    found = [[file.url for file in list_files(source)] for source in recipe.sources]
    assert found == [[str(here / path)] for path in PATHS]


def test_every_option_of_a_recipe_can_be_chosen(here):
    """A line that begins with # and no space is one of the recipe without it."""
    parquet(here)
    written_recipe("flat.parquet")
    text = (here / "recipe.yaml").read_text()
    options = re.sub(r"^( *)#(?=\S)", r"\1", text, flags=re.MULTILINE)
    chosen = Counter(re.findall(r"^ *(?:- )?(\w+):", options, re.MULTILINE))
    chosen.subtract(re.findall(r"^ *(?:- )?(\w+):", text, re.MULTILINE))
    assert {name for name, count in chosen.items() if count} == {
        "on_bad_rows", "languages", "license", "documents", "license_filter", "clean", "filter", "decontaminate",
        "columns", "keep", "exempt",
    }  # fmt: skip
    evaluated = [{"question": prose("q", 20), "choices": ["a", "b"], "answer": 0}]
    pq.write_table(pa.Table.from_pylist(evaluated), here / "mmlu.parquet")
    (here / "recipe.yaml").write_text(options)
    checked = zyda_here("check", "recipe.yaml")
    assert checked.returncode == 0, checked.stderr
    recipe = load_recipe("recipe.yaml")
    assert recipe.sources[0].keep == "\"lang\" = 'en' AND \"published\" >= '2021-03-02'"
    assert recipe.documents[0].license_filter.keep == ("CC-BY-4.0",)
    assert "# id: column 'id', 3 different values in 3 rows" in text
