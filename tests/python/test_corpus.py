"""Test that `zyda.open` reads the same rows as pyarrow, and that errors about damage name the file."""

import json
import subprocess
import sys

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, zyda_here

import zyda_flows as zyda
from zyda_flows.tasks.storage.tables import FOOTERS

SOURCES = ("best", "middle", "worst")


@pytest.fixture(scope="module")
def opened(built_once):
    return zyda.open(built_once.path)


def read_by_pyarrow(corpus, *places):
    """Return the rows of folders of the published corpus, read by pyarrow and sorted by doc_id."""
    published = corpus.folder / "out/small/published"
    files = [file for place in places for file in sorted((published / place).rglob("*.parquet"))]
    assert files
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: row["doc_id"])


def without_nulls(rows):
    """Return rows without null values: columns missing in a source are null in a table of several sources."""
    present = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return sorted(present, key=lambda row: row["doc_id"])


def test_documents_equal_the_rows_read_by_pyarrow(built_once, opened):
    expected = read_by_pyarrow(built_once, *SOURCES)
    assert opened.documents().count_rows() == len(expected) > 5
    assert without_nulls(opened.documents().to_table().to_pylist()) == without_nulls(expected)
    batches = opened.documents().to_batches()
    assert sum(batch.num_rows for batch in batches) == len(expected)
    assert opened.documents().head(2).to_pylist() == opened.documents().to_table().slice(0, 2).to_pylist()


def test_columns_and_filter_select_the_same_rows_as_pyarrow(built_once, opened):
    expected = [row for row in read_by_pyarrow(built_once, *SOURCES) if row["n_tokens"] > 100]
    long = opened.documents(["text", "doc_id"], pc.field("n_tokens") > 100)
    assert 0 < len(expected) == long.count_rows() < opened.documents().count_rows()
    assert long.schema.names == ["text", "doc_id"]
    texts = {row["doc_id"]: row["text"] for row in long.to_table().to_pylist()}
    assert texts == {row["doc_id"]: row["text"] for row in expected}
    assert opened.documents(sources=["middle"]).count_rows() == len(read_by_pyarrow(built_once, "middle"))


def test_ids_are_exact_in_pandas_columns_with_nulls(opened):
    """A 64-bit float represents only 53 bits of an id exactly."""
    rows = opened.removed(["doc_id", "kept_doc_id"])
    expected = rows.to_table()
    assert expected["kept_doc_id"].null_count
    frame = rows.to_pandas()
    for name in ("doc_id", "kept_doc_id"):
        assert [None if value is pd.NA else int(value) for value in frame[name]] == expected[name].to_pylist()
    assert len(repr(rows)) < 300


def test_removed_documents_equal_the_rows_read_by_pyarrow(built_once, opened):
    expected = read_by_pyarrow(built_once, "removed")
    assert without_nulls(opened.removed().to_table().to_pylist()) == without_nulls(expected)
    removed_by_keep = opened.removed(["doc_id"], pc.field("reason") == "keep")
    assert removed_by_keep.count_rows() == sum(row["reason"] == "keep" for row in expected) == 1
    sources_of_worst = opened.removed(["source"], sources=["worst"]).to_table().column("source").to_pylist()
    assert sources_of_worst == [row["source"] for row in expected if row["source"] == "worst"]


def test_other_libraries_read_rows_as_a_stream(opened):
    rows = opened.documents(["source", "n_tokens"])
    tokens = duckdb.sql("SELECT sum(n_tokens) FROM rows").fetchall()[0][0]
    assert tokens == rows.to_pandas()["n_tokens"].sum() == opened.tokens
    assert pa.table(rows).num_rows == rows.dataset.count_rows()


def test_ledger_and_reasons_equal_the_published_and_printed_tables(built_once, opened):
    published = built_once.folder / "out/small/published"
    assert opened.ledger.to_pylist() == pq.read_table(published / "ledger.parquet").to_pylist()
    assert opened.reasons.to_pylist() == pq.read_table(published / "reasons.parquet").to_pylist()
    printed = json.loads(zyda_here("ledger", str(built_once.path), "--format", "json").stdout)
    assert {(line["stage"], line["source"]) for line in printed} == {
        (row["stage"], row["source"]) for row in opened.ledger.to_pylist()
    }
    assert (opened.name, opened.sources) == ("small", SOURCES)
    assert opened.tokens == sum(row["n_tokens"] for row in read_by_pyarrow(built_once, *SOURCES))
    assert opened.manifest.recipe["tokenizer"] == opened.tokenizer
    assert repr(opened).startswith(f"<corpus small: {opened.documents().count_rows()} documents, ")


def test_explain_names_the_document_that_was_kept(built_once, opened):
    name = pc.field("name")
    (kept_id,) = opened.documents(["doc_id"], name == "best_of_all").to_table().column("doc_id").to_pylist()
    duplicates = (
        opened.removed(["doc_id"], pc.field("kept_doc_id") == kept_id).to_table().column("doc_id").to_pylist()
    )
    explanation = opened.explain(duplicates[0])
    assert (explanation.reason, explanation.kept.doc_id) == ("duplicate", kept_id)
    assert str(explanation.place.row) in zyda_here("explain", str(built_once.path), str(duplicates[0])).stdout
    text = opened.documents(["text"], name == "best_of_all").to_table().column("text")[0].as_py()
    assert opened.nearest(text)[0].doc_id == kept_id


def test_corpus_is_opened_by_folder_published_folder_and_mapping(built_once, opened, monkeypatch):
    for place in (built_once.folder / "out/small", f"file://{built_once.folder}/out/small/published"):
        by_folder = zyda.open(place)
        assert by_folder.ledger == opened.ledger
        with pytest.raises(zyda.BadInput, match="open the corpus by its recipe"):
            by_folder.explain(1)
    monkeypatch.chdir(built_once.folder)
    assert zyda.open({**built_once.recipe, "storage": "out"}).documents().count_rows() > 5
    assert zyda.open(f"file://{built_once.path}", storage="out").ledger == opened.ledger


def test_corpus_in_a_store_is_read(built_once, s3, monkeypatch):
    import s3fs

    s3fs.S3FileSystem().put(str(built_once.folder / "out/small/published"), f"{s3}/opened", recursive=True)
    rows = zyda.open(f"{s3}/opened").documents(["doc_id"], pc.field("n_tokens") > 100)
    local = zyda.open(built_once.path).documents(["doc_id"], pc.field("n_tokens") > 100)
    assert rows.to_table() == local.to_table()
    assert rows.count_rows() == local.count_rows() > 0


def test_invalid_arguments_raise_zyda_errors(opened, tmp_path):
    with pytest.raises(zyda.BadInput, match=r"FieldRef.Name.nope.; the columns are doc_id, source,"):
        opened.documents(["nope"])
    with pytest.raises(zyda.BadInput, match=r"FieldRef.Name.nope.; the columns are doc_id, source,"):
        opened.documents(filter=pc.field("nope") > 1)
    with pytest.raises(zyda.BadInput, match="no source 'nope'; the sources are best, middle, worst"):
        opened.documents(sources=["nope"])
    with pytest.raises(zyda.BadInput, match="expected a list of names"):
        opened.documents("text")
    with pytest.raises(zyda.NoCorpus, match="no corpus is published there"):
        zyda.open(tmp_path)
    with pytest.raises(zyda.BadRecipe, match=r"nope.yaml: cannot be read: No such file"):
        zyda.open(tmp_path / "nope.yaml")
    with pytest.raises(zyda.BadRecipe, match="recipe: tokenizer: this field is required"):
        zyda.open({"name": "x"})
    assert issubclass(zyda.BadInput, zyda.ZydaError)


@pytest.fixture
def damaged(ready):
    """Return an opened corpus and the path of a published file that the test may damage."""
    FOOTERS.clear()
    return zyda.open(ready.folder / "out/small"), next(
        (ready.folder / "out/small/published/middle").glob("*")
    )


def overwrite(path, content):
    path.chmod(0o644)
    path.unlink()  # other hard links to the file keep their content
    path.write_bytes(content)


def test_missing_and_truncated_files_raise_when_rows_are_requested(damaged):
    corpus, file = damaged
    rows, content = corpus.documents(), file.read_bytes()
    overwrite(file, content[:-10])
    with pytest.raises(zyda.Denied, match=rf"middle/{file.name} has [\d,]+ bytes, expected {len(content):,}"):
        corpus.documents()
    with pytest.raises(zyda.Denied, match=rf"middle/{file.name} has "):
        rows.to_table()
    file.unlink()
    with pytest.raises(zyda.Denied, match=f"middle/{file.name} is missing"):
        corpus.documents()
    with pytest.raises(zyda.Denied, match=f"middle/{file.name} is missing"):
        list(rows.to_batches())
    with pytest.raises(zyda.Denied, match=f"middle/{file.name} is missing"):
        rows.count_rows()
    assert corpus.documents(sources=["best"]).count_rows()


def test_changed_bytes_raise_when_they_are_read(damaged):
    corpus, file = damaged
    content = bytearray(file.read_bytes())
    text = pq.ParquetFile(file).metadata.row_group(0).column(pq.read_schema(file).names.index("text"))
    content[text.data_page_offset + text.total_compressed_size - 5] ^= 1
    overwrite(file, content)
    with pytest.raises(zyda.Denied, match=f"middle/{file.name} cannot be read: .*CRC"):
        corpus.documents(["text"]).to_table()


def test_another_file_of_the_same_size_raises(damaged):
    corpus, file = damaged
    content = bytearray(file.read_bytes())
    content[-20] ^= 1  # in or near the field created_by of the footer
    overwrite(file, content)
    for read_rows in (
        lambda: corpus.documents(["doc_id"]),
        corpus.documents().to_table,
        corpus.documents().count_rows,
    ):
        FOOTERS.clear()
        with pytest.raises(zyda.Denied, match=f"middle/{file.name} has another footer than was written"):
            read_rows()


def test_column_with_two_types_can_only_be_read_by_source(corpus, tmp_path):
    for name, number in (("a", 1), ("b", "one")):
        line = json.dumps({"text": f"the text of {name} " * 20, "number": number})
        (tmp_path / f"{name}.jsonl").write_text(line)
    sources = [{"name": name, "files": f"{name}.jsonl"} for name in ("a", "b")]
    build_here(corpus.load(sources=sources))
    opened = zyda.open(corpus.path)
    with pytest.raises(zyda.BadInput, match=r"column number has different types in two sources"):
        opened.documents().to_table()
    with pytest.raises(zyda.BadInput, match=r"column number has different types in two sources"):
        opened.documents(["number"]).to_table()
    assert opened.documents(["source"]).to_table().to_pylist() == [{"source": "a"}, {"source": "b"}]
    assert opened.documents().count_rows() == 2
    assert [opened.documents(["number"], sources=[name]).to_table().to_pylist() for name in ("a", "b")] == [
        [{"number": 1}],
        [{"number": "one"}],
    ]


LIGHT = """
import sys, zyda_flows
heavy = {"prefect", "dask", "distributed", "torch", "transformers", "numba", "pyarrow", "pydantic"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert {"build", "check", "open", "ZydaError"} <= set(dir(zyda_flows)) >= set(zyda_flows.__all__)
for name in zyda_flows.__all__: getattr(zyda_flows, name)
assert not {"prefect", "torch", "transformers"} & set(sys.modules)
"""


def test_import_is_light_and_provides_all_public_names():
    subprocess.run([sys.executable, "-c", LIGHT], check=True)
