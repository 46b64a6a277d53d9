"""The answers of `keep` and `where` equal the answers of SQLite, or expected values for types that SQLite lacks."""

import os
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from sqlite_expressions import differences

from zyda_flows.tasks.quality.keep import columns_of, fault, keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep

LARGEST = 2**64 - 1


def rows_of(expression, table):
    """Return the numbers of the rows that an expression keeps."""
    assert fault(expression, table.schema) is None
    return np.nonzero(keep_mask(expression, table))[0].tolist()


@pytest.mark.slow
def test_500_expressions_over_all_types_have_the_answers_of_sqlite():
    assert differences(500, seed=46) == []


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
def test_integers_of_no_width_wrap(kind):
    most = int(np.iinfo(kind).max)
    table = pa.table({"n": pa.array([0, 49, 51, 100, most, None], kind)})
    assert rows_of("n - 50 > 0", table) == [2, 3, 4]
    assert rows_of("-n < 0", table) == [1, 2, 3, 4]
    assert rows_of("abs(n - 50) = 50", table) == [0, 3]
    if kind != "int64":
        assert rows_of(f"n + n = {2 * most}", table) == [4]
    assert rows_of(f"n = {most}", table) == [4]
    assert rows_of("n in (49, 51) or n between 100 and 100", table) == [1, 2, 3]


def test_unsigned_64_bit_integers_are_compared_exactly():
    table = pa.table({"n": pa.array([0, 2**63, 2**63 + 1, LARGEST], pa.uint64()), "i": [-1, -1, -(2**63), 1]})
    assert rows_of("n > i", table) == [0, 1, 2, 3]
    assert rows_of("n + i = 1", table) == [2]
    assert rows_of(f"n = {2**63 + 1}", table) == [2]
    assert rows_of(f"n * 2 = {2 * LARGEST}", table) == [3]
    assert rows_of(f"n // 2 = {LARGEST // 2} and n % 10 = 5", table) == [3]
    assert rows_of("-n < i", table) == [1, 2, 3]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("n + 9223372036854775807 > 0", "Overflow"),
        ("n * 9223372036854775807 > 0", "Overflow"),
        ("-(-9223372036854775805 - n) > 0", "Overflow"),
        ("10 / (n - 3) > 1", "Division by zero"),
        ("10 // (n - 3) > 1", "Division by zero"),
        ("10 % (n - 3) > 1", "Division by zero"),
        ("mod(10, n - 3) > 1", "Division by zero"),
        ("x / (x - 3.5) > 1", "Division by zero"),
        ("(x - 3.5) / (x - 3.5) > 1", "Division by zero"),
        ("cast(s as int) > 0", "Could not convert string 'x' to INT32"),
        ("cast(s as date) > date '2020-01-01'", "invalid date"),
        ("strptime(s, '%Y') > timestamp '2020-01-01'", "Could not parse"),
        ("cast(n * 100 as tinyint) > 0", "out of range|cannot be evaluated"),
    ],
)
def test_overflow_division_by_zero_and_failing_cast_name_the_first_row_and_its_values(expression, reason):
    table = pa.table({"n": pa.array([-1, 0, 3], pa.int8()), "x": [1.0, None, 3.5], "s": [None, None, "x"]})
    assert fault(expression, table.schema) is None
    with pytest.raises(BadKeep, match=rf"{reason}.*: it cannot be evaluated where ") as raised:
        keep_mask(expression, table)
    assert not re.search(r"\bc\d", str(raised.value))
    assert raised.value.row == 2


def test_part_that_can_fail_is_evaluated_only_where_it_decides():
    table = pa.table({"n": [0, 2, 5, None], "s": ["x", "1", "2", None]})
    assert rows_of("n > 0 and 10 / n > 3", table) == [1]
    assert rows_of("n = 0 or 10 // n >= 5", table) == [0, 1]
    assert rows_of("n <> 0 and s <> 'x' and cast(s as int) // n = 0", table) == [1, 2]
    assert rows_of("case when n = 0 then true else 10 % n = 0 end", table) == [0, 1, 2]
    assert rows_of("10 / nullif(n, 0) > 3", table) == [1]
    with pytest.raises(BadKeep):
        keep_mask("10 / n > 3 and n > 0", table)


def test_division_sign_selects_real_or_integer_division():
    table = pa.table({"n": pa.array([7, -7, 8], pa.int8()), "x": [7.5, -7.5, 8.0]})
    assert rows_of("n / 2 = 3.5", table) == [0]
    assert rows_of("n // 2 = -3", table) == [1]
    assert rows_of("x // 2 = -3", table) == [1]
    assert rows_of("n / 2 = n // 2", table) == [2]
    assert rows_of("n % 2 = -1", table) == [1]


def test_logic_has_three_values():
    flags = pa.table({"flag": [True, False, None]})
    answers = {
        "flag is not true": [1, 2], "flag is true": [0], "flag is not false": [0, 2], "flag is false": [1],
        "flag is null": [2], "flag is not null": [0, 1], "not flag": [1], "flag or not flag": [0, 1],
        "flag or flag is null": [0, 2], "(flag and null) is null": [0, 2], "(flag or null) is true": [0],
        "flag = false": [1], "flag is distinct from true": [1, 2], "not (flag in (true, null))": [],
        "flag xor true": [1], "coalesce(flag, true)": [0, 2],
    }  # fmt: skip
    assert {expression: rows_of(expression, flags) for expression in answers} == answers


def test_float_column_is_compared_with_a_literal_as_float():
    table = pa.table({
        "f": pa.array([0.1, 0.2, 16777216.0, float("nan")], pa.float32()),
        "d": [0.1, 0.30000000000000004, 16777217.0, 0.0], "n": [0, 0, 16777217, 0],
        "s": pa.array([{"f": 0.1}] * 4, pa.struct([("f", pa.float32())])), "h": pa.array([0.1, 1, 2, 3], pa.float16()),
    })  # fmt: skip
    for literal in ("0.1", "1e-1", "0.10"):
        assert rows_of(f"f = {literal}", table) == [0]
        assert rows_of(f"f in ({literal}, 5)", table) == [0]
        assert rows_of(f"f between {literal} and {literal}", table) == [0]
        assert rows_of(f"s.f = {literal}", table) == [0, 1, 2, 3]
    assert rows_of("f > 1e39", table) == []
    assert rows_of("f = d", table) == []
    assert rows_of("f = n", table) == []
    assert rows_of("d = 0.30000000000000004", table) == [1]
    assert rows_of("h >= 1", table) == [1, 2, 3]


TYPES = pa.table({
    "meta": [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": None}, None], "l": pa.array([[1, 2], [], None], pa.list_(pa.uint8())),
    "texts": pa.array([["a", "b"], ["c"], None], pa.large_list(pa.large_string())),
    "cat": pa.array(["a", "b", None]).dictionary_encode(), "view": pa.array(["a", "bé", None], pa.string_view()),
    "bin": pa.array([b"a", b"\xff", None], pa.binary()), "dec": pa.array([Decimal("1.5"), Decimal("-2.25"), None]),
    "day": [date(2020, 1, 1), date(2021, 1, 1), None], "hour": [time(9), time(10), None],
    "ns": pa.array([datetime(2020, 1, 1), datetime(2021, 1, 1), None], pa.timestamp("ns")),
    "s": pa.array([datetime(2020, 1, 1), datetime(9999, 1, 1), None], pa.timestamp("s")),
    "tz": pa.array([datetime(2020, 1, 1, 12, tzinfo=UTC), datetime(2020, 7, 1, 12, tzinfo=UTC), None],
                   pa.timestamp("us", "Europe/Berlin")),
    "offset": pa.array([datetime(2020, 1, 1, 12, tzinfo=UTC)] * 3, pa.timestamp("us", "+02:00")),
    "took": pa.array([timedelta(days=1), timedelta(hours=1), None]), "nothing": pa.nulls(3), "Day": ["x", "y", "z"],
})  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("meta.a >= 2", [1]), ("meta.b.c = 'x'", [0]), ("meta.b is null", [1, 2]), ("l[1] = 1", [0]), ("l[1] - 2 < 0", [0]),
        ("2 = any(l)", [0]), ("array_contains(l, 2)", [0]), ("array_length(l) = 0", [1]), ("array_sum(l) = 3", [0]),
        ("texts[1] like 'a%'", [0]), ("array_to_string(texts, '-') = 'a-b'", [0]), ("cat = 'b'", [1]), ("cat > 'a'", [1]),
        ("cat in ('a', 'c')", [0]), ("view = 'bé' and length(view) = 2", [1]), ("bin = x'ff'", [1]), ("bin = 'a'", [0]),
        ("dec > 1.4", [0]), ("dec * 2 = -4.5", [1]), ("dec + dec = 3", [0]), ("day > date '2020-06-01'", [1]),
        ("day - date '2020-01-01' > interval '30 days'", [1]), ("extract(year from day) = 2021", [1]),
        ("ns = timestamp '2021-01-01 00:00:00'", [1]), ("ns < timestamp '9999-01-01'", [0, 1]), ("s > ns", [1]),
        ("s > timestamp '5000-01-01'", [1]), ("date_part('hour', tz) = 14", [1]), ("date_part('hour', offset) = 14", [0, 1, 2]),
        ("tz < timestamptz '2020-01-01 12:00:01+00'", [0]), ("cast(tz as date) = date '2020-07-01'", [1]),
        ("hour > time '09:30:00'", [1]), ("took > interval '2 hours'", [0]), ("nothing is null", [0, 1, 2]), ("nothing", []),
        ("\"Day\" = 'y'", [1]), ("initcap('a b') = 'A B'", [0, 1, 2]), ("normalize(view, NFD) <> view", [1]),
        ("view ~ '^b'", [1]), ("view !~* '^B'", [0]), ("regexp_like(view, '^b')", [1]), ("split_part(view, 'é', 1) = 'b'", [1]),
        ("case when cat = 'a' then 1 else 'x' end = 'x'", [1, 2]), ("ns + interval '1 month' = timestamp '2020-02-01'", [0]),
    ],
)  # fmt: skip
def test_each_type_of_column_is_read(expression, kept):
    assert rows_of(expression, TYPES) == kept


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("cat > 1", "number and text"), ("l > 1", "list and number"), ("day > '2020-01-01'", "date and text"),
        ("tz > timestamp '2020-01-01'", "date and time with a zone"), ("meta.z = 1", "unable to find field 'z'"),
        ("DAY > date '2020-01-01'", 'unable to find column "DAY"'), ("view ~ '['", "missing ]"),
        ("random() > 1", "unknown, or does not look at a row"), ("read_text('/etc/passwd') = 'x'", "unknown"),
        ("getenv('HOME') = 'x'", "unknown"), ("cat in (select 1)", "can have no SELECT"), ("cat = $1", "not allowed"),
        ("texts = [x for x in texts]", "unable to find column"), ("cat = 'a' && cat = 'b'", "; write AND and OR"),
        ("cat and cat = 'a'", "expected Boolean"), ("day = date '2020-13-01'", "out of range"),
        ("cat = 'a'; select 1", "unable to parse"), ("1 / 0 > dec", "Division by zero"), ("cat = 'a", "unable to parse"),
        ("cast(cat as json) = 'x'", "not allowed"), ("(select 1) = dec", "not allowed"), ("cat =", "part missing"),
        ("tz = tz and utc = utc", "several time zones"), ("list_filter(l, x -> x > 1) = l", "not allowed|unknown|unable"),
    ],
)  # fmt: skip
def test_fault_of_an_expression_is_a_single_line(expression, found):
    table = TYPES.append_column("utc", pa.array([datetime(2020, 1, 1, tzinfo=UTC)] * 3))
    line = str(fault(expression, table.schema))
    assert re.search(found, line)
    assert "\n" not in line


def test_answers_of_a_table_equal_answers_of_single_rows():
    for expression in (
        "meta.a >= 2 or cat = 'a'",
        "array_sum(l) = 3",
        "ns > timestamp '2020-06-01'",
        "1 < 2",
    ):
        together = keep_mask(expression, TYPES).tolist()
        assert together == [bool(keep_mask(expression, TYPES.slice(row, 1))[0]) for row in range(3)]
        assert keep_mask(expression, TYPES.slice(0, 0)).tolist() == []


def test_forked_process_evaluates():
    assert keep_mask("n > 1", pa.table({"n": [1, 2]})).tolist() == [False, True]
    child = os.fork()
    if child == 0:
        os._exit(0 if keep_mask("n > 1", pa.table({"n": [1, 2]})).tolist() == [False, True] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_columns_of_an_expression_are_listed():
    expression = "meta.a > 1 and \"Day\" = 'day' and `l`[1] > extract(year from tz)"
    assert columns_of(expression) == ("Day", "l", "meta", "tz")
