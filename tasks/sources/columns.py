"""The columns of a source: one type for each column, over all files of the source.

A value keeps its type if all values of its column agree. Integers and floats agree as floats if each integer is an
exact float; times of several units agree in the finest unit that holds all of them; an object agrees with an
object that has more fields. Otherwise the whole column is stored as JSON text (`tasks.sources.json_text`), and the
metadata of its field records that, so no value is lost. Objects with more than MAX_FIELDS fields, whose keys are
usually data, are stored as JSON text too, and so are types that Parquet lacks.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.sources.json_text import array_as_json
from zyda_flows.tasks.sources.type_unification import ValueRanges, count_fields, unify_types

JSON_TEXT = {b"zyda": b"json"}
MAX_FIELDS = 200  # of the objects of a column, at all levels
MAX_COLUMNS = 2000
VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
BYTE_TYPES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
LIST_MAKERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Field], pa.DataType]], ...] = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)


def is_json(field: pa.Field) -> bool:
    return bool(field.metadata) and field.metadata.get(b"zyda") == b"json"


def json_field(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=JSON_TEXT)


def decoded_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the same values without an encoding, or None if only JSON text can hold them.

    No field is required at any level, because another file of the source may lack it.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return decoded_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return decoded_type(kind.value_type)
    if pa.types.is_union(kind) or pa.types.is_interval(kind) or is_invalid_struct(kind):
        return None
    if pa.types.is_list_view(kind):
        kind = pa.list_(kind.value_field)
    elif pa.types.is_large_list_view(kind):
        kind = pa.large_list(kind.value_field)
    return with_inner_types(VIEWS.get(kind, kind), decoded_type)


def is_invalid_struct(kind: pa.DataType) -> bool:
    """Return whether a type is a struct without fields, or with two fields of the same name."""
    return bool(pa.types.is_struct(kind)) and not 0 < kind.num_fields == len({field.name for field in kind})


def as_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type with the same layout, with bytes in place of texts and no required field, at all levels."""
    return with_inner_types(BYTE_TYPES.get(kind, kind), as_bytes)


def with_inner_types(
    kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType | None]
) -> pa.DataType | None:
    """Return a nested type with changed inner types, without required fields; None if a changed type is None.

    A type that is not nested is returned unchanged.
    """
    children = inner_fields(kind)
    changed = [change(child.type) for child in children]
    if None in changed:
        return None
    fields = [
        child.with_type(inner).with_nullable(True) for child, inner in zip(children, changed, strict=True)
    ]
    if not fields:
        return kind
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        return pa.map_(fields[0].with_nullable(False), fields[1])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, changed[0], kind.ordered)
    return next((make(fields[0]) for is_kind, make in LIST_MAKERS if is_kind(kind)), kind)


def inner_fields(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields of a nested type; empty for other types."""
    if pa.types.is_dictionary(kind):
        return [pa.field("values", kind.value_type)]
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)]


def decode_table(table: pa.Table) -> pa.Table:
    """Decode the encoded columns of a table, so that they agree with the columns of other files."""
    for i, field in enumerate(table.schema):
        kind = decoded_type(field.type)
        if kind is None:
            table = table.set_column(i, json_field(field.name), array_as_json(table.column(i)))
        elif kind != field.type or not field.nullable:
            column = table.column(i) if kind == field.type else cast_decoded(table.column(i), kind)
            table = table.set_column(i, field.with_type(kind).with_nullable(True), column)
    return table


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of `decode_table` for a table with the given schema."""
    kinds = [decoded_type(field.type) for field in schema]
    fields = zip(schema, kinds, strict=True)
    return pa.schema(
        [json_field(f.name) if kind is None else f.with_type(kind).with_nullable(True) for f, kind in fields]
    )


def cast_decoded(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Decode a column to the type that `decoded_type` returns for it."""
    if pa.types.is_run_end_encoded(column.type):
        column = pa.chunked_array(
            [pc.run_end_decode(chunk) for chunk in column.chunks], column.type.value_type
        )
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    with suppress(pa.ArrowNotImplementedError):  # for an encoding inside a nested type
        if "list_view" not in str(column.type):  # a cast makes invalid lists of these (pyarrow 26)
            return column.cast(kind)
    return pa.chunked_array([pa.array(column.to_pylist(), kind)])


def unify(schemas: Sequence[pa.Schema], spans: ValueRanges | None = None) -> pa.Schema:
    """Return the schema that holds the rows of all schemas, with the fields in the order of first appearance.

    spans: the ranges of the values of the columns; without them, all values are assumed to fit.
    """
    fields = dict[str, list[pa.Field]]()
    for schema in schemas:
        for field in schema:
            fields.setdefault(field.name, []).append(field)
    ranges = spans or ValueRanges()
    return pa.schema([unify_field(name, same_name, ranges) for name, same_name in fields.items()])


def unify_field(name: str, fields: Sequence[pa.Field], spans: ValueRanges) -> pa.Field:
    """Return the field that holds the values of all fields of a name: JSON text if no type does."""
    if any(is_json(field) for field in fields):
        return json_field(name)
    kinds = list(dict.fromkeys(field.type for field in fields))
    kind = unify_types(kinds, spans.integers.get(name, (0, 0)), spans.seconds.get(name, (0, 0)))
    if kind is None or (len(kinds) > 1 and count_fields(kind) > MAX_FIELDS):
        return json_field(name)
    return fields[0].with_type(kind).with_nullable(True)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert a table to a schema that `unify` made from the table's schema and others."""
    return pa.table([conform_column(table, field) for field in schema], schema=schema)


def conform_column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """Return the column of a field, with null in all rows if the table lacks it."""
    if field.name not in table.column_names:
        return pa.nulls(len(table), field.type)
    own = table.schema.field(field.name)
    values = table.column(field.name)
    if is_json(field) and not is_json(own):
        return array_as_json(values)
    return values if own.type == field.type else values.cast(field.type)


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy if it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
