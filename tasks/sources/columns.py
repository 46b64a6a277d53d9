"""A source's own columns: one type each, whatever its files hold.

A value keeps its type where all the values of its column agree: integers and floats agree as floats
where each integer is one exactly, times of several units as the finest where it holds them all, an
object with one that has more fields. Where they do not, the whole column is kept as JSON text (see
`tasks.sources.json_text`) and its field says so in its metadata, so nothing is lost and nothing is guessed.
Objects with more than MAX_FIELDS fields, which have data for keys as a rule, are kept as JSON text too,
and so is what Parquet has no type for.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.sources.json_text import array_as_json, as_json_text
from zyda_flows.tasks.sources.type_unification import ValueRanges, count_fields, unify_types

JSON_TEXT = {b"zyda": b"json"}
MAX_FIELDS = 200  # of the objects of a column, in all their levels
MAX_COLUMNS = 2000
MAX_LEVELS = 30  # of a typed column; Arrow reads no more than 64 back from a file


class TooWide(ValueError):
    """Rows with too many fields of different names."""


def is_json(field: pa.Field) -> bool:
    return bool(field.metadata) and field.metadata.get(b"zyda") == b"json"


def json_field(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=JSON_TEXT)


# What a file holds, in types that all files have in common


def decoded_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the same values without an encoding, or None where only JSON does.

    No field of it is required at any level: another file of the source may lack it.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return decoded_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return decoded_type(kind.value_type)
    if pa.types.is_union(kind) or pa.types.is_interval(kind):
        return None
    if pa.types.is_struct(kind) and not 0 < kind.num_fields == len({field.name for field in kind}):
        return None
    if is_view_list(kind):
        make = pa.large_list if pa.types.is_large_list_view(kind) else pa.list_
        kind = make(kind.value_field)
    views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return with_inner_types(views.get(kind, kind), decoded_type)


def is_view_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def as_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type with the same layout that has bytes for texts and no required field, at every level."""
    names = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    return with_inner_types(names.get(kind, kind), as_bytes)


def with_inner_types(
    kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType | None]
) -> pa.DataType | None:
    """Return a nested type with other types in it, None where one of them is None. No field is required.

    A type that is not nested is returned as it is.
    """
    children = [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_dictionary(kind):
        children = [pa.field("values", kind.value_type)]
    if pa.types.is_map(kind):
        children = [kind.key_field, kind.item_field]
    inner = [change(child.type) for child in children]
    if not inner or None in inner:
        return None if inner else kind
    fields = [child.with_type(of).with_nullable(True) for child, of in zip(children, inner, strict=True)]
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        return pa.map_(fields[0].with_nullable(False), fields[1])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, inner[0], kind.ordered)
    makers = {
        pa.types.is_list: pa.list_,
        pa.types.is_large_list: pa.large_list,
        pa.types.is_list_view: pa.list_view,
        pa.types.is_large_list_view: pa.large_list_view,
    }
    return next((make(fields[0]) for is_kind, make in makers.items() if is_kind(kind)), kind)


def decode_table(table: pa.Table) -> pa.Table:
    """Decode what a file has encoded, so that its columns agree with those of other files."""
    for i, field in enumerate(table.schema):
        kind = decoded_type(field.type)
        if kind is None:
            table = table.set_column(i, json_field(field.name), array_as_json(table.column(i)))
        elif kind != field.type or not field.nullable:
            column = table.column(i) if kind == field.type else cast_decoded(table.column(i), kind)
            table = table.set_column(i, field.with_type(kind).with_nullable(True), column)
    return table


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of what `decode_table` makes of a table."""
    kinds = [decoded_type(field.type) for field in schema]
    fields = zip(schema, kinds, strict=True)
    return pa.schema(
        [json_field(f.name) if kind is None else f.with_type(kind).with_nullable(True) for f, kind in fields]
    )


def cast_decoded(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_run_end_encoded(column.type):
        column = pa.chunked_array(
            [pc.run_end_decode(chunk) for chunk in column.chunks], column.type.value_type
        )
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    with suppress(pa.ArrowNotImplementedError):  # for an encoding deep inside
        if "list_view" not in str(column.type):  # of which a cast makes invalid lists (pyarrow 26)
            return column.cast(kind)
    return pa.chunked_array([pa.array(column.to_pylist(), kind)])


# What JSON holds


def has_parquet_type(kind: pa.DataType, levels: int = 0) -> bool:
    """Say whether Parquet can hold a type: it has no object without fields."""
    if levels > MAX_LEVELS:
        return False
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(has_parquet_type(f.type, levels + 1) for f in kind)
    return has_parquet_type(kind.value_type, levels + 1) if pa.types.is_list(kind) else True


def json_column(name: str, values: Sequence[Any]) -> tuple[pa.Field, pa.Array]:
    """Make a column of decoded JSON values: typed where they agree, JSON text where not."""
    if not has_many_fields(values) and not mixes_booleans(values):
        try:
            array = pa.array(values)
            if has_parquet_type(array.type):
                return pa.field(name, array.type), array
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
    return json_field(name), as_json_text(values)


def has_many_fields(values: Sequence[Any], room: int = MAX_FIELDS) -> bool:
    """Say whether the objects among values have more fields than a type should, in all their levels."""
    level = [("", values)]
    while level:
        below = list[tuple[str, Sequence[Any]]]()
        for _, siblings in level:
            objects = [value for value in siblings if type(value) is dict]
            names = set[str]().union(*objects)
            room -= len(names)
            if room < 0:
                return True
            below += [(name, [item[name] for item in objects if name in item]) for name in names]
            inner = [value for value in siblings if type(value) is list]
            below += [("", list(chain.from_iterable(inner)))] if inner else []
        level = [
            (name, siblings)
            for name, siblings in below
            if any(type(value) in (dict, list) for value in siblings)
        ]
    return False


def mixes_booleans(values: Sequence[Any]) -> bool:
    """Say whether true or false would be read as a number, at any level."""
    kinds = set(map(type, values))
    if bool in kinds and (int in kinds or float in kinds):
        return True
    inner = [value for value in values if type(value) is list]
    if inner and mixes_booleans(list(chain.from_iterable(inner))):
        return True
    objects = [value for value in values if type(value) is dict]
    names = set[str]().union(*objects)
    return any(mixes_booleans([item[name] for item in objects if name in item]) for name in names)


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Make a table of JSON objects; a field that an object lacks is null. Raises TooWide."""
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    if len(names) > MAX_COLUMNS:
        raise TooWide(f"its rows have fields of more than {MAX_COLUMNS:,} names; put them into one object")
    columns = [json_column(name, [row.get(name) for row in rows]) for name in names]
    return pa.table([array for _, array in columns], pa.schema([field for field, _ in columns]))


# What the files of a source have in common


def unify(schemas: Sequence[pa.Schema], spans: ValueRanges | None = None) -> pa.Schema:
    """Return the schema that holds the rows of all: the fields in order of first appearance.

    spans: how far the values of the columns reach; without, they are taken to fit.
    """
    fields = dict[str, list[pa.Field]]()
    for schema in schemas:
        for field in schema:
            fields.setdefault(field.name, []).append(field)
    return pa.schema([unify_field(name, of_name, spans or ValueRanges()) for name, of_name in fields.items()])


def unify_field(name: str, fields: Sequence[pa.Field], spans: ValueRanges) -> pa.Field:
    if any(is_json(field) for field in fields):
        return json_field(name)
    kinds = list(dict.fromkeys(field.type for field in fields))
    kind = unify_types(kinds, spans.integers.get(name, (0, 0)), spans.seconds.get(name, (0, 0)))
    if kind is None or (len(kinds) > 1 and count_fields(kind) > MAX_FIELDS):
        return json_field(name)
    return fields[0].with_type(kind).with_nullable(True)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table the columns and types of a schema that `unify` made from its own."""
    return pa.table([conform_column(table, field) for field in schema], schema=schema)


def conform_column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(len(table), field.type)
    own = table.schema.field(field.name)
    values = table.column(field.name)
    if is_json(field) and not is_json(own):
        return array_as_json(values)
    return values if own.type == field.type else values.cast(field.type)


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy where it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
