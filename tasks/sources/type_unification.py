"""The type that holds the values of a column in all files of a source unchanged.

The types alone do not determine it: an integer may be an exact float or not, and a time may fit into nanoseconds
or not. So ingest measures the ranges of the values of each shard (`ValueRanges`), and `unify_types` uses them.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.sources.json_text import is_list
from zyda_flows.tasks.storage.records import Record

MOST_DIGITS = 38  # of a decimal of 128 bits
EXACT_INTEGER = 1 << 53  # integers up to here are exact floats of 64 bits
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNITS = list(PER_SECOND)
Span = tuple[int, int]


class ValueRanges(Record):
    """The ranges of the integers of columns, and of their times in seconds, by column."""

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


def find_value_ranges(table: pa.Table) -> ValueRanges:
    """Measure the integers and times of a table, whose types may differ from those of other files."""
    integers, seconds = dict[str, Span](), dict[str, Span]()
    for name in table.column_names:
        for leaf in chain.from_iterable(map(leaf_arrays, table.column(name).chunks)):
            if pa.types.is_timestamp(leaf.type):
                per = PER_SECOND[leaf.type.unit]
                low, high = range_of(leaf.cast(pa.int64()))
                if low is not None:
                    # Rounded down and, with two negations, up: whole seconds that enclose the times.
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
    """Return the innermost arrays of a nested array."""
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
    """Return the type that holds the values of all types unchanged, or None if there is none.

    integers, seconds: the ranges of the integers and times of the column.
    """
    kinds = [kind for kind in kinds if not pa.types.is_null(kind)] or list(kinds[:1])
    if len(kinds) == 1:
        return kinds[0]
    for tests, unify in UNIFIERS:
        if all(any(test(kind) for test in tests) for kind in kinds):
            return unify(kinds, integers, seconds)
    return None


def unify_integers(kinds: Sequence[pa.DataType], span: Span, _: Span) -> pa.DataType | None:
    signed = [kind for kind in kinds if pa.types.is_signed_integer(kind)]
    if not signed or len(signed) == len(kinds):
        return max(kinds, key=lambda kind: kind.bit_width)
    if span[1] < 1 << 63:
        return pa.int64()
    return pa.uint64() if span[0] >= 0 and signed == [pa.int64()] else None  # smaller types are not measured


def unify_numbers(_: Sequence[pa.DataType], integers: Span, __: Span) -> pa.DataType | None:
    return pa.float64() if integers[0] >= -EXACT_INTEGER and integers[1] <= EXACT_INTEGER else None


def unify_texts(_: Sequence[pa.DataType], __: Span, ___: Span) -> pa.DataType:
    return pa.large_string()


def unify_bytes(_: Sequence[pa.DataType], __: Span, ___: Span) -> pa.DataType:
    return pa.large_binary()


def unify_lists(kinds: Sequence[pa.DataType], integers: Span, seconds: Span) -> pa.DataType | None:
    value = unify_types(list(dict.fromkeys(kind.value_type for kind in kinds)), integers, seconds)
    make = pa.large_list if any(map(pa.types.is_large_list, kinds)) else pa.list_
    return make(value) if value is not None else None


def unify_decimals(kinds: Sequence[pa.DataType], _: Span, __: Span) -> pa.DataType | None:
    scale = max(kind.scale for kind in kinds)
    digits = max(kind.precision - kind.scale for kind in kinds) + scale
    return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else None


def unify_times(kinds: Sequence[pa.DataType], _: Span, seconds: Span) -> pa.DataType | None:
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


Unify = Callable[[Sequence[pa.DataType], Span, Span], pa.DataType | None]
# The first entry whose tests cover all types applies.
UNIFIERS: tuple[tuple[tuple[Callable[[pa.DataType], bool], ...], Unify], ...] = (
    ((pa.types.is_integer,), unify_integers),
    ((pa.types.is_integer, pa.types.is_floating), unify_numbers),
    ((pa.types.is_string, pa.types.is_large_string), unify_texts),
    ((pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary), unify_bytes),
    ((pa.types.is_decimal32, pa.types.is_decimal64, pa.types.is_decimal128), unify_decimals),
    ((pa.types.is_timestamp,), unify_times),
    ((pa.types.is_struct,), unify_structs),
    ((pa.types.is_list, pa.types.is_large_list), unify_lists),
)
