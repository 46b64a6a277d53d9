"""Compare `keep` with SQLite on seeded expressions, and its speed with polars.

python -m benchmarks.expressions [EXPRESSIONS] [SEED]

SQLite is the judge. It has only integers of 64 bits, reals and texts, so there NaN is null, a date is its text,
and a decimal is a number of thousandths. An overflow gives a real number in SQLite, and a division by zero
gives null. Each made part therefore has a condition, in SQLite's words, of the rows on which it must fail.
"""

import random
import re
import sqlite3
import sys
import time
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from zyda_flows.tasks.quality.keep import fault, keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
INTEGERS = {
    "i8": (pa.int8(), [-128, 127]), "i16": (pa.int16(), [-32768, 32767]),
    "i32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "i64": (pa.int64(), [SMALLEST, LARGEST, 2**53 + 1]), "u8": (pa.uint8(), [255]), "u16": (pa.uint16(), [65535]),
    "u32": (pa.uint32(), [2**32 - 1]),
}  # fmt: skip
REALS = {"f32": pa.float32(), "f64": pa.float64()}
TEXTS = ["", "a", "ab", "abc", "b%", "a_c", "10", "日本", "it's", None]
DAYS = [date(1, 1, 1), date(1969, 12, 31), date(2020, 2, 29), date(9999, 12, 31), None]
TIMES = [
    datetime(1, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59),
    datetime(2024, 1, 1),
    datetime(9999, 12, 31),
    None,
]
FRACTIONS = [0.0, -0.0, 0.1, -1.5, 3.0, 1e30, -1e-30, float("inf"), float("-inf"), float("nan"), None]
ROWS = 40
CONSTANT = re.compile(
    r"Overflow in|Overflow on|Division by zero|Type INT128 .* out of range"
)  # found without rows


class Made(NamedTuple):
    """A part of an expression: as a recipe writes it, as SQLite does, and where it must fail, for SQLite."""

    ours: str
    theirs: str
    fails: str = "0"


def table_of(chance: random.Random) -> pa.Table:
    """Make rows of all types, with extremes and nulls."""
    columns: dict[str, pa.Array] = {}
    for name, (kind, extremes) in INTEGERS.items():
        values = [0, 1, 2, 7, None, *extremes] + ([-1, -7] if name[0] == "i" else [])
        columns[name] = pa.array(chance.choices(values, k=ROWS), kind)
    for name, kind in REALS.items():
        columns[name] = pa.array(
            np.array(chance.choices(FRACTIONS, k=ROWS), np.float64), kind, from_pandas=False
        )
        is_null = pa.array([chance.random() < 0.1 for _ in range(ROWS)])
        columns[name] = pa.compute.if_else(is_null, None, columns[name])
    columns["ok"] = pa.array(chance.choices([True, False, None], k=ROWS))
    columns["s"] = pa.array(chance.choices(TEXTS, k=ROWS), chance.choice([pa.string(), pa.large_string()]))
    columns["cat"] = pa.array(chance.choices(TEXTS, k=ROWS)).dictionary_encode()
    columns["day"] = pa.array(chance.choices(DAYS, k=ROWS), pa.date32())
    columns["ts"] = pa.array(chance.choices(TIMES, k=ROWS), pa.timestamp(chance.choice(["s", "ms", "us"])))
    cents = [Decimal("0.001"), Decimal("-1.5"), Decimal("999999999.999"), Decimal(0), None]
    columns["dec"] = pa.array(chance.choices(cents, k=ROWS), pa.decimal128(12, 3))
    return pa.table(columns)


def as_sqlite(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value * 1000)
    return (
        value.isoformat(" ")
        if isinstance(value, datetime)
        else value.isoformat()
        if isinstance(value, date)
        else value
    )


def database_of(table: pa.Table) -> sqlite3.Connection:
    """Store a table in SQLite: NaN is null there."""
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = ON")
    connection.execute(f"CREATE TABLE rows (number INTEGER, {', '.join(table.column_names)})")
    marks = ", ".join("?" * (table.num_columns + 1))
    for number, row in enumerate(table.to_pylist()):
        connection.execute(f"INSERT INTO rows VALUES ({marks})", [number, *map(as_sqlite, row.values())])
    return connection


class Maker:
    """Makes expressions of a seed."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def pick(self, *makers: Callable[[int], Made], depth: int) -> Made:
        return self.chance.choice(makers)(depth)

    def integer(self, depth: int) -> Made:
        if depth <= 0:
            number = str(self.chance.choice([0, 1, 2, 5, 100, 128, 65536, 2**31, LARGEST]))
            return self.chance.choice([Made(name, name) for name in INTEGERS] + [Made(number, number)] * 3)
        return self.pick(self.sum_of, self.quotient, self.negative, self.size, self.chosen, self.first,
                         self.part_of_day, self.cast_text, depth=depth)  # fmt: skip

    def sum_of(self, depth: int) -> Made:
        left, right, sign = self.integer(depth - 1), self.integer(depth - 1), self.chance.choice("+-*")
        theirs = f"({left.theirs} {sign} {right.theirs})"
        return Made(
            f"({left.ours} {sign} {right.ours})", theirs, any_of(left, right, f"typeof{theirs} = 'real'")
        )

    def quotient(self, depth: int) -> Made:
        left, right = self.integer(depth - 1), self.integer(depth - 1)
        ours, theirs = self.chance.choice([("//", "/"), ("%", "%")])
        sql = f"({left.theirs} {theirs} {right.theirs})"
        is_by_zero = f"({left.theirs} IS NOT NULL AND {right.theirs} = 0)"
        is_bad = f"{is_by_zero} OR typeof({left.theirs} / {right.theirs}) = 'real'"
        return Made(f"({left.ours} {ours} {right.ours})", sql, any_of(left, right, is_bad))

    def negative(self, depth: int) -> Made:
        given = self.integer(depth - 1)
        is_bad = any_of(given, f"{given.theirs} = {SMALLEST + 1} - 1")
        if self.chance.random() < 0.5:
            return Made(f"(- {given.ours})", f"(- {given.theirs})", is_bad)
        theirs = f"(CASE WHEN {given.theirs} < 0 THEN - {given.theirs} ELSE {given.theirs} END)"
        return Made(f"abs({given.ours})", theirs, is_bad)

    def size(self, depth: int) -> Made:
        text = self.text(depth - 1)
        return Made(f"length({text.ours})", f"length({text.theirs})", text.fails)

    def chosen(self, depth: int) -> Made:
        when, left, right = self.condition(depth - 1), self.integer(depth - 1), self.integer(depth - 1)
        fails = f"({when.fails} OR CASE WHEN {when.theirs} THEN {left.fails} ELSE {right.fails} END)"
        forms = [
            f"(CASE WHEN {one[0]} THEN {one[1]} ELSE {one[2]} END)"
            for one in zip(when, left, right, strict=True)
        ]
        return Made(forms[0], forms[1], fails)

    def first(self, depth: int) -> Made:
        left, right = self.integer(0), self.integer(0)
        return Made(f"coalesce({left.ours}, {right.ours})", f"coalesce({left.theirs}, {right.theirs})")

    def part_of_day(self, depth: int) -> Made:
        name, mark = self.chance.choice([("year", "%Y"), ("month", "%m"), ("day", "%d")])
        column = self.chance.choice(["day", "ts"])
        return Made(f"extract({name} from {column})", f"CAST(strftime('{mark}', {column}) AS INTEGER)")

    def cast_text(self, depth: int) -> Made:
        text = self.chance.choice(["s", "cat"])
        return Made(
            f"cast({text} as bigint)", f"CAST({text} AS INTEGER)", f"({text} GLOB '*[^0-9]*' OR {text} = '')"
        )

    def real(self, depth: int) -> Made:
        if depth <= 0:
            number = self.chance.choice(["0.5", "1.5", "-2.25", "1e10", "0.1"])
            return self.chance.choice([Made("f64", "f64"), Made("f64", "f64"), Made(number, number)])
        left, right = self.real(depth - 1), self.real(0)
        if self.chance.random() < 0.3:
            whole = self.integer(depth - 1)
            return Made(f"cast({whole.ours} as double)", f"CAST({whole.theirs} AS REAL)", whole.fails)
        if not {"f64"} & {left.ours, right.ours}:
            left = Made("f64", "f64")
        sign = self.chance.choice("+-*/")
        is_bad = f"({left.theirs} IS NOT NULL AND {right.theirs} = 0)" if sign == "/" else "0"
        return Made(f"({left.ours} {sign} {right.ours})", f"({left.theirs} {sign} {right.theirs})",
                    any_of(left, right, is_bad))  # fmt: skip

    def text(self, depth: int) -> Made:
        if depth <= 0:
            column = self.chance.choice(["s", "cat"])
            return Made(column, column)
        text = self.text(depth - 1)
        ours, theirs = self.chance.choice([
            ("lower({})",) * 2, ("replace({}, 'a', 'xy')",) * 2, ("substr({}, 2, 1)",) * 2, ("({} || 'z')",) * 2,
            ("rtrim({}, 'c')",) * 2, ("left({}, 2)", "substr({}, 1, 2)"), ("coalesce({}, '-')",) * 2,
        ])  # fmt: skip
        return Made(ours.format(text.ours), theirs.format(text.theirs), text.fails)

    def condition(self, depth: int) -> Made:
        if depth <= 0:
            return self.chance.choice(
                [Made("ok", "ok"), Made("i64 > 0", "i64 > 0"), Made("s = 'ab'", "s = 'ab'")]
            )
        return self.pick(self.comparison, self.comparison, self.connected, self.connected, self.denied, self.among,
                         self.known, self.like, self.single, self.dated, depth=depth)  # fmt: skip

    def comparison(self, depth: int) -> Made:
        kind = self.chance.choice([self.integer, self.real, self.text])
        left, right = kind(depth - 1), kind(depth - 1)
        ours, theirs = self.chance.choice(
            [(sign, sign) for sign in ("=", "<>", "<", "<=", ">", ">=")]
            + [("is distinct from", "IS NOT"), ("is not distinct from", "IS")]
        )
        return Made(f"({left.ours} {ours} {right.ours})", f"({left.theirs} {theirs} {right.theirs})",
                    any_of(left, right))  # fmt: skip

    def connected(self, depth: int) -> Made:
        left, right, word = (
            self.condition(depth - 1),
            self.condition(depth - 1),
            self.chance.choice(["AND", "OR"]),
        )
        decided = f"({left.theirs} IS {'FALSE' if word == 'AND' else 'TRUE'})"
        fails = f"({left.fails} OR (NOT {decided} AND {right.fails}))"
        return Made(f"({left.ours} {word} {right.ours})", f"({left.theirs} {word} {right.theirs})", fails)

    def denied(self, depth: int) -> Made:
        given = self.condition(depth - 1)
        return Made(f"(not {given.ours})", f"(NOT {given.theirs})", given.fails)

    def among(self, depth: int) -> Made:
        given, low, high = (self.integer(place) for place in (depth - 1, 0, 0))
        form = self.chance.choice(["({} between {} and {})", "({} not between {} and {})", "({} in ({}, {}, null))",
                                   "({} not in ({}, {}))"])  # fmt: skip
        three = (given, low, high)
        return Made(
            form.format(*(one.ours for one in three)),
            form.format(*(one.theirs for one in three)),
            given.fails,
        )

    def known(self, depth: int) -> Made:
        given, word = self.condition(depth - 1), self.chance.choice(["true", "false", "null"])
        which = self.chance.choice(["is", "is not"])
        return Made(f"({given.ours} {which} {word})", f"({given.theirs} {which} {word})", given.fails)

    def like(self, depth: int) -> Made:
        text, pattern = self.text(depth - 1), self.chance.choice(["a%", "%b%", "_", "a_c", "%日%", "%''%"])
        word = self.chance.choice(["like", "not like"])
        return Made(f"({text.ours} {word} '{pattern}')", f"({text.theirs} {word} '{pattern}')", text.fails)

    def single(self, depth: int) -> Made:
        """Compare FLOAT with a literal, as FLOAT, and a decimal, as a number of thousandths."""
        sign, number = (
            self.chance.choice(["=", "<>", "<", ">="]),
            self.chance.choice(["0.1", "-1.5", "0.001", "1e30"]),
        )
        if self.chance.random() < 0.5:
            return Made(f"f32 {sign} {number}", f"f32 {sign} {float(np.float32(number))!r}")
        number = self.chance.choice(["0.001", "-1.5", "0.1"])
        return Made(f"dec {sign} {number}", f"dec {sign} {int(Decimal(number) * 1000)}")

    def dated(self, depth: int) -> Made:
        sign = self.chance.choice(["=", "<", ">=", "<>"])
        day = self.chance.choice(["1969-12-31", "2020-02-29", "9999-12-31"])
        if self.chance.random() < 0.5:
            return Made(f"day {sign} date '{day}'", f"day {sign} '{day}'")
        return Made(f"ts {sign} timestamp '{day} 00:00:00'", f"ts {sign} '{day} 00:00:00'")


def any_of(*given: Made | str) -> str:
    """Return SQLite's condition of the rows on which one of some parts must fail."""
    fails = [one if isinstance(one, str) else one.fails for one in given]
    return f"({' OR '.join(f'coalesce({one}, 0)' for one in fails if one != '0') or '0'})"


def difference(table: pa.Table, judge: sqlite3.Connection, made: Made) -> str | None:
    """Return how an answer differs from SQLite's, or None."""
    query = f"SELECT ({made.theirs}) IS TRUE, coalesce({made.fails}, 0) FROM rows ORDER BY number"
    rows = judge.execute(query).fetchall()
    fails = np.array([bool(row[1]) for row in rows])
    wanted = np.array([bool(row[0]) for row in rows])
    if found := fault(made.ours, table.schema):
        return None if CONSTANT.match(found) else found
    try:
        keep_mask(made.ours, table)
        failed = None
    except BadKeep as error:
        failed = error.row
    if failed != (int(fails.argmax()) if fails.any() else None):
        return f"fails first on row {failed}, expected {fails.nonzero()[0][:1]}"
    try:
        found_mask = keep_mask(made.ours, table.filter(pa.array(~fails)))
    except BadKeep as error:
        return f"fails on a row: {error.found}"
    wrong = np.nonzero(found_mask != wanted[~fails])[0]
    return (
        f"row {np.nonzero(~fails)[0][wrong[0]]}: expected {wanted[~fails][wrong[0]]}" if len(wrong) else None
    )


def differences(count: int, seed: int) -> list[str]:
    """Compare seeded expressions with SQLite, and return the differences, one a line."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        if number % 50 == 0:
            table = table_of(chance)
            judge = database_of(table)
        made = Maker(chance).condition(1 + number % 4)
        if what := difference(table, judge, made):
            found.append(f"{made.ours}: {what}")
    return found


def main(count: int = 10_000, seed: int = 0) -> None:
    start = time.process_time()
    found = differences(count, seed)
    print(*found, sep="\n")
    print(
        f"{count:,} expressions, {len(found)} differ from SQLite; {time.process_time() - start:.0f} s of CPU"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
