"""Fields that a file calls required (not null): another file may lack them, and Arrow files may have nulls in them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, prose, table_of

STRUCT = pa.struct([pa.field("a", pa.string(), nullable=False)])
KINDS = {
    "top": (pa.string(), "x"),
    "struct": (STRUCT, {"a": "x"}),
    "list": (pa.list_(pa.field("item", pa.string(), nullable=False)), ["x"]),
    "large_list": (pa.large_list(pa.field("item", STRUCT, nullable=False)), [{"a": "x"}]),
    "fixed_list": (pa.list_(pa.field("item", pa.int64(), nullable=False), 2), [1, 2]),
    "map": (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), [("k", 1)]),
    "deep": (pa.struct([pa.field("l", pa.list_(pa.field("item", STRUCT, nullable=False)), nullable=False)]),
             {"l": [{"a": "x"}]}),
}  # fmt: skip


def file_with(path, name, **columns):
    """Write a file with a document. columns: a type and a value each, of fields that are required."""
    fields = [pa.field("text", pa.string(), nullable=False)]
    fields += [pa.field(column, kind, nullable=False) for column, (kind, _) in columns.items()]
    row = {"text": prose(name)} | {column: value for column, (_, value) in columns.items()}
    table = pa.Table.from_pylist([row], pa.schema(fields))
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_column_with_required_fields_is_null_where_a_file_lacks_it(corpus, ending):
    file_with(corpus.folder / f"in/x-0.{ending}", "first", **KINDS)
    file_with(corpus.folder / f"in/x-1.{ending}", "second", top=KINDS["top"])
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x-*"}])
    build_here(recipe)
    first, second = table_of(recipe, "odd")
    assert {name: first[name] for name in KINDS} == {name: value for name, (_, value) in KINDS.items()}
    assert {name: second[name] for name in KINDS} == {**dict.fromkeys(KINDS), "top": "x"}
    folder = recipe.folder.folder("published")
    with folder.open(next(path for path in folder.files("odd") if path.endswith(".parquet"))) as file:
        schema = pq.read_schema(file)
    assert all(schema.field(name).nullable for name in KINDS)


def with_nulls():
    """Return columns of two rows whose second value is null at some level, where the type forbids it."""
    strings = pa.array(["x", None])
    structs = pa.StructArray.from_arrays([strings], fields=list(STRUCT))
    offsets = pa.array([0, 1, 2], pa.int32())
    item = pa.field("item", pa.string(), nullable=False)
    return {
        "top": strings,
        "struct": structs,
        "list": pa.ListArray.from_arrays(offsets, strings, type=pa.list_(item)),
        "list_of_structs": pa.ListArray.from_arrays(
            offsets, structs, type=pa.list_(pa.field("item", STRUCT, nullable=False))
        ),
        "map": pa.MapArray.from_arrays(
            offsets,
            pa.array(["k", "l"]),
            strings,
            type=pa.map_(pa.string(), pa.field("value", pa.string(), False)),
        ),
        "dictionary": strings.dictionary_encode(),
        "view": strings.cast(pa.string_view()),
    }


NULLS = {
    "top": ["x", None], "struct": [{"a": "x"}, {"a": None}], "list": [["x"], [None]],
    "list_of_structs": [[{"a": "x"}], [{"a": None}]], "map": [[("k", "x")], [("l", None)]],
    "dictionary": ["x", None], "view": ["x", None],
}  # fmt: skip


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_nulls_in_required_fields_of_arrow_are_nulls_and_a_null_text_is_a_bad_row(corpus, make):
    columns = {"text": pa.array([prose("a"), prose("b")]), **with_nulls()}
    schema = pa.schema([pa.field(name, column.type, nullable=False) for name, column in columns.items()])
    with make(corpus.folder / "in/x-0.arrow", schema) as writer:
        writer.write_batch(pa.record_batch([*columns.values()], schema=schema))
    alone = pa.schema([pa.field("text", pa.string(), nullable=False)])
    with make(corpus.folder / "in/x-1.arrow", alone) as writer:
        writer.write_batch(pa.record_batch([pa.array(["third", None])], schema=alone))
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x-*.arrow"}], on_bad_rows="set_aside")
    ledger = build_here(recipe)
    found = table_of(recipe, "odd")
    assert {name: [row[name] for row in found[:2]] for name in NULLS} == NULLS
    assert [row["reason"] for row in table_of(recipe, "set_aside")] == ["'text' is null"]
    assert ledger.of("ingest", "odd").documents == 3
