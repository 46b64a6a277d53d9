"""Values as JSON text, for columns without a common type; no value is lost.

Values without a form in JSON: NaN and the infinities become the strings "NaN", "Infinity" and "-Infinity", bytes
become base64, dates, times and decimals become Arrow's text, a duration becomes its number and unit. Integers of
any size keep their digits.
"""

import base64
import json
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

LIST_TESTS = (
    pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
    pa.types.is_large_list_view,
)  # fmt: skip
MAX_DEPTH = 200  # levels of lists and objects in one row
LARGE_INTEGER = float(1 << 63)  # orjson reads integers of more than 64 bits as floats


class TooDeep(ValueError):
    """Lists and objects in too many levels."""

    def __init__(self) -> None:
        super().__init__(f"lists and objects in more than {MAX_DEPTH} levels")


def has_large_number(row: dict[str, Any] | list[Any]) -> bool:
    """Return whether a decoded row may contain an integer that was read as a float. Raises TooDeep."""
    is_large, level = False, [row]
    for _ in range(MAX_DEPTH):
        level, has_large = below(level)
        is_large |= has_large
        if not level:
            return is_large
    raise TooDeep


def below(level: list[Any]) -> tuple[list[Any], bool]:
    """Return the lists and objects in some lists and objects, and whether their values include a large float."""
    inner, is_large = list[Any](), False
    for container in level:
        for value in container.values() if type(container) is dict else container:
            kind = type(value)
            if kind is dict or kind is list:
                inner.append(value)
            elif kind is float and (value >= LARGE_INTEGER or value <= -LARGE_INTEGER):
                is_large = True
    return inner, is_large


def as_json_text(values: Iterable[Any]) -> pa.Array:
    """Write each value as JSON text; null stays null. values: JSON values, with integers of any size."""
    return pa.array([None if value is None else dump(value) for value in values], pa.string())


def dump(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def array_as_json(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Write each value of an Arrow column as JSON text; null stays null."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return as_json_text(value for chunk in chunks for value in plain_values(chunk))


def plain_values(array: pa.Array, leaf_values: Callable[[pa.Array], list[Any]] | None = None) -> list[Any]:
    """Return the values of an array as JSON values. leaf_values: converts arrays that are not nested."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return plain_values(array.storage, leaf_values)
    if pa.types.is_dictionary(kind):
        return plain_values(array.dictionary_decode(), leaf_values)
    if pa.types.is_run_end_encoded(kind):
        return plain_values(pc.run_end_decode(array), leaf_values)
    if pa.types.is_struct(kind):
        return structs(array, leaf_values)
    if pa.types.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return lists(array.cast(pa.list_(pair)), leaf_values)
    if is_list(kind):
        return lists(array, leaf_values)
    return (leaf_values or leaves)(array)


def is_list(kind: pa.DataType) -> bool:
    return any(test(kind) for test in LIST_TESTS)


def structs(array: pa.StructArray, leaf_values: Callable[[pa.Array], list[Any]] | None) -> list[Any]:
    names = [field.name for field in array.type]
    fields = [plain_values(field, leaf_values) for field in array.flatten()]
    # `zip` without arguments would lose the number of objects without fields.
    rows = zip(*fields, strict=True) if fields else ((),) * len(array)
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def lists(array: pa.Array, leaf_values: Callable[[pa.Array], list[Any]] | None) -> list[Any]:
    values, nested, start = plain_values(array.flatten(), leaf_values), list[Any](), 0
    for length in pc.list_value_length(array).to_pylist():
        nested.append(None if length is None else values[start : start + length])
        start += length or 0  # `flatten` omits the elements below a null
    return nested


def leaves(array: pa.Array) -> list[Any]:
    """Return the values of an array that is not nested as JSON values."""
    kind = array.type
    if pa.types.is_duration(kind):
        return [None if n is None else f"{n}{kind.unit}" for n in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_decimal(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return list(array.cast(pa.string()).to_pylist())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return texts(array)
    return [leaf(value) for value in array.to_pylist()]


def leaf(value: Any) -> Any:
    """Return a Python value as a JSON value."""
    if isinstance(value, float) and not math.isfinite(value):
        return not_finite(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return list(value) if isinstance(value, tuple) else value  # an interval is a named tuple


def texts(array: pa.Array) -> list[Any]:
    """Return texts; if one is not UTF-8, its invalid bytes are escaped."""
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        contents = array.cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode(errors="backslashreplace") for value in contents]


def not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def json_fault(error: orjson.JSONDecodeError) -> str:
    """Return the fault of a line that is not valid JSON."""
    if "depth limit" in error.msg:
        return str(TooDeep())
    if "infinity" in error.msg:  # orjson's message for large integers, too
        return f"a number of more than {sys.float_info.max:.1e}, of 309 digits or more, expected a smaller number"
    return f"invalid JSON: {error.msg}, column {error.colno}"
