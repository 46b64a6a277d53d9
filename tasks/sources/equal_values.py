"""Texts for the values of a column that are equal if and only if the values are, for all types of its files.

Integers of all widths, decimals of all scales and whole floats are equal as numbers; times of all units and zones
are equal as instants; texts and bytes of all layouts are equal by content; objects are equal regardless of the
order of their fields.
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.sources.json_text import leaves, plain_values
from zyda_flows.tasks.sources.named_values import column_values

FRACTION = r"\.0*$|(\.\d*?[1-9])0*$"  # a fraction of a second, with its trailing zeros
TYPES_WITH_ONE_TEXT = (
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_integer, pa.types.is_boolean,
)  # fmt: skip
PER_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def equal_texts(table: pa.Table, path: str) -> pa.LargeStringArray:
    """Return a text for each value of a column, or of a field in a column of objects, (n,).

    The text is empty for null, an empty text, an empty list and an empty object.
    Raises ValueError if the path names a field of a column without fields.
    """
    values = column_values(table, path)
    if values is None:
        return pa.array([""] * len(table), pa.large_string())
    simple = as_simple_texts(values) if isinstance(values, pa.Array) else None
    if simple is not None:
        return pc.fill_null(simple.cast(pa.large_string()), "")
    decoded = plain_values(values, leaf_values=equal_leaves) if isinstance(values, pa.Array) else values
    return pa.array(map(as_equal_text, decoded), pa.large_string())


def as_simple_texts(array: pa.Array) -> pa.Array | None:
    """Return values as texts; None if Arrow's texts of their type are not unique."""
    kind = array.type
    types = pa.types
    if types.is_timestamp(kind):
        array = array.view(pa.timestamp(kind.unit)) if kind.tz else array
        texts = pc.replace_substring_regex(array.cast(pa.string()), FRACTION, r"\1")
        return pc.binary_join_element_wise(texts, "Z", "") if kind.tz else texts
    if types.is_time(kind):
        return pc.replace_substring_regex(array.cast(pa.string()), FRACTION, r"\1")
    if types.is_date(kind):
        return array.cast(pa.date32()).cast(pa.string())
    return array.cast(pa.string()) if any(test(kind) for test in TYPES_WITH_ONE_TEXT) else None


def equal_leaves(array: pa.Array) -> list[Any]:
    """Return values that are not nested as Python objects: numbers as numbers, all others as texts."""
    kind = array.type
    if pa.types.is_temporal(kind) and (texts := as_simple_texts(array)) is not None:
        return list(texts.to_pylist())
    if pa.types.is_duration(kind):
        numbers = array.cast(pa.int64()).to_pylist()
        return [None if n is None else f"{n * PER_UNIT[kind.unit]}ns" for n in numbers]
    return list(array.to_pylist()) if pa.types.is_decimal(kind) else leaves(array)


def as_equal_text(value: Any) -> str:
    """Return the text of a whole value; a text is unchanged."""
    if value is None or isinstance(value, str):
        return value or ""
    text = as_json(value)
    return "" if text in ("[]", "{}") else text


def as_json(value: Any) -> str:
    """Write a value as canonical JSON: fields ordered by name, without fields that are null."""
    if isinstance(value, dict):
        fields = sorted((name, item) for name, item in value.items() if item is not None)
        return "{" + ",".join(f"{as_json(name)}:{as_json(item)}" for name, item in fields) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(as_json, value)) + "]"
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)


def decimal_text(value: Decimal) -> str:
    """Write a decimal without an exponent and without trailing zeros."""
    digits = f"{value:f}"
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits == "-0" else digits
