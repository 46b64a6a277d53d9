"""The `keep` of a source: SQL over the columns of a row, evaluated by polars, which runs nothing else of SQL.

It is evaluated on some rows at a time, so its answer for a row must not depend on the others: what
looks beyond its row, or at a clock, is refused. Two checks that know nothing of each other see to it: one
walks polars' own tree of the expression, the other evaluates it on made-up rows, together and one by one.
"""

import json
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from tasks.quality.keep_bounds import (
    TOO_DEEP,
    answer_within_bounds,
    is_small,
    judged_apart,
    too_long,
    too_much,
)
from tasks.quality.keep_numbers import comparing_numbers, without_nan
from tasks.quality.keep_samples import samples
from tasks.quality.keep_tree import beyond

CLOCKS = re.compile(
    r"\b(now|today|current_?(date|time|timestamp)|local_?(time|timestamp)|getdate)\b", re.IGNORECASE
)
QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
# What stands in an expression that comes from another language, and what is to stand there.
HINTS = {
    r"&&|\|\|": "; write AND and OR",
    r"(?i)\bselect\b": "; it is the condition of a WHERE, over the columns of one document, and can have no SELECT",
}
IN_DOUBLE_QUOTES = re.compile(r'"([^"]*)"')
SHORT = 80  # characters of a value in a message


class BadKeep(ValueError):
    """An expression that cannot be evaluated; on which row, where it is one row that it fails on."""

    def __init__(self, found: str, row: int | None = None) -> None:
        super().__init__(found)
        self.found = found
        self.row = row


def parse(expression: str) -> pl.Expr:
    """Read an expression. Raises BadKeep."""
    try:
        return pl.sql_expr(expression)
    except pl.exceptions.PolarsError as error:
        raise BadKeep(short_first_line(error)) from error
    except BaseException as error:
        raise panic(error) from error


def panic(error: BaseException) -> BaseException:
    """Return what a panic of polars' Rust is to us; it is no Exception, and anything else stays as it is."""
    if type(error).__name__ == "PanicException":
        return BadKeep(f"polars cannot evaluate it: {short_first_line(error)}")
    return error


def short_first_line(error: BaseException) -> str:
    line = str(error).strip().partition("\n")[0]
    return line if len(line) <= 4 * SHORT else f"{line[: 4 * SHORT]}..."


def columns_of(expression: str) -> list[str]:
    """Return the columns that an expression names. Raises BadKeep."""
    return sorted(set(parse(expression).meta.root_names()))


def fault(expression: str, schema: pa.Schema) -> str | None:
    """Say what is wrong with an expression over these columns, or None if it can be evaluated."""
    if fault_of_size := too_long(expression):
        return fault_of_size
    return fault_here(expression, schema) if is_small(expression) else judged_apart(expression, schema)


def answer_apart(question: str) -> None:
    """Judge an expression in a process of its own, and print the answer."""
    sys.stdout.write(answer_within_bounds(question, fault_here))


def fault_here(expression: str, schema: pa.Schema) -> str | None:
    """Say what is wrong with an expression, and what may be meant."""
    found = found_here(expression, schema)
    if found is None:
        return None
    if any(f'column "{name}"' in found for name in IN_DOUBLE_QUOTES.findall(expression)):
        return f"{found}; a text stands in single quotes"
    unquoted = QUOTED.sub("''", expression)
    return found + next((hint for sign, hint in HINTS.items() if re.search(sign, unquoted)), "")


def found_here(expression: str, schema: pa.Schema) -> str | None:
    """Say what is wrong with an expression that can be read at all."""
    try:
        tree = parse(expression)
        missing = [name for name in tree.meta.root_names() if name not in schema.names]
        if missing:
            known = ", ".join(map(repr, schema.names))
            return f'unable to find column "{missing[0]}"; there are {known}'
        if fault_of_rows := next(parts_beyond_row(expression, tree), None):
            return fault_of_rows
        named = pa.schema([schema.field(name) for name in columns_of(expression)])
        if odd := [field for field in named if pa.types.is_decimal256(field.type)]:
            return f"column {odd[0].name!r} is {odd[0].type}, which polars cannot read"
        tree = comparing_numbers_of(expression, named)
        answers = evaluate(tree, pa.table([pa.nulls(2, field.type) for field in named], schema=named))
    except BadKeep as error:
        return error.found
    except RecursionError:
        return TOO_DEEP
    if answers.dtype not in (pl.Boolean, pl.Null):
        return f"it gives {answers.dtype}, expected Boolean, as a comparison does (score > 3)"
    if len(answers) != (2 if len(named) else 1) or looks_beyond(tree, samples(named)):
        return "its answer for a row depends on the other rows"
    return None


def parts_beyond_row(expression: str, tree: pl.Expr) -> Iterator[str]:
    """Say which parts of an expression look at other rows, or at a clock."""
    clock = CLOCKS.search(QUOTED.sub("''", expression))
    if clock and clock[0] not in tree.meta.root_names():
        yield f"{clock[0]} is another at each build; write the date or time itself"
    try:
        nodes = json.loads(tree.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError) as error:
        yield f"it cannot be read: {short_first_line(error)}"
        return
    if fault_of_size := too_much(nodes):
        yield fault_of_size
        return
    for part in beyond(nodes):
        yield f"{part} does not look at a row by itself, so that its answer would depend on other rows"


def looks_beyond(tree: pl.Expr, rows: pa.Table) -> bool:
    """Say whether the answers for some rows together are not those for each alone.

    Rows on which it fails say nothing: that is for the data to show.
    """
    if not rows.num_columns:
        return False
    try:
        together = evaluate(tree, rows).to_list()
    except BadKeep:
        alone = [row for row in range(len(rows)) if is_evaluable(tree, rows.slice(row, 1))]
        return bool(alone) and len(alone) < len(rows) and looks_beyond(tree, rows.take(alone))
    apart = [evaluate(tree, rows.slice(row, 1)).to_list() for row in range(len(rows))]
    return [[answer] for answer in together] != apart


def is_evaluable(tree: pl.Expr, rows: pa.Table) -> bool:
    try:
        evaluate(tree, rows)
    except BadKeep:
        return False
    return True


def evaluate(tree: pl.Expr, table: pa.Table) -> pl.Series:
    """Evaluate an expression on a table of the columns that it names. Raises BadKeep."""
    try:
        frame = without_nan(pl.DataFrame(table))
        return frame.select(tree.alias("keep")).get_column("keep")
    except (pl.exceptions.PolarsError, ValueError, TypeError, NotImplementedError) as error:
        raise BadKeep(short_first_line(error)) from error
    except BaseException as error:
        raise panic(error) from error


@lru_cache(maxsize=64)
def comparing_numbers_of(expression: str, schema: pa.Schema) -> pl.Expr:
    """Read an expression over some columns, in which what is not a number is null. Raises BadKeep."""
    try:
        return comparing_numbers(parse(expression), pl.DataFrame(schema.empty_table()))
    except (pl.exceptions.PolarsError, ValueError, TypeError, NotImplementedError) as error:
        raise BadKeep(short_first_line(error)) from error
    except BaseException as error:
        raise panic(error) from error


def keep_mask(expression: str, table: pa.Table) -> NDArray[np.bool_]:
    """Evaluate an expression on each row: (n,) bool; a row for which it is null is not kept.

    What is not a number counts as null. Raises BadKeep with the row, where there is one that the expression cannot
    be evaluated on.
    """
    names = columns_of(expression)
    named = table.select(names)
    tree = comparing_numbers_of(expression, named.schema)
    if not names:  # an expression of constants has one answer, for which polars needs a row
        named = pa.table({"row": pa.nulls(1)})
    try:
        answers = evaluate(tree, named)
    except BadKeep as error:
        raise first_fault(tree, named, error) from error
    is_kept = answers.fill_null(value=False).to_numpy().astype(np.bool_)
    return np.broadcast_to(is_kept, len(table)) if not names else is_kept


def first_fault(tree: pl.Expr, table: pa.Table, error: BadKeep) -> BadKeep:
    """Find the first row that an expression fails on, by halves."""
    start, stop = 0, len(table)
    if stop == 0 or not is_evaluable(tree, table.slice(0, 0)):
        return error
    while stop - start > 1:  # the first row that fails is in [start, stop)
        middle = (start + stop) // 2
        if is_evaluable(tree, table.slice(start, middle - start)):
            start = middle
        else:
            stop = middle
    values = ", ".join(
        f"{name} = {shorten(table.column(name)[start].as_py())}" for name in table.column_names
    )
    return BadKeep(f"it cannot be evaluated where {values}", row=start)


def shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHORT else f"{text[:SHORT]}..."
