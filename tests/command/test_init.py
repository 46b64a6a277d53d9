"""Test that `zyda init` writes valid recipes for files of many kinds, and that these build all documents."""

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

# For each kind: function that writes the files, the argument of zyda init, and expected fields without a default.
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
def working_folder(tmp_path, monkeypatch):
    """Return an empty folder that is the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_recipe_for_all_kinds_of_files_builds_all_documents(working_folder, compiled):
    """Check the order of sources, the guessed columns, and the number of published documents."""
    for make, _, _ in KINDS.values():
        make(working_folder)
    recipe = written_recipe(*(name for _, name, _ in KINDS.values()))
    written = yaml.safe_load((working_folder / "recipe.yaml").read_text())
    assert len(recipe.sources) == len(KINDS)
    for source, as_written, (kind, (_, _, expected)) in zip(
        recipe.sources, written["sources"], KINDS.items(), strict=True
    ):
        written_fields = {name: as_written[name] for name in ("text", "url", "format") if name in as_written}
        written_fields |= {"extract": source.documents[0].extract} if source.documents else {}
        assert written_fields == expected, kind
    build_here(recipe)
    counts = {source.name: len(table_of(recipe, source.name)) for source in recipe.sources}
    assert counts == dict.fromkeys(counts, 3)


def test_similar_files_are_grouped_into_a_source(working_folder):
    """Numbers in names are ignored; formats, columns and folders separate sources."""
    for number in range(12):
        write_rows(working_folder / f"in/wiki-{number:03}.parquet", [{"text": prose(f"w{number}")}])
    write_rows(working_folder / "in/news.parquet", [{"headline": "Short", "story": prose("news")}])
    write_rows(working_folder / "more/b.jsonl", [{"text": prose("b")}])
    (working_folder / "in/README.md").write_text("About these files.")
    (working_folder / "in/picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    recipe = written_recipe("in", "more")
    files = {source.name: len(list_files(source)) for source in recipe.sources}
    assert files == {"wiki": 12, "news": 1, "more": 1} or files == {"news": 1, "wiki": 12, "more": 1}
    text = (working_folder / "recipe.yaml").read_text()
    assert "files: in/wiki-*.parquet" in text
    assert "picture.png: its ending is that of no format" in text
    assert "README.md" in text
    recipe = written_recipe("in/wiki-001.parquet", "in/wiki-002.parquet", "--replace")
    assert [len(list_files(source)) for source in recipe.sources] == [2]


NAMES = [
    "with space", "a: b", "#text", "- text", "'q'", '"', "yes", "null", "1.5", "été", "{x}", "*x", "a\nb", "%", "! t", "@",
]  # fmt: skip


def test_column_names_are_quoted_for_yaml(working_folder):
    for number, name in enumerate(NAMES):
        write_rows(
            working_folder / f"f{chr(97 + number)}.jsonl",
            [{name: prose(name), f"{name} id": "x", "lang": "de"}],
        )
    recipe = written_recipe(*(f"f{chr(97 + number)}.jsonl" for number in range(len(NAMES))))
    assert [source.text for source in recipe.sources] == NAMES


PATHS = [
    "a b.jsonl", "a*b.jsonl", "aXb.jsonl", "a[1].jsonl", "#a.jsonl", "it's.jsonl", 'say "x".jsonl', "语料.jsonl", "a?c.jsonl",
    "./-x.jsonl", "~x.jsonl", "a: b.jsonl", "été/x*/q[1]/in.jsonl", "!x.jsonl", "&x.jsonl", "a\nb.jsonl",
]  # fmt: skip


def test_paths_with_special_characters_match_a_single_file(working_folder):
    for number, path in enumerate(PATHS):
        write_rows(
            working_folder / path, [{f"text {number}": prose(path)}]
        )  # different columns keep the sources apart
    recipe = written_recipe(*PATHS)
    assert len(recipe.sources) == len(PATHS)
    urls = [[file.url for file in list_files(source)] for source in recipe.sources]
    assert urls == [[str(working_folder / path)] for path in PATHS]


def test_every_commented_option_of_a_recipe_is_valid(working_folder):
    """A line that begins with # without a space is an option; removing the # enables it."""
    parquet(working_folder)
    written_recipe("flat.parquet")
    text = (working_folder / "recipe.yaml").read_text()
    options = re.sub(r"^( *)#(?=\S)", r"\1", text, flags=re.MULTILINE)
    enabled = Counter(re.findall(r"^ *(?:- )?(\w+):", options, re.MULTILINE))
    enabled.subtract(re.findall(r"^ *(?:- )?(\w+):", text, re.MULTILINE))
    assert {name for name, count in enabled.items() if count} == {
        "on_bad_rows", "languages", "license", "documents", "license_filter", "clean", "filter", "decontaminate",
        "columns", "keep", "exempt",
    }  # fmt: skip
    evaluated = [{"question": prose("q", 20), "choices": ["a", "b"], "answer": 0}]
    pq.write_table(pa.Table.from_pylist(evaluated), working_folder / "mmlu.parquet")
    (working_folder / "recipe.yaml").write_text(options)
    checked = zyda_here("check", "recipe.yaml")
    assert checked.returncode == 0, checked.stderr
    recipe = load_recipe("recipe.yaml")
    assert recipe.sources[0].keep == "\"lang\" = 'en' AND \"published\" >= '2021-03-02'"
    assert recipe.documents[0].license_filter.keep == ("CC-BY-4.0",)
    assert "# id: column 'id', 3 different values in 3 rows" in text
