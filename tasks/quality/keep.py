"""The `keep` of a source and the `where` of a mixture: SQL over the columns of a row, evaluated by DuckDB.

An expression is evaluated on some rows at a time, so its answer for a row must not depend on other rows or on a
clock. sqlglot parses it, only parts that look at one row are translated, and DuckDB evaluates them in this process
without access to files, network or extensions.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.quality.keep_parser import (
    CLOCKS,
    QUOTED,
    SHOWN_CHARACTERS,
    BadKeep,
    parse,
    paths_in,
    too_deep,
)
from zyda_flows.tasks.quality.keep_sql import RowTable, Translator, reason_of

# Signs of another language, and the advice for each.
HINTS = {
    r"&&|\|\|": "; write AND and OR",
    r"(?i)\bselect\b": "; it is the condition of a WHERE, over the columns of one document, and can have no SELECT",
}
IN_DOUBLE_QUOTES = re.compile(r'"([^"]*)"')
OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?")  # of a time zone
SETTINGS: dict[str, Any] = {
    "threads": 1, "enable_external_access": False, "autoload_known_extensions": False,
    "autoinstall_known_extensions": False, "python_enable_replacements": False, "ieee_floating_point_ops": False,
    "disabled_optimizers": "expression_rewriter",
}  # fmt: skip


class CompiledExpression(NamedTuple):
    """An expression in DuckDB's SQL. paths: what it reads, as columns c0, c1, ...; kind: the type of its answer."""

    sql: str
    kind: str
    paths: tuple[tuple[str, ...], ...]
    zone: str


@cache  # by process, because a forked process must not use the database of its parent
def database(process: int) -> duckdb.DuckDBPyConnection:
    """Return the database in the memory of a process. process: its id."""
    connection = duckdb.connect(":memory:", config=SETTINGS)
    text = duckdb.sqltypes.VARCHAR
    connection.create_function("initcap", lambda texts: pc.utf8_title(texts), [text], text, type="arrow")
    connection.create_function("normalize", normalized, [text, text], text, type="arrow")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def normalized(texts: pa.ChunkedArray, forms: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_normalize(texts, forms[0].as_py()) if len(texts) else texts


def connected(zone: str, table: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return a connection in which a table has the name `rows`."""
    connection = database(os.getpid()).cursor()
    if zone != "UTC":
        connection.execute(f"SET TimeZone = '{zone}'")
    connection.register("rows", table)
    return connection


@lru_cache(maxsize=64)
def columns_of(expression: str) -> tuple[str, ...]:
    """Return the columns that an expression names, sorted. Raises BadKeep."""
    return tuple(sorted({path[0] for path in paths_in(on_fresh_stack(parse, expression))}))


def on_fresh_stack(function: Any, *arguments: Any) -> Any:
    """Call a recursive function in another thread, so that its maximum depth does not depend on the caller."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def fault(expression: str, schema: pa.Schema) -> str | None:
    """Return what is wrong with an expression over these columns, or None if it can be evaluated."""
    description = fault_without_hint(expression, schema)
    if description is None:
        return None
    if any(f'column "{name}"' in description for name in IN_DOUBLE_QUOTES.findall(expression)):
        return f"{description}; a text stands in single quotes"
    unquoted = QUOTED.sub("''", expression)
    return description + next((hint for sign, hint in HINTS.items() if re.search(sign, unquoted)), "")


def fault_without_hint(expression: str, schema: pa.Schema) -> str | None:
    try:
        names = columns_of(expression)
        clock = CLOCKS.search(QUOTED.sub("''", expression))
        if clock and clock[0] not in names:
            return f"{clock[0]} is another at each build; write the date or time itself"
        if missing := [name for name in names if name not in schema.names]:
            known = ", ".join(map(repr, schema.names))
            return f'unable to find column "{missing[0]}"; there are {known}'
        compiled = compile_keep(expression, pa.schema([schema.field(name) for name in names]))
    except BadKeep as error:
        return str(error)
    if compiled.kind not in {"BOOLEAN", '"NULL"'}:
        return f"it gives {compiled.kind}, expected Boolean, as a comparison does (score > 3)"
    return None


@lru_cache(maxsize=64)
def compile_keep(expression: str, schema: pa.Schema) -> CompiledExpression:
    """Translate an expression over the columns that it names. Raises BadKeep."""
    return on_fresh_stack(translate, expression, schema)


def translate(expression: str, schema: pa.Schema) -> CompiledExpression:
    tree = parse(expression)
    paths = paths_in(tree)
    rows = rows_of(schema.empty_table(), tuple(paths))
    zone = zone_of(rows)
    columns = {path: f"c{number}" for number, path in enumerate(paths)}
    try:
        with connected(zone, rows) as connection:
            answer = Translator(RowTable(connection, columns)).part(tree)
    except RecursionError as error:
        raise BadKeep(too_deep()) from error
    except duckdb.Error as error:
        raise BadKeep(reason_of(error)) from error
    return CompiledExpression(answer.sql, answer.kind, tuple(paths), zone)


def zone_of(rows: pa.Table) -> str:
    """Return the time zone in which the parts of times are taken. Raises BadKeep if there are several."""
    zones = {zone for field in rows.schema for zone in zones_in(field.type)}
    if len(zones) > 1:
        raise BadKeep(f"its columns are of several time zones: {', '.join(sorted(zones))}")
    return next(iter(zones), "UTC")


def zones_in(kind: pa.DataType) -> set[str]:
    """Return the time zones of a type, at every level."""
    if pa.types.is_timestamp(kind):
        return {kind.tz} if kind.tz else set()
    return {zone for i in range(kind.num_fields) for zone in zones_in(kind.field(i).type)}


def with_named_zones(kind: pa.DataType) -> pa.DataType:
    """Return a type with names that DuckDB knows for time zones that are offsets: GMT+05:30 for +0530."""
    if pa.types.is_timestamp(kind) and kind.tz and (offset := OFFSET.fullmatch(kind.tz)):
        return pa.timestamp(kind.unit, f"GMT{offset[1]}{offset[2]}:{offset[3] or '00'}")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(with_named_zones(kind.value_type)))
    return kind


def rows_of(table: pa.Table, paths: tuple[tuple[str, ...], ...]) -> pa.Table:
    """Return the columns that an expression reads, as DuckDB reads them: c0, c1, ... Raises BadKeep."""
    columns = [column_at(table, path) for path in paths]
    if not columns:
        return pa.table({"c": pa.nulls(1)})
    return pa.table(columns, names=[f"c{number}" for number in range(len(columns))])


def column_at(table: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    """Return a column, or a field of its structs, in which NaN is null."""
    column = table.column(path[0])
    for name in path[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            raise BadKeep(f"unable to find field {name[:SHOWN_CHARACTERS]!r} in column {path[0]!r}")
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    kind = column.type
    if pa.types.is_decimal256(kind):
        raise BadKeep(f"column {path[0]!r} is {kind}, which DuckDB cannot read")
    if pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
    if (named := with_named_zones(kind)) != kind:
        column = column.cast(named)
    if pa.types.is_duration(kind):
        try:
            column = column.cast(pa.duration("us"))
        except pa.ArrowInvalid as error:
            raise BadKeep(f"column {path[0]!r} has durations that microseconds do not hold") from error
    return column


def evaluate(compiled: CompiledExpression, table: pa.Table) -> NDArray[np.bool_]:
    """Return the rows of a table for which an expression is true: bool, (n,). Raises BadKeep."""
    query = f"SELECT CAST({compiled.sql} AS BOOLEAN) AS answer FROM rows"  # noqa: S608 (translated)
    try:
        with connected(compiled.zone, rows_of(table, compiled.paths)) as connection:
            answers = connection.execute(query).fetchnumpy()["answer"]
    except duckdb.Error as error:
        raise BadKeep(reason_of(error)) from error
    return np.ma.filled(answers, False)


def keep_mask(expression: str, table: pa.Table) -> NDArray[np.bool_]:
    """Evaluate an expression on each row: bool, (n,), False where it is null.

    Raises BadKeep with the first row on which the expression cannot be evaluated.
    """
    named = table.select(list(columns_of(expression)))
    compiled = compile_keep(expression, named.schema)
    try:
        is_kept = evaluate(compiled, named)
    except BadKeep as error:
        raise first_fault(compiled, named, error) from error
    return is_kept if compiled.paths else np.broadcast_to(is_kept, len(table))


def first_fault(compiled: CompiledExpression, table: pa.Table, error: BadKeep) -> BadKeep:
    """Find the first row on which an expression fails, by bisection."""
    start, stop = 0, len(table)
    if not compiled.paths:
        return error
    while stop - start > 1:  # the first row that fails is in [start, stop)
        middle = (start + stop) // 2
        try:
            evaluate(compiled, table.slice(start, middle - start))
            start = middle
        except BadKeep as earlier:
            stop, error = middle, earlier
    values = ", ".join(f"{name} = {shorten(table.column(name)[start])}" for name in table.column_names)
    return BadKeep(f"{error}: it cannot be evaluated where {values}", row=start)


def shorten(value: pa.Scalar) -> str:
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError):  # a time that Python does not hold
        text = str(value.cast(pa.int64()))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
