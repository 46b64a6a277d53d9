"""The values of a column, or of a field in a column of objects, by a path: `license`, `meta.license`."""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.sources.columns import as_one_array, is_json

BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
LIST_SEPARATOR = "\x1f"  # between the values of a list in one text


def column_texts(table: pa.Table, path: str, subject: str, *, lists: bool = False) -> pa.Array:
    """Return the values of a column, or of a field in a column of objects, as text: (n,) strings.

    subject: the noun for the values in errors. lists: whether a value may be a list of texts, which are joined
    with LIST_SEPARATOR. Raises ValueError for a column of another type.
    """
    values = column_values(table, path)
    if values is None:
        return pa.nulls(len(table), pa.string())
    if not isinstance(values, pa.Array):
        return pa.array((as_text(value, lists=lists) for value in values), pa.string())
    column = values
    kind = column.type.value_type if lists and any(test(column.type) for test in LISTS) else column.type
    if pa.types.is_nested(kind) or any(test(kind) for test in BINARY):
        expected = "a text, a number or a list of them does" if lists else "a text or a number does"
        raise ValueError(f"column {path!r} is {column.type}, which names no {subject}; {expected}")
    if kind is not column.type or pa.types.is_floating(kind):
        return pa.array((as_text(value, lists=lists) for value in column.to_pylist()), pa.string())
    return column.cast(pa.string())


def column_values(table: pa.Table, path: str) -> pa.Array | list[Any] | None:
    """Return the values of a column, or of a field in a column of objects: (n,), decoded if they are JSON text.

    Returns None if the column or field is missing. Raises ValueError for a field of a column without fields.
    """
    name = column_of(path, table.column_names)
    if name is None:
        return None
    field, column = table.schema.field(name), as_one_array(table.column(name))
    below = path[len(name) + 1 :].split(".") if name != path else []
    if is_json(field):
        return [None if text is None else value_at(json.loads(text), below) for text in column.to_pylist()]
    return field_at(column, below, name)


def field_at(column: pa.Array, path: list[str], name: str) -> pa.Array | None:
    """Return the values of a field, None if it is missing. path: below the column `name`."""
    for step in path:
        if not (pa.types.is_struct(column.type) or pa.types.is_null(column.type)):
            raise ValueError(f"column {name!r} is {column.type}, which has no fields")
        if pa.types.is_null(column.type) or column.type.get_field_index(step) < 0:
            return None
        column = pc.struct_field(column, step)
    return column


def column_of(path: str, names: Sequence[str]) -> str | None:
    """Return the longest column name with which a path begins, or None."""
    return max((name for name in names if name == path or path.startswith(f"{name}.")), key=len, default=None)


def value_at(value: Any, path: Sequence[str]) -> Any:
    """Return a value in decoded JSON, None if it is missing. path: the fields that lead to it."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def as_text(value: Any, *, lists: bool) -> str | None:
    """Return a text or a finite number as text, None for other values. lists: whether to join a list of them."""
    if isinstance(value, list) and lists:
        return LIST_SEPARATOR.join(
            text for element in value if (text := as_text(element, lists=False)) is not None
        )
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a file may store the same numbers as integers or floats
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None
