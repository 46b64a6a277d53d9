"""Bare quotes in tables with tabs, folders of files as Spark writes them, and values that YAML reads otherwise."""

import csv
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, table_of
from web_archives import read_file

from zyda_flows.tasks.errors import BadInput, ZydaError
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.listing import list_files

ROWS = [
    ["1", 'a 5" pipe'],
    ["2", '"Well," she said.'],
    ["3", '6"'],
    ["4", '"'],
    ["5", 'five "six" seven'],
    ["6", '"closed"'],
    ["7", '"open'],
    ["8", "plain"],
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_quotes_of_a_table_with_tabs_that_has_no_quoting_are_characters(tmp_path, end):
    (tmp_path / "x.tsv").write_bytes(end.join("\t".join(row) for row in [["id", "text"], *ROWS]).encode())
    documents, bad, _ = read_file(tmp_path / "x.tsv")
    wanted = [[row[0], "closed" if row[1] == '"closed"' else row[1]] for row in ROWS]
    assert [[row["id"], row["text"]] for row in documents] == wanted
    assert not bad


def test_table_with_tabs_that_has_quoting_is_read_as_it_was_written(tmp_path):
    rows = [
        ["id", "text"],
        ["1", 'tab\there, "quoted"'],
        ["2", "two\nlines"],
        ["3", 'a 5" pipe'],
        ["4", 'one\n"two"\n'],
    ]
    written = io.StringIO()
    csv.writer(written, "excel-tab", lineterminator="\n").writerows(rows)
    (tmp_path / "x.tsv").write_text(written.getvalue())
    documents, bad, _ = read_file(tmp_path / "x.tsv")
    assert [[row["id"], row["text"]] for row in documents] == rows[1:]
    assert not bad


def test_quote_within_a_field_of_csv_is_a_character(tmp_path):
    (tmp_path / "x.csv").write_text('id,text\n1,a 5" pipe\n2,plain\n3,6" and 7"\n')
    assert [row["text"] for row in read_file(tmp_path / "x.csv")[0]] == ['a 5" pipe', "plain", '6" and 7"']


def write_folder(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"text": [f"text of {name}"]}), folder / name)
        (folder / name).with_name("_SUCCESS").touch()
        (folder / name).with_name(f".{(folder / name).name}.crc").write_bytes(b"crc")


@pytest.mark.parametrize("pattern", ["in/odd*.parquet", "in/odd.parquet", "in/odd*/**"])
def test_folder_of_parquet_as_spark_writes_it_is_read(corpus, pattern):
    names = ["odd.parquet/part-0.snappy.parquet", "odd.parquet/year=2020/part-1.parquet"]
    write_folder(corpus.folder / "in", *names)
    (corpus.folder / "in/odd.parquet/_SUCCESS").unlink()
    (corpus.folder / "in/odd.parquet/year=2020/_SUCCESS").unlink()
    for crc in (corpus.folder / "in").rglob(".*.crc"):
        crc.unlink() if pattern.endswith("**") else None
    recipe = corpus.load(sources=[{"name": "odd", "files": pattern}])
    build_here(recipe)
    assert {row["text"] for row in table_of(recipe, "odd")} == {f"text of {name}" for name in names}


def test_folder_beside_files_is_not_passed_over_in_silence(tmp_path):
    write_folder(tmp_path, "x.parquet/part-0.parquet", "y.parquet")
    assert [file.name for file in list_files(Source(name="s", files=str(tmp_path / "*.parquet")))] == [
        "x.parquet/part-0.parquet",
        "y.parquet",
    ]
    (tmp_path / "x.parquet/part-0.parquet").rename(tmp_path / "x.parquet/part-0.pq")
    with pytest.raises(BadInput, match=r"x\.parquet is a folder in which no file ends with \.parquet"):
        list_files(Source(name="s", files=str(tmp_path / "*.parquet")))


def test_language_that_yaml_reads_as_false_raises(corpus):
    path = corpus.path
    corpus.write()
    path.write_text(path.read_text() + "languages: [en, no]\n")
    with pytest.raises(
        ZydaError, match=r"languages\[1\]: expected a text; YAML does not read no as a text, so write"
    ):
        load_recipe(str(path))
