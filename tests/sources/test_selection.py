"""Which columns of a source are carried."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import Corpus, build_here, prose, rows, table_of, write_rows

from zyda_flows.tasks.errors import BadInput, BadRecipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.columns import MAX_COLUMNS
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import inspect
from zyda_flows.tasks.sources.selection import Selection

DOCUMENTS = rows(**{f"n{i}": prose(f"n{i}", 60) for i in range(40)})
WIDE = [{**row, "url": f"https://a.b/{i}", "metadata": {"n": i}} for i, row in enumerate(DOCUMENTS)]


@pytest.fixture(params=["parquet", "jsonl", "arrow"])
def wide(request, tmp_path):
    """Give a function that builds a source with more columns, in each of the formats."""
    corpus = Corpus(tmp_path)
    write_rows(tmp_path / f"wide/a.{request.param}", WIDE)

    def build(**fields):
        sources = [{"name": "wide", "files": f"wide/*.{request.param}", **fields}]
        recipe = corpus.load(sources=sources, storage=str(tmp_path / f"out{len(fields)}"))
        build_here(recipe)
        return recipe

    build.format = request.param
    return build


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "carried"),
    [
        ({}, {"name", "stars", "url", "metadata"}),
        ({"columns": ["url", "stars"]}, {"url", "stars"}),
        ({"columns": []}, set()),
        ({"without": "metadata"}, {"name", "stars", "url"}),
        ({"columns": ["url"], "keep": "url <> 'https://a.b/3'"}, {"url"}),
    ],
)
def test_columns_are_selected_by_the_recipe(wide, fields, carried):
    found = table_of(wide(**fields), "wide")
    assert {*found[0]} == {
        "doc_id",
        "source",
        "text",
        "n_tokens",
        "cluster_id",
        "cluster_size",
        "cluster_sources",
        *carried,
    }
    assert len(found) == len(WIDE) - ("keep" in fields)


@pytest.mark.parametrize("fields", [{"columns": ["urll"]}, {"without": ["metadta"]}])
def test_column_that_is_not_there_is_a_fault_where_files_name_theirs(wide, fields, caplog):
    ((field, (name,)),) = fields.items()
    fault = f"{field}: no column {name!r}; there are 'name', 'stars', 'text', 'url', 'metadata'"
    if wide.format == "jsonl":
        wide(**fields)
        assert fault in caplog.text
    else:
        with pytest.raises(BadRecipe, match=fault):
            wide(**fields)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"columns": ["a"], "without": ["b"]}, "columns and without: give one of them"),
        ({"without": ["text"]}, "without: text is the column with the text"),
    ],
)
def test_columns_that_contradict_each_other_are_a_fault(fields, fault):
    with pytest.raises(ValueError, match=fault):
        Source(name="far", files=("a.jsonl",), **fields)


def test_column_that_only_another_file_has_is_no_fault_of_a_later_build(corpus):
    """A later build inspects new files and one known file, which is not always the same."""
    write_rows(corpus.folder / "wide/a.parquet", DOCUMENTS)
    write_rows(corpus.folder / "wide/b.parquet", WIDE)
    sources = [{"name": "wide", "files": "wide/*.parquet", "columns": ["url"]}]
    build_here(corpus.load(sources=sources))
    recipe = corpus.load(sources=sources, max_loss=0.9)
    build_here(recipe)
    assert {row["url"] for row in table_of(recipe, "wide")} == {None, *(row["url"] for row in WIDE)}


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_file_of_too_many_columns_is_refused_before_it_is_read_unless_a_recipe_names_some(tmp_path, ending):
    table = pa.table({"text": ["a"], **{f"c{i}": [i] for i in range(MAX_COLUMNS)}})
    path = tmp_path / f"wide.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    (file,) = list_files(Source(name="wide", files=str(path)))
    with pytest.raises(
        BadInput, match=r"wide\.\w+: it has 2,001 columns, expected at most 2,000; name some in `columns`"
    ):
        inspect("wide", file, "text", 1 << 30, may_be_bad=True)
    chosen = inspect("wide", file, "text", 1 << 30, Selection(only=("c7",)), may_be_bad=True)
    assert chosen.table_schema.names == ["text", "c7"]
