"""Which type holds the values of a column over all files of a source, each unchanged.

The types alone do not say: a whole number is a float exactly or not, a time fits into nanoseconds or not.
So ingest measures how far the values of each shard reach (`ValueRanges`), and `unify_types` goes by that.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.sources.json_text import is_list
from zyda_flows.tasks.storage.records import Record

MOST_DIGITS = 38  # of a decimal of 128 bits
EXACT = 1 << 53  # whole numbers up to here are floats of 64 bits exactly
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNITS = list(PER_SECOND)
Span = tuple[int, int]


class ValueRanges(Record):
    """From where to where the whole numbers of columns reach, and their times in seconds, by column."""

    integers: dict[str, Span] = {}
    seconds: dict[str, Span] = {}

    def __add__(self, other: "ValueRanges") -> "ValueRanges":
        return ValueRanges(
            integers=union_ranges(self.integers, other.integers),
            seconds=union_ranges(self.seconds, other.seconds),
        )


def union_ranges(spans: dict[str, Span], others: dict[str, Span]) -> dict[str, Span]:
    in_both = {
        name: (min(a, spans[name][0]), max(b, spans[name][1]))
        for name, (a, b) in others.items()
        if name in spans
    }
    return spans | others | in_both


def value_ranges(table: pa.Table) -> ValueRanges:
    """Measure the columns of a table whose type may have to give way to another file's."""
    integers, seconds = dict[str, Span](), dict[str, Span]()
    for name in table.column_names:
        for leaf in chain.from_iterable(map(leaf_arrays, table.column(name).chunks)):
            if pa.types.is_timestamp(leaf.type):
                per = PER_SECOND[leaf.type.unit]
                low, high = range_of(leaf.cast(pa.int64()))
                if low is not None:
                    # Rounded down and, by two signs, up: whole seconds that enclose the times.
                    seconds = union_ranges(seconds, {name: (low // per, -(-high // per))})
            elif leaf.type in (pa.int64(), pa.uint64()):
                low, high = range_of(leaf)
                if low is not None:
                    integers = union_ranges(integers, {name: (low, high)})
    return ValueRanges(integers=integers, seconds=seconds)


def range_of(array: pa.Array) -> Any:
    extremes = pc.min_max(array)
    return extremes["min"].as_py(), extremes["max"].as_py()


def leaf_arrays(array: pa.Array) -> list[pa.Array]:
    """Return the arrays at the ends of a nested one."""
    if pa.types.is_struct(array.type):
        return [leaf for field in array.flatten() for leaf in leaf_arrays(field)]
    if pa.types.is_map(array.type):
        pair = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        return leaf_arrays(array.cast(pa.list_(pair)))
    if is_list(array.type):
        return leaf_arrays(array.flatten())
    return [array]


def count_fields(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(1 + count_fields(field.type) for field in kind)
    return count_fields(kind.value_type) if is_list(kind) else 0


def unify_types(kinds: Sequence[pa.DataType], integers: Span, seconds: Span) -> pa.DataType | None:
    """Return the type that holds the values of all these types unchanged, or None where there is none."""
    kinds = [kind for kind in kinds if not pa.types.is_null(kind)] or list(kinds[:1])
    if len(kinds) == 1:
        return kinds[0]

    def are(*tests: Any) -> bool:
        return all(any(test(kind) for test in tests) for kind in kinds)

    types = pa.types
    if are(types.is_integer):
        return unify_integers(kinds, integers)
    if are(types.is_integer, types.is_floating):
        return pa.float64() if integers[0] >= -EXACT and integers[1] <= EXACT else None
    if are(types.is_string, types.is_large_string):
        return pa.large_string()
    if are(types.is_binary, types.is_large_binary, types.is_fixed_size_binary):
        return pa.large_binary()
    if are(types.is_decimal32, types.is_decimal64, types.is_decimal128):
        return unify_decimals(kinds)
    if are(types.is_timestamp):
        return unify_times(kinds, seconds)
    if are(types.is_struct):
        return unify_structs(kinds, integers, seconds)
    if are(types.is_list, types.is_large_list):
        value = unify_types(list(dict.fromkeys(kind.value_type for kind in kinds)), integers, seconds)
        make = pa.large_list if any(map(types.is_large_list, kinds)) else pa.list_
        return make(value) if value is not None else None
    return None


def unify_integers(kinds: Sequence[pa.DataType], span: Span) -> pa.DataType | None:
    signed = [kind for kind in kinds if pa.types.is_signed_integer(kind)]
    if not signed or len(signed) == len(kinds):
        return max(kinds, key=lambda kind: kind.bit_width)
    if span[1] < 1 << 63:
        return pa.int64()
    return pa.uint64() if span[0] >= 0 and signed == [pa.int64()] else None  # smaller ones are not measured


def unify_decimals(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    scale = max(kind.scale for kind in kinds)
    digits = max(kind.precision - kind.scale for kind in kinds) + scale
    return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else None


def unify_times(kinds: Sequence[pa.DataType], seconds: Span) -> pa.DataType | None:
    zones = {kind.tz for kind in kinds}
    unit = max((kind.unit for kind in kinds), key=UNITS.index)
    fits = all(abs(second) * PER_SECOND[unit] < 1 << 63 for second in seconds)
    return pa.timestamp(unit, zones.pop()) if len(zones) == 1 and fits else None


def unify_structs(kinds: Sequence[pa.DataType], integers: Span, seconds: Span) -> pa.DataType | None:
    fields = dict[str, list[pa.DataType]]()
    for kind in kinds:
        for field in kind:
            fields.setdefault(field.name, []).append(field.type)
    types = {
        name: unify_types(list(dict.fromkeys(field_types)), integers, seconds)
        for name, field_types in fields.items()
    }
    return None if None in types.values() else pa.struct(list(types.items()))
