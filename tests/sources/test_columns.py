"""The columns of a source: values are unchanged, with any types in other files of the source."""

import base64
import json
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import build_here, kept_names, table_of, write_rows

from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.sources import columns, json_columns
from zyda_flows.tasks.sources.columns import conform, decode_table, decoded_schema, is_json, unify
from zyda_flows.tasks.sources.file_rows import arrow_chunk
from zyda_flows.tasks.sources.formats.jsonl import parse_line
from zyda_flows.tasks.sources.type_unification import PER_SECOND, ValueRanges, find_value_ranges

numbers = st.one_of(
    st.integers(-3, 3), st.integers(-(2**70), 2**70), st.sampled_from([2**53, 2**53 + 1, 2**63, 2**64 - 1, -(2**63)]),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=5))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
json_rows = st.lists(st.fixed_dictionaries({}, optional={"x": values, "y": values}), min_size=1, max_size=6)


def put_together(tables):
    """Convert tables like the shards of a source in a build."""
    schema = unify(
        [table.schema for table in tables], sum((find_value_ranges(table) for table in tables), ValueRanges())
    )
    return schema, pa.concat_tables([conform(table, schema) for table in tables])


def same(given, found):
    """Compare values; an object may have gained fields that are null."""
    if isinstance(given, dict) and isinstance(found, dict):
        return all(same(given.get(name), found.get(name)) for name in {*given, *found})
    if isinstance(given, list) and isinstance(found, list):
        return len(given) == len(found) and all(map(same, given, found))
    if isinstance(given, bool) or isinstance(found, bool):
        return given is found
    return given == found


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(st.lists(json_rows, min_size=1, max_size=4))
def test_json_values_are_unchanged_beside_values_of_other_types(chunks):
    lines = [[json.dumps({"text": "t", **row}).encode() for row in rows] for rows in chunks]
    tables = []
    for chunk in lines:
        found = [parse_line(line, "text") for line in chunk]
        tables.append(json_columns.table_of(found))
    schema, table = put_together(tables)
    for name in ("x", "y"):
        given = [row.get(name) for rows in chunks for row in rows]
        found = table.column(name).to_pylist() if name in table.column_names else [None] * len(given)
        if name in table.column_names and is_json(schema.field(name)):
            found = [None if value is None else json.loads(value) for value in found]
        assert all(map(same, given, found)), (given, found)


ARRAYS = {
    "int64": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)).map(lambda v: pa.array(v, pa.int64())),
    "uint64": st.lists(st.none() | st.integers(0, 2**64 - 1)).map(lambda v: pa.array(v, pa.uint64())),
    "int8": st.lists(st.none() | st.integers(-128, 127)).map(lambda v: pa.array(v, pa.int8())),
    "small": st.lists(st.integers(0, 99)).map(lambda v: pa.array(v, pa.int64())),
    "floats": st.lists(st.none() | st.floats(allow_nan=False)).map(lambda v: pa.array(v, pa.float64())),
    "float32": st.lists(st.floats(width=32, allow_nan=False)).map(lambda v: pa.array(v, pa.float32())),
    "strings": st.lists(st.none() | st.text()).map(lambda v: pa.array(v, pa.string())),
    "large": st.lists(st.text()).map(lambda v: pa.array(v, pa.large_string())),
    "views": st.lists(st.none() | st.text()).map(lambda v: pa.array(v, pa.string_view())),
    "words": st.lists(st.none() | st.text()).map(lambda v: pa.array(v, pa.string()).dictionary_encode()),
    "runs": st.lists(st.text()).map(lambda v: pa.compute.run_end_encode(pa.array(v, pa.string()))),
    "lists": st.lists(st.lists(st.integers(-(2**60), 2**60))).map(lambda v: pa.array(v, pa.list_(pa.int64()))),
    "float lists": st.lists(st.lists(st.floats(allow_nan=False))).map(lambda v: pa.array(v, pa.list_(pa.float64()))),
    "bytes": st.lists(st.binary()).map(lambda v: pa.array(v, pa.binary())),
    "bools": st.lists(st.none() | st.booleans()).map(lambda v: pa.array(v, pa.bool_())),
    "nulls": st.lists(st.none()).map(lambda v: pa.array(v, pa.null())),
    "us": st.lists(st.datetimes()).map(lambda v: pa.array(v, pa.timestamp("us"))),
    "s": st.lists(st.integers(-(10**11), 10**11)).map(lambda v: pa.array(v, pa.timestamp("s"))),
    "ns": st.lists(st.integers(-(2**63), 2**63 - 1)).map(lambda v: pa.array(v, pa.timestamp("ns"))),
    "dates": st.lists(st.dates()).map(lambda v: pa.array(v, pa.date32())),
    "decimals": st.lists(st.integers(-99, 99)).map(lambda v: pa.array(list(map(Decimal, v)), pa.decimal128(9, 2))),
}  # fmt: skip


def comparable(array):
    """Return values in comparable types: times as nanoseconds."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        scale = PER_SECOND["ns"] // PER_SECOND[kind.unit]
        return [None if n is None else n * scale for n in array.cast(pa.int64()).to_pylist()]
    return array.to_pylist()


@settings(deadline=None, max_examples=400)
@given(st.lists(st.one_of(*ARRAYS.values()), min_size=1, max_size=3))
def test_arrow_values_are_unchanged_with_other_types_in_other_files(arrays):
    tables = [decode_table(pa.table({"x": array})) for array in arrays]
    assert [table.schema for table in tables] == [decoded_schema(pa.schema([("x", a.type)])) for a in arrays]
    schema, table = put_together(tables)
    if is_json(schema.field("x")):
        given = [value for array in arrays for value in columns.array_as_json(array).to_pylist()]
    else:
        given = [value for table in tables for value in comparable(table.column("x").combine_chunks())]
    assert comparable(table.column("x").combine_chunks()) == given


def test_json_text_holds_the_whole_value():
    for array, expected in (
        (pa.array([float("nan"), float("inf"), float("-inf"), 1.5]), ["NaN", "Infinity", "-Infinity", 1.5]),
        (pa.array([b"\xff\x00"]), [base64.b64encode(b"\xff\x00").decode()]),
        (pa.array([datetime(1500, 1, 1, 2, 3, 4, 5)]), ["1500-01-01 02:03:04.000005"]),
        (pa.array([1], pa.timestamp("ns")), ["1970-01-01 00:00:00.000000001"]),
        (pa.array([date(2020, 1, 2)]), ["2020-01-02"]),
        (pa.array([timedelta(seconds=3)], pa.duration("us")), ["3000000us"]),
        (pa.array([Decimal("1.50")]), ["1.50"]),
        (pa.array([[1, None]]), [[1, None]]),
        (pa.array([{"a": float("nan")}, None]), [{"a": "NaN"}, None]),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), [[{"key": "k", "value": 1}]]),
        (pa.array([pa.MonthDayNano([1, 2, 3])]), [[1, 2, 3]]),
        (pa.array(["ä\u2028"]), ["ä\u2028"]),
    ):
        found = columns.array_as_json(array).to_pylist()
        assert [None if one is None else json.loads(one) for one in found] == expected
    assert json_columns.as_json_text([2**80, {"a": -(2**70)}]).to_pylist() == [
        str(2**80),
        f'{{"a":{-(2**70)}}}',
    ]


def test_whole_numbers_of_any_size_keep_their_digits(corpus):
    large = [2**64, 2**53 + 1, -(2**63) - 1, 10**30]
    write_rows(corpus.folder / "in/x-0.jsonl", [{"text": "one", "id": n} for n in large])
    write_rows(corpus.folder / "in/x-1.jsonl", [{"text": "two", "id": 1.5}])
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x-*.jsonl"}])
    build_here(recipe)
    assert [json.loads(row["id"]) for row in table_of(recipe, "x")] == [*large, 1.5]


def test_integers_and_floats_agree_as_floats_where_that_is_exact(corpus):
    for name, first in (("exact", 2**53), ("inexact", 2**53 + 1)):
        for i, array in enumerate((pa.array([first, 1]), pa.array([0.5, None]))):
            table = pa.table({"text": ["a", "b"], "id": array})
            pq.write_table(table, corpus.folder / f"in/{name}-{i}.parquet")
        recipe = corpus.load(name=name, sources=[{"name": "x", "files": f"in/{name}-*.parquet"}])
        build_here(recipe)
        found = [row["id"] for row in table_of(recipe, "x")]
        assert found == ([2.0**53, 1.0, 0.5, None] if name == "exact" else [str(first), "1", "0.5", None])


def test_encodings_make_no_other_column(corpus):
    for i, kind in enumerate((pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view())):
        table = pa.table({"text": [f"text {i}"], "lang": pa.array(["en"], pa.string()).cast(kind)})
        path = str(corpus.folder / f"in/x-{i}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x-*.arrow", "keep": "lang = 'en'"}])
    build_here(recipe)
    assert [row["lang"] for row in table_of(recipe, "x")] == ["en"] * 3


ODD = {
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None]),
    "runs": pa.compute.run_end_encode(pa.array(["a", "a"])),
    "runs of numbers": pa.compute.run_end_encode(pa.array([1, 1])),
    "no fields": pa.array([{}, None], pa.struct([])),
    "no fields inside": pa.array([[{}], None], pa.list_(pa.struct([]))),
    "union": pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["b"])]),
    "list of words": pa.array([["a"], ["b"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    "list view": pa.array([[1], [2]], pa.list_view(pa.int64())),
    "half": pa.array([1.5, 2.5], pa.float16()),
    "decimal256": pa.array([Decimal(1), None], pa.decimal256(60, 2)),
    "duration": pa.array([timedelta(seconds=1), None]),
    "null": pa.nulls(2),
    "views in an object": pa.array([{"a": "x"}, None], pa.struct([("a", pa.string_view())])),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
def test_type_that_parquet_does_not_have_is_converted_and_published(corpus, odd):
    table = pa.table({"text": ["one", "two"], "odd": ODD[odd]})
    with (
        pa.OSFile(str(corpus.folder / "in/x.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x.arrow"}])
    build_here(recipe)
    assert len(table_of(recipe, "x")) == 2


def calls_of(function, *arguments):
    """Call a function; return its result, and how many others it has called."""
    calls = []
    sys.setprofile(lambda frame, event, about: calls.append(event) if "call" in event else None)
    try:
        return function(*arguments), len(calls)
    finally:
        sys.setprofile(None)


def test_objects_with_many_keys_are_json_text_without_work_per_key():
    found = [{"text": "t", "links": {f"http://{i}/{j}": j for j in range(50)}} for i in range(1000)]
    json_columns.table_of(found)  # it may import modules at the first call
    table, calls = calls_of(json_columns.table_of, found)
    assert calls < 10 * len(found)
    assert is_json(table.schema.field("links"))
    assert json.loads(table.column("links")[7].as_py()) == found[7]["links"]
    few = json_columns.table_of([{"links": {f"k{j}": {"a": j}}} for j in range(90)])
    assert not is_json(few.schema.field("links"))
    first = pa.schema([("x", pa.struct([(f"a{i}", pa.int64()) for i in range(150)]))])
    other = pa.schema([("x", pa.struct([(f"b{i}", pa.int64()) for i in range(150)]))])
    assert is_json(unify([first, other]).field("x"))


def test_rows_with_data_for_fields_are_refused(corpus):
    found = [{"text": "t", **{f"k{i}-{j}": 1 for j in range(50)}} for i in range(100)]
    write_rows(corpus.folder / "in/x.jsonl", found)
    with pytest.raises(
        ZydaError, match=r"source x, file .*x\.jsonl: its rows have fields of more than 2,000 names"
    ):
        build_here(corpus.load(sources=[{"name": "x", "files": "in/x.jsonl"}]))


@pytest.mark.parametrize("depth", [40, 150, 250, 900, 1100, 100_000])
def test_deep_values_are_kept_or_set_aside(corpus, depth):
    deep = '{"a":' * depth + "1" + "}" * depth
    lines = '{"text": "good", "name": "good"}\n{"text": "deep", "name": "deep", "meta": ' + deep + "}\n"
    (corpus.folder / "in/x.jsonl").write_text(lines)
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x.jsonl", "on_bad_rows": "set_aside"}])
    build_here(recipe)
    assert kept_names(recipe) == ({"good", "deep"} if depth < 200 else {"good"})
    kept = [row for row in table_of(recipe, "x") if row["name"] == "deep"]
    assert all(row["meta"] == deep for row in kept)
    assert len(table_of(recipe, "set_aside")) == 1 - len(kept)


def test_corpus_of_a_corpus_of_a_corpus_builds(corpus):
    sources = [{"name": "best", "files": "in/best-*.parquet"}]
    for generation in range(4):
        recipe = corpus.load(name=f"g{generation}", sources=sources)
        build_here(recipe)
        sources = [{"name": "best", "files": f"out/g{generation}/published/best/*.parquet"}]
    rows = table_of(recipe, "best")
    assert {"doc_id", "source_doc_id", "source_source_doc_id", "source_source_source_doc_id"} <= set(rows[0])
    assert [row["doc_id"] for row in rows] == [row["source_doc_id"] for row in rows]


def test_names_that_we_need_are_changed_alike_in_every_file(corpus):
    for i, more in enumerate(({}, {"source_doc_id": "s"}, {"source_source_doc_id": "ss"})):
        write_rows(corpus.folder / f"in/x-{i}.jsonl", [{"text": f"t{i}", "doc_id": f"d{i}", **more}])
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x-*.jsonl"}])
    build_here(recipe)
    found = table_of(recipe, "x")
    assert [row["source_doc_id"] for row in found] == ["d0", "d1", "d2"]
    assert [row["source_source_doc_id"] for row in found] == [None, "s", None]
    assert [row["source_source_source_doc_id"] for row in found] == [None, None, "ss"]


def test_valid_parquet_rows_are_not_converted_to_python(monkeypatch):
    table = pa.table({"text": ["a"] * 9, "n": range(9), "meta": [{"a": 1.5}] * 9})
    monkeypatch.setattr(columns, "array_as_json", None)
    assert arrow_chunk(table, {}, "text", 0).table.schema.names == ["text", "n", "meta"]


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (pa.array([b"ab", b"\xff\xff"], pa.binary(2)), pa.array([b"abc", None], pa.binary()), pa.large_binary()),
        (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), pa.array([Decimal("-2.125")], pa.decimal128(7, 3)), pa.decimal128(7, 3)),
        (pa.array([Decimal("12345.6")], pa.decimal128(6, 1)), pa.array([Decimal("0.001")], pa.decimal128(3, 3)), pa.decimal128(8, 3)),
    ],
)  # fmt: skip
def test_binary_values_and_decimals_of_several_widths_are_unchanged(one, other, kind):
    schema, table = put_together([pa.table({"x": one}), pa.table({"x": other})])
    assert schema.field("x").type == kind
    assert table.column("x").to_pylist() == [*one.to_pylist(), *other.to_pylist()]
    wide = pa.schema([("x", pa.decimal128(38, 0))])
    assert is_json(unify([wide, pa.schema([("x", pa.decimal128(5, 1))])]).field("x"))  # 39 digits
