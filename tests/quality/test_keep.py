"""The `keep` of a source: allowed expressions, and errors for values that do not fit."""

import json
import re
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import build_here, kept_names, prose, table_of, write_rows

from zyda_flows.tasks.errors import BadInput, ZydaError
from zyda_flows.tasks.quality.keep import fault, keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep
from zyda_flows.tasks.sources.formats import jsonl

COLUMNS = pa.schema(
    [
        ("a", pa.int64()), ("size", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.int64())),
        ("ts", pa.timestamp("us")), ("day", pa.date32()), ("meta", pa.struct([("a", pa.int64())])),
        ("score", pa.float64()), ("ok", pa.bool_()), ("now", pa.int64()), ("dec", pa.decimal256(50, 2)),
    ]
)  # fmt: skip
BEYOND = [
    "size > avg(size)", "a >= max(a)", "first(score) > 1", "count(*) > 3", "count(distinct a) > 1", "sum(a) > 1",
    "row_number() over (order by a) < 3", "avg(a) over () > 1", "rank() over (order by a) > 1",
    "lag(a) over (order by a) > 1", "first_value(a) over (order by b) = 1", "sum(a) over (partition by b) > 1",
    "stddev(a) > 1", "quantile_cont(a, 0.5) > 1", "array_agg(a)[1] = 2", "unnest(l) > 1", "exists (select 1)",
    "a > 1 and score < median(score)", "case when a > min(a) then true else false end", "columns('.*') > 1",
]  # fmt: skip
CLOCKS = ["now() > ts", "current_timestamp > ts", "current_date > day", "CURRENT_TIME is null"]
OF_ONE_ROW = [
    "a > 1 and b in ('x', 'y')", "a % 2 = 0 or a // 3 = 1", "length(b) > 3", "b like 'a%' and not ok", "l[1] > 1",
    "meta.a > 1", "case when a > 1 then true else false end", "coalesce(a, size) between 1 and 5", "b ~ '^a.*'",
    "round(score, 1) > 0.5", "date_part('year', ts) > 2000", "ts > timestamp '2020-01-01'", "array_contains(l, 3)",
    "split_part(b, ' ', 1) = 'a'", "cast(a as string) = '1'", "b = 'now()'", "now > 3", "greatest(a, size) > 1",
    "true", "a is not null", "pow(a, 2) > 3", "b || 'x' = 'ax'",
]  # fmt: skip


@pytest.mark.parametrize("expression", BEYOND)
def test_expression_that_reads_other_rows_raises(expression):
    message = fault(expression, COLUMNS)
    assert message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("expression", CLOCKS)
def test_functions_of_the_clock_raise(expression):
    assert "is another at each build" in fault(expression, COLUMNS)


@pytest.mark.parametrize("expression", OF_ONE_ROW)
def test_expression_on_its_row_is_allowed(expression):
    assert fault(expression, COLUMNS) is None


def test_column_that_duckdb_cannot_read_is_reported_only_if_it_is_named():
    assert "column 'dec' is decimal256(50, 2), which DuckDB cannot read" in fault("dec > 1", COLUMNS)
    assert fault("a > 1", COLUMNS) is None


def test_fault_on_a_row_has_its_number_and_a_shortened_value():
    table = pa.table({"b": ["1", "2", "x" * 10_000, "4"], "a": [1, 2, 3, 4]})
    with pytest.raises(BadKeep) as raised:
        keep_mask("cast(b as int) > 1", table)
    assert raised.value.row == 2
    assert len(str(raised.value)) < 300


def test_column_of_wide_decimals_does_not_disturb_keep(corpus):
    wide = pa.array([Decimal(1), Decimal(2)], pa.decimal256(50, 2))
    pq.write_table(
        pa.table({"text": ["a b", "c d"], "name": ["x", "y"], "dec": wide}), corpus.folder / "in/d.parquet"
    )
    recipe = corpus.load(sources=[{"name": "wide", "files": "in/d.parquet", "keep": "name = 'x'"}])
    build_here(recipe)
    assert kept_names(recipe) == {"x"}


def test_answers_do_not_depend_on_the_division_into_files(corpus, monkeypatch):
    """Later parts lack the column, or have it with another type: null is not kept, numbers stay numbers."""
    monkeypatch.setattr(jsonl, "CHUNK_BYTES", 2000)
    documents = [{"name": f"n{i}", "text": prose(f"n{i}", 30)} for i in range(60)]
    for i, row in enumerate(documents):
        row |= {"score": i} if i < 20 else {"score": i + 0.5} if i < 40 else {}
    write_rows(corpus.folder / "in/x.jsonl", documents)
    for shard_mib in (1, 0.002):
        source = {"name": "x", "files": "in/x.jsonl", "keep": "score > 10"}
        recipe = corpus.load(sources=[source], name=f"by-{shard_mib}", shard_mib=shard_mib)
        build_here(recipe)
        assert kept_names(recipe) == {f"n{i}" for i in range(11, 40)}


def test_cast_that_fails_names_file_row_and_value(corpus):
    documents = [{"name": f"n{i}", "s": str(i), "text": prose(f"n{i}", 30)} for i in range(9)]
    write_rows(corpus.folder / "in/x-0.jsonl", documents)
    documents[5]["s"] = "no number"
    write_rows(corpus.folder / "in/x-1.jsonl", [{**row, "text": row["text"] + " more"} for row in documents])
    source = {"name": "x", "files": "in/x-*.jsonl", "keep": "cast(s as int) > 1"}
    recipe = corpus.load(sources=[source])
    where = (
        r"source x, file .*x-1\.jsonl, row 5 \(line 6\): keep: .* cannot be evaluated where s = 'no number'$"
    )
    with pytest.raises(BadInput, match=where):
        build_here(recipe)


def test_keep_on_a_column_that_only_some_files_have_is_evaluated(corpus):
    write_rows(corpus.folder / "in/x-0.jsonl", [{"name": "a", "text": "one"}])
    write_rows(corpus.folder / "in/x-1.jsonl", [{"name": "b", "text": "two", "score": 3}])
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x-*.jsonl", "keep": "score > 1"}])
    build_here(recipe)
    assert kept_names(recipe) == {"b"}
    write_rows(corpus.folder / "in/x-2.jsonl", [{"name": "c", "text": "three"}])
    build_here(recipe)
    assert kept_names(recipe) == {"b"}


def test_unknown_column_is_reported_once(corpus):
    for i in range(5):
        write_rows(corpus.folder / f"in/x-{i}.jsonl", [{"text": "one", "n": i}])
    with pytest.raises(ZydaError) as raised:
        build_here(corpus.load(sources=[{"name": "x", "files": "in/x-*.jsonl", "keep": "m > 1"}]))
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["n_tokens", "doc_id", "source_doc_id", "cluster_id"])
def test_text_column_may_have_a_reserved_name(corpus, text):
    documents = [{"name": "a", text: "one two", "score": 1}, {"name": "b", text: "three", "score": 2}]
    (corpus.folder / "in/x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    keep = "n_tokens > 0 and text like 'one%' and doc_id < 5"
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x.jsonl", "text": text, "keep": keep}])
    build_here(recipe)
    assert [row["text"] for row in table_of(recipe, "x")] == ["one two"]


def test_time_is_compared_with_a_literal_time(corpus):
    table = pa.table(
        {"text": ["a", "b"], "name": ["a", "b"], "at": [datetime(2020, 1, 1), datetime(2022, 1, 1)]}
    )
    pq.write_table(table, corpus.folder / "in/x.parquet")
    keep = "at > timestamp '2021-01-01'"
    recipe = corpus.load(sources=[{"name": "x", "files": "in/x.parquet", "keep": keep}])
    build_here(recipe)
    assert kept_names(recipe) == {"b"}


# NaN

NAN, INF = float("nan"), float("inf")
NUMBERS = pa.table(
    {
        "name": ["nan", "by_nan", "five", "null", "infinite"],
        "a": pa.array([NAN, 1.0, 5.0, None, INF], pa.float64()),
        "b": pa.array([1.0, NAN, 1.0, 1.0, INF], pa.float64()),
        "m": pa.array([{"x": NAN}, {"x": 1}, {"x": 5}, None, {"x": NAN}], pa.struct([("x", pa.float32())])),
        "s": ["nan", "1", "5", "1", "NaN"],
    }
)


@pytest.mark.parametrize(
    ("expression", "true_for"),
    [
        ("a >= 3", {"five", "infinite"}),
        ("not (a < 3)", {"five", "infinite"}),
        ("not (a >= 3)", {"by_nan"}),
        ("a <> 5", {"by_nan", "infinite"}),
        ("a is null", {"nan", "null"}),
        ("a is not null", {"by_nan", "five", "infinite"}),
        ("a between 3 and 9e99", {"five"}),
        ("not (a between 0 and 3)", {"five", "infinite"}),
        ("a in (1.0, 5.0)", {"by_nan", "five"}),
        ("a not in (5.0)", {"by_nan", "infinite"}),
        ("coalesce(a, 4) >= 3", {"nan", "five", "null", "infinite"}),
        ("a / b >= 3", {"five"}),
        ("a / b = a / b", {"five"}),
        ("not (a / b < 3)", {"five"}),
        ("a / b >= 3 or name = 'infinite'", {"five", "infinite"}),
        ("sqrt(a - 2) > 0", {"five", "infinite"}),
        ("ln(a - 2) is null", {"nan", "by_nan", "null"}),
        ("asin(a) is null", {"nan", "five", "null", "infinite"}),
        ("a / b is null", {"nan", "by_nan", "null", "infinite"}),
        ("m.x >= 3", {"five"}),
        ("not (m.x < 3)", {"five"}),
        ("case when m.x > 1 then true else false end", {"five"}),
        ("cast(s as double) > 2", {"five"}),
        ("(case when a > 1 then a else a / b end) > 2", {"five", "infinite"}),
        (" or ".join(["a >= 3"] * 150), {"five", "infinite"}),
        (" and ".join(["not (a / b < 3)"] * 90), {"five"}),
    ],
)
def test_nan_is_null_and_comparisons_with_it_are_not_true(expression, true_for):
    assert fault(expression, NUMBERS.schema) is None
    assert (
        set(NUMBERS.column("name").filter(pa.array(keep_mask(expression, NUMBERS))).to_pylist()) == true_for
    )


def test_row_with_a_nan_score_is_not_kept(corpus):
    table = pa.table({"text": ["one", "two", "three"], "name": ["x", "y", "z"], "score": [NAN, 5.0, 1.0]})
    pq.write_table(table, corpus.folder / "in/n.parquet")
    for i, keep in enumerate(("score >= 3", "not (score < 3)")):
        sources = [{"name": "n", "files": "in/n.parquet", "keep": keep}]
        recipe = corpus.load(name=f"n{i}", sources=sources)
        build_here(recipe)
        assert kept_names(recipe) == {"y"}


# Bounds

TOO_MUCH = {
    "terms": (" or ".join(["a = 1"] * 900), "more than 200 parts"),
    "sums": ("+".join(["a"] * 240) + " > 1", "more than 200 parts"),
    "casts": ("a" + "::int" * 3000 + " > 1", "more than 200 parts"),
    "characters": (" and ".join(["a = 1"] * 50_000), r"it has 499,995 characters, expected at most 20,000"),
    "brackets": ("(" * 5000 + "a" + ")" * 5000 + " > 1", "more than 200 parts"),
    "doubled": ("split_part(" * 30 + "b" + ", ',', 1)" * 30 + " = 'x'", "more than 200 parts"),
    "roots": ("sqrt(" * 30 + "a" + ")" * 30 + " > 1", "more than 200 parts"),
    "padding": ("rpad(b, 2000000000, 'x') = 'x'", "padded to a written number of at most 1,000"),
    "padding by sums": ("lpad(b, 2000 * 1000000, 'x') = 'x'", "padded to a written number of at most 1,000"),
    "padding by a column": ("lpad(b, a, 'x') = 'x'", "padded to a written number of at most 1,000"),
    "growth": (f"replace(b, 'x', '{'y' * 300}') = 'x'", "up to 300 times as long"),
    "growth of growth": (
        f"replace(replace(b, 'x', '{'y' * 20}'), 'y', '{'x' * 20}') = 'x'",
        "up to 400 times as long",
    ),
    "growth by a column": ("replace(b, 'x', b) = 'x'", "has to be written out"),
    "joined lists": (f"array_to_string(l, '{'x' * 400}') = 'x'", "up to 400 times as long"),
    "joined texts": ("||".join(["b"] * 50) + " = 'x'", "it joins more than 32 texts"),
    "joined by a function": (f"concat({', '.join(['b'] * 50)}) = 'x'", "it joins more than 32 texts"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", TOO_MUCH)
def test_too_large_expression_is_reported_in_a_single_line(case):
    expression, expected = TOO_MUCH[case]
    message = fault(expression, COLUMNS)
    assert message
    assert re.search(expected, message)
    assert len(message.splitlines()) == 1
    assert len(message) < 500


@pytest.mark.parametrize(
    "expression",
    [
        " or ".join(f"b = 'x{i}'" for i in range(190)),
        f"a in ({', '.join(map(str, range(3000)))})",
        "rpad(b, 20, 'x') = 'x' and replace(b, 'a', 'bb') <> 'b'",
        " and ".join(f"size between {i} and {i + 100}" for i in range(40)),
    ],
)
def test_long_expression_within_its_bounds_is_allowed(expression):
    assert fault(expression, COLUMNS) is None


def test_long_expression_is_shortened_in_its_error(corpus):
    keep = " and ".join(["stars = 1"] * 5000)
    recipe = corpus.load(sources=[{"name": "best", "files": "in/best-*.parquet", "keep": keep}])
    with pytest.raises(ZydaError, match=r"source best: keep: .*\.\.\.: it has .* characters") as raised:
        build_here(recipe)
    assert len(str(raised.value)) < 1000


TIMES = pa.table(
    {
        "a": pa.array([1, 1, -1, None], pa.timestamp("ns")),
        "b": pa.array([1, 2, -1, 5], pa.timestamp("ns")),
        "zoned": pa.array([1, 2, -1, None], pa.timestamp("ns", "UTC")),
        "clock": pa.array([0, 1, 2, None], pa.time64("ns")),
    }
)


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("a = b", [0, 2]),
        ("a < b", [1]),
        ("a > timestamp '1970-01-01'", [0, 1]),
        ("a = timestamp '1970-01-01'", []),
        ("a < timestamp '9999-01-01'", [0, 1, 2]),
        ("a between date '1970-01-01' and date '1970-01-02'", [0, 1]),
        ("b in (timestamp '1970-01-01')", []),
        ("nullif(a, b) is null", [0, 2, 3]),
        ("coalesce(a, b) = b", [0, 2, 3]),
        ("zoned > timestamptz '1970-01-01 00:00:00+00'", [0, 1]),
        ("clock > time '00:00:00'", [1, 2]),
    ],
)
def test_times_are_compared_to_the_nanosecond(expression, kept):
    assert np.flatnonzero(keep_mask(expression, TIMES)).tolist() == kept


def test_durations_beyond_intervals_raise():
    durations = pa.table({"d": pa.array([1000, 1001], pa.duration("ns"))})
    with pytest.raises(BadKeep, match="durations that microseconds do not hold"):
        keep_mask("d > interval '0 day'", durations)
    assert keep_mask("d > interval '0 day'", durations.slice(0, 1)).tolist() == [True]


@pytest.mark.parametrize(
    ("zone", "hour", "minute"), [("+02:00", 1, 0), ("-0530", 17, 30), ("Asia/Tokyo", 8, 0), ("+13", 12, 0)]
)
def test_hours_depend_on_the_zone_and_offset_of_a_column(zone, hour, minute):
    moment = datetime(2024, 1, 1, 23, tzinfo=UTC)
    table = pa.table({"t": pa.array([moment], pa.timestamp("us", zone))})
    table = table.append_column("l", pa.array([[moment]], pa.list_(table.schema.field("t").type)))
    for column in ("t", "l[1]"):
        assert keep_mask(f"hour({column}) = {hour} and minute({column}) = {minute}", table).all()


def test_time_beyond_python_is_compared_or_reported():
    table = pa.table({"t": pa.array([0, 1 << 53], pa.timestamp("ms"))})
    assert keep_mask("t > timestamp '2000-01-01'", table).tolist() == [False, True]
    table = pa.table({"t": pa.array([0, 1 << 62], pa.timestamp("s"))})
    with pytest.raises(BadKeep, match=f"where t = {1 << 62}"):
        keep_mask("t > timestamp '2000-01-01'", table)


@pytest.mark.parametrize(
    "expression", ["f * 10 = 1", "f + 0 = 0.1", "f * 3 = 0.3", "f / 2 = 0.05", "f + 0.2 = 0.3"]
)
def test_integer_compared_with_a_float_column_is_a_float(expression):
    """DuckDB gives 0.1::FLOAT * 10 = 1 as true, and so on."""
    assert keep_mask(expression, pa.table({"f": pa.array([0.1], pa.float32())})).all()
