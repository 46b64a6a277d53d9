"""A source's own columns: one type each, whatever its files hold.

A value keeps its type where all the values of its column agree (integers and floats agree as
floats, an object agrees with one that has more fields). Where they do not, the whole column is
kept as JSON text and its field says so in its metadata, so nothing is lost and nothing is guessed.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

JSON_TEXT = {b"zyda": b"json"}


def is_json(field: pa.Field) -> bool:
    return bool(field.metadata) and field.metadata.get(b"zyda") == b"json"


def json_field(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=JSON_TEXT)


def has_parquet_type(kind: pa.DataType) -> bool:
    """Say whether Parquet can hold a type: it has no object without fields."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(has_parquet_type(f.type) for f in kind)
    if pa.types.is_list(kind):
        return has_parquet_type(kind.value_type)
    return True


def as_json(values: Iterable[Any]) -> pa.Array:
    """Write each value as JSON; null stays null."""
    texts = [None if v is None else orjson.dumps(v, default=str).decode() for v in values]
    return pa.array(texts, pa.string())


def column(name: str, values: Sequence[Any]) -> tuple[pa.Field, pa.Array]:
    """Make a column of decoded JSON values: typed where they agree, JSON text where not."""
    try:
        array = pa.array(values)
        if has_parquet_type(array.type) and not loses_booleans(array.type, values):
            return pa.field(name, array.type), array
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    return json_field(name), as_json(values)


def loses_booleans(kind: pa.DataType, values: Sequence[Any]) -> bool:
    """Say whether true or false would be read as a number."""
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return numeric and any(isinstance(value, bool) for value in values)


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Make a table of JSON objects; a field that an object lacks is null."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [column(name, [row.get(name) for row in rows]) for name in names]
    return pa.table([array for _, array in columns], pa.schema([field for field, _ in columns]))


def unify(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema that holds the rows of all: the fields in order of first appearance."""
    try:
        if not any(is_json(field) for schema in schemas for field in schema):
            return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        pass
    names = dict.fromkeys(name for schema in schemas for name in schema.names)
    return pa.schema([unify_field(name, schemas) for name in names])


def unify_field(name: str, schemas: Sequence[pa.Schema]) -> pa.Field:
    fields = [schema.field(name) for schema in schemas if name in schema.names]
    if not any(is_json(field) for field in fields):
        try:
            alone = [pa.schema([field]) for field in fields]
            return pa.unify_schemas(alone, promote_options="permissive").field(0)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            pass
    return json_field(name)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table the columns and types of a schema that `unify` made from its own."""
    return pa.table([conform_column(table, field) for field in schema], schema=schema)


def conform_column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(len(table), field.type)
    found = table.schema.field(field.name)
    values = table.column(field.name)
    if is_json(field) and not is_json(found):
        return as_json(values.to_pylist())
    return values if found.type == field.type else values.cast(field.type)


def pack(schema: pa.Schema) -> str:
    """Write a schema as text, for a manifest."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpack(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def text_buffers(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes of a column of text and its (n + 1,) offsets, without a copy."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), ends


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy where it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
