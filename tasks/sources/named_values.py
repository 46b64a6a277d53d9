"""What stands in a column, or in a field of a column of objects: `license`, `meta.license`."""

import json
from collections.abc import Sequence
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
LIST_SEPARATOR = "\x1f"  # values of a list, written as one text


def column_texts(table: pa.Table, path: str, what: str, *, lists: bool = False) -> pa.Array:
    """Return the values of a column, or of a field in a column of objects, as text: (n,) strings.

    what: is named there. lists: whether one may be a list of texts, which are returned with BETWEEN between them.
    Raises ValueError for a column of another kind.
    """
    values = column_values(table, path)
    if values is None:
        return pa.nulls(len(table), pa.string())
    if not isinstance(values, pa.Array):
        return pa.array((as_text(value, lists=lists) for value in values), pa.string())
    column = values
    is_list = any(
        of(column.type) for of in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )
    kind = column.type.value_type if lists and is_list else column.type
    if pa.types.is_nested(kind) or any(of(kind) for of in BINARY):
        expected = "a text, a number or a list of them does" if lists else "a text or a number does"
        raise ValueError(f"column {path!r} is {column.type}, which names no {what}; {expected}")
    if kind is not column.type or pa.types.is_floating(kind):
        return pa.array((as_text(value, lists=lists) for value in column.to_pylist()), pa.string())
    return column.cast(pa.string())


def column_values(table: pa.Table, path: str) -> pa.Array | list[Any] | None:
    """Return the values of a column, or of a field in a column of objects: (n,), decoded where they are JSON text.

    None where there is no such column or field. Raises ValueError for a column without fields.
    """
    name = column_of(path, table.column_names)
    if name is None:
        return None
    field, column = table.schema.field(name), as_one_array(table.column(name))
    below = path[len(name) + 1 :].split(".") if name != path else []
    if is_json(field):
        return [None if text is None else value_at(json.loads(text), below) for text in column.to_pylist()]
    while below and pa.types.is_struct(column.type) and column.type.get_field_index(below[0]) >= 0:
        column = pc.struct_field(column, below.pop(0))
    if below and not (pa.types.is_struct(column.type) or pa.types.is_null(column.type)):
        raise ValueError(f"column {name!r} is {column.type}, which has no fields")
    return None if below else column


def column_of(path: str, names: Sequence[str]) -> str | None:
    """Return the column that a path begins with, if there is one."""
    return max((name for name in names if name == path or path.startswith(f"{name}.")), key=len, default=None)


def value_at(value: Any, path: Sequence[str]) -> Any:
    """Return a value in decoded JSON. path: the fields that lead to it."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def as_text(value: Any, *, lists: bool) -> str | None:
    """Return a text or number as text, None for anything else."""
    if isinstance(value, list) and lists:
        return LIST_SEPARATOR.join(text for one in value if (text := as_text(one, lists=False)) is not None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of numbers may be read as either
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None
