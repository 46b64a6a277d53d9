"""Ids and counts as other libraries read them: no id is rounded, and sums of tokens do not overflow."""

import json
from io import BytesIO

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest
import zstandard
from small_corpus import SOURCES as DOCUMENTS
from small_corpus import STEPS, Corpus, build_here, edited, prose, rows, write_rows

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.publish.export_planning import ExportOptions
from zyda_flows.tasks.publish.exporting import Export
from zyda_flows.tasks.storage.folder import Folder

SOURCES = ("best", "middle", "worst")
FAR = 2**60 + 1  # float64 has only multiples of 256 in this range
IDS = ("doc_id", "cluster_id", "cluster_id2", "kept_doc_id", "reference")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, compiled):
    """Return a corpus of two rounds whose last source has a column of nullable integers."""
    corpus = Corpus(tmp_path_factory.mktemp("ids"))
    paths = [
        dict(row, reference=FAR + i if i % 2 else None) for i, row in enumerate(DOCUMENTS["worst-1.arrow"])
    ]
    write_rows(corpus.folder / "in/worst-1.arrow", [dict(row, source="theirs") for row in paths])
    write_rows(
        corpus.folder / "in/worst-2.arrow",
        [dict(row, reference=None, source="theirs") for row in rows(alike=edited(prose("last alone"), 2))],
    )
    rounds = [{"scope": "global"}, {"scope": "global", "bands": 9, "rows": 13}]
    recipe = corpus.load(dedup=rounds, documents=STEPS)
    build_here(recipe)
    return recipe


def exact(recipe, place):
    """Read a table of the corpus with pyarrow, which keeps the types of the files."""
    return ds.dataset(f"{recipe.folder.url}/published/{place}").to_table()


@pytest.mark.parametrize("place", [*SOURCES, "removed", "clusters", "audit"])
@pytest.mark.parametrize("reader", ["pandas", "duckdb"])
def test_no_id_is_rounded(recipe, place, reader):
    table, folder = exact(recipe, place), f"{recipe.folder.url}/published/{place}"
    frame = (
        pd.read_parquet(folder)
        if reader == "pandas"
        else duckdb.read_parquet(f"{folder}/**/*.parquet", union_by_name=True).order("doc_id").df()
    )
    ids = [name for name in IDS if name in table.column_names]
    assert ids
    for name in ids:
        values = sorted(table[name].to_pylist(), key=str)
        assert sorted((None if value is pd.NA else int(value) for value in frame[name]), key=str) == values


def test_doc_ids_are_never_null_and_single_documents_have_own_clusters(recipe):
    removed = exact(recipe, "removed")
    assert removed["kept_doc_id"].null_count
    tables = [exact(recipe, source) for source in SOURCES]
    for table in [removed, *tables]:
        assert table["cluster_id"].null_count == 0
        assert table["cluster_id"].to_pandas().dtype == np.uint64
    assert any((table["cluster_size"].to_numpy() == 1).any() for table in tables)
    for table in tables:
        is_alone = table["cluster_size"].to_numpy() == 1
        assert (table["cluster_id"].to_numpy() == table["doc_id"].to_numpy())[is_alone].all()
        assert table["cluster_id2"].null_count == 0


@pytest.mark.parametrize("place", [*SOURCES, "removed"])
def test_sums_of_counts_do_not_overflow_in_polars(recipe, place):
    schema = pl.from_arrow(exact(recipe, place)).schema
    for name in {"n_tokens", "cluster_size", "cluster_sources", "cluster_size2"} & {*schema}:
        counts = pl.Series(name, [2**32 - 1, 2**32 - 1], schema[name])
        assert counts.sum() == 2**33 - 2
        assert counts.to_frame().select(pl.sum(name)).item() == 2**33 - 2


def test_every_document_has_its_source_and_a_source_column_of_the_input(recipe):
    for source in SOURCES:
        assert set(exact(recipe, source)["source"].to_pylist()) == {source}
    assert set(exact(recipe, "worst")["source_source"].to_pylist()) == {"theirs", None}


def test_ids_in_json_are_strings_with_as_strings(recipe, tmp_path):
    to = tmp_path / "to"
    options = ExportOptions(as_strings=("doc_id", "cluster_id", "reference"))
    Export(recipe, Folder(str(to)), options).write(lambda jobs: [job() for job in jobs])
    for source in SOURCES:
        content = b"".join(
            zstandard.ZstdDecompressor().decompressobj().decompress(value.read_bytes())
            for value in sorted((to / source).glob("*.zst"))
        )
        as_javascript = [json.loads(line, parse_int=float) for line in content.splitlines()]
        table = exact(recipe, source)
        for name in {"doc_id", "cluster_id", "reference"} & {*table.column_names}:
            expected = [None if value is None else str(value) for value in table[name].to_pylist()]
            assert [row[name] for row in as_javascript] == expected
            frame = pd.read_json(BytesIO(content), lines=True, dtype=False)
            assert [None if pd.isna(value) else value for value in frame[name]] == expected
        assert all(type(row["n_tokens"]) is float for row in as_javascript)
    card = (to / "README.md").read_text()
    assert "name: doc_id\n    dtype: string" in card.replace("  - ", "")
    for wrong, fault in [
        ({"as_strings": ("text",)}, "--as-strings text: expected an exported column of integers"),
        ({"as_strings": ("no",)}, "--as-strings no: expected"),
        ({"as_strings": ("doc_id",), "columns": ("text",)}, "--as-strings doc_id: expected"),
        ({"as_strings": ("doc_id",), "format": "parquet"}, "--as-strings is for JSON Lines"),
    ]:
        with pytest.raises(BadInput, match=fault):
            Export(recipe, Folder(str(tmp_path / "wrong")), ExportOptions(**wrong))
    with pytest.raises(BadInput, match="another export"):
        Export(recipe, Folder(str(to)), ExportOptions())
