"""Columns of decoded JSON objects: typed if their values agree, JSON text otherwise."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.sources.columns import MAX_COLUMNS, MAX_FIELDS, json_field
from zyda_flows.tasks.sources.json_text import as_json_text

MAX_LEVELS = 30  # of a typed column; Arrow reads at most 64 levels back from a file


class TooWide(ValueError):
    """Rows with too many fields of different names."""


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Make a table of JSON objects; a field that an object lacks is null. Raises TooWide."""
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    if len(names) > MAX_COLUMNS:
        raise TooWide(f"its rows have fields of more than {MAX_COLUMNS:,} names; put them into one object")
    columns = [json_column(name, [row.get(name) for row in rows]) for name in names]
    return pa.table([array for _, array in columns], pa.schema([field for field, _ in columns]))


def json_column(name: str, values: Sequence[Any]) -> tuple[pa.Field, pa.Array]:
    """Make a column of decoded JSON values: typed if they agree, JSON text otherwise."""
    if not has_many_fields(values) and not mixes_booleans(values):
        try:
            array = pa.array(values)
            if has_parquet_type(array.type):
                return pa.field(name, array.type), array
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
    return json_field(name), as_json_text(values)


def has_parquet_type(kind: pa.DataType, levels: int = 0) -> bool:
    """Return whether Parquet can hold a type: it has no objects without fields."""
    if levels > MAX_LEVELS:
        return False
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(has_parquet_type(f.type, levels + 1) for f in kind)
    return has_parquet_type(kind.value_type, levels + 1) if pa.types.is_list(kind) else True


def inner_values(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the values of each field of the objects among values, then the elements of the lists."""
    objects = [value for value in values if type(value) is dict]
    for name in set[str]().union(*objects):
        yield [item[name] for item in objects if name in item]
    lists = [value for value in values if type(value) is list]
    if lists:
        yield list(chain.from_iterable(lists))


def has_many_fields(values: Sequence[Any], room: int = MAX_FIELDS) -> bool:
    """Return whether the objects among values have more than `room` fields, at all levels together."""
    level = [values]
    while level:
        below = list[list[Any]]()
        for siblings in level:
            fields = set[str]().union(*(value for value in siblings if type(value) is dict))
            room -= len(fields)
            if room < 0:
                return True
            below += inner_values(siblings)
        level = [siblings for siblings in below if any(type(value) in (dict, list) for value in siblings)]
    return False


def mixes_booleans(values: Sequence[Any]) -> bool:
    """Return whether Arrow would read a boolean as a number, at any level."""
    kinds = set(map(type, values))
    if bool in kinds and (int in kinds or float in kinds):
        return True
    return any(map(mixes_booleans, inner_values(values)))
