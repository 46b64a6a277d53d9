"""Read the numbers and structs of Thrift's compact protocol in the heads of Parquet pages."""

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
MOST_LEVELS = 64  # the depth at which Arrow's reader refuses a struct


class MalformedThrift(ValueError):
    """Bytes that are not valid Thrift."""


def struct_at(data: bytes, place: int, level: int = 0) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct that are numbers or structs, by id, and the position after it."""
    fields, number = dict[int, Any](), 0
    while True:
        head, place = byte_at(data, place)
        if head == 0:
            return fields, place
        number += head >> 4
        if not head >> 4:
            number, place = signed_at(data, place)
        kind = head & 15
        if kind in (TRUE, FALSE):  # the kind is the value
            fields[number] = kind == TRUE
        else:
            fields[number], place = value_at(data, place, kind, level + 1)


def value_at(data: bytes, place: int, kind: int, level: int) -> tuple[Any, int]:
    """Return a value of a kind (a number, a struct, or None for others), and the position after it."""
    if level > MOST_LEVELS:
        raise MalformedThrift("values in too many levels")
    if kind in (TRUE, FALSE, BYTE):
        return byte_at(data, place)
    if kind in (I16, I32, I64):
        return signed_at(data, place)
    if kind == DOUBLE:
        return None, place + 8
    if kind == BINARY:
        size, place = varint_at(data, place)
        return None, place + size
    if kind in (LIST, SET):
        return None, after_list(data, place, level)
    if kind == MAP:
        return None, after_map(data, place, level)
    if kind == STRUCT:
        return struct_at(data, place, level)
    raise MalformedThrift(f"a value of kind {kind}")


def after_list(data: bytes, place: int, level: int) -> int:
    """Return the position after a list."""
    head, place = byte_at(data, place)
    count = head >> 4
    if count == 15:
        count, place = varint_at(data, place)
    return after_values(data, place, count, (head & 15,), level)


def after_map(data: bytes, place: int, level: int) -> int:
    """Return the position after a map."""
    count, place = varint_at(data, place)
    if not count:
        return place
    kinds, place = byte_at(data, place)
    return after_values(data, place, count, (kinds >> 4, kinds & 15), level)


def after_values(data: bytes, place: int, count: int, kinds: tuple[int, ...], level: int) -> int:
    """Return the position after `count` values, or key-value pairs, of the given kinds."""
    for _ in range(count):
        if place >= len(data):
            raise MalformedThrift("values without an end")
        for kind in kinds:
            _, place = value_at(data, place, kind, level + 1)
    return place


def byte_at(data: bytes, place: int) -> tuple[int, int]:
    if not 0 <= place < len(data):
        raise MalformedThrift("it ends within a struct")
    return data[place], place + 1


def varint_at(data: bytes, place: int) -> tuple[int, int]:
    """Read an integer of seven bits per byte, the lowest bits first."""
    number = shift = 0
    while True:
        byte, place = byte_at(data, place)
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, place
        if shift > 63:
            raise MalformedThrift("a number of more than 64 bits")


def signed_at(data: bytes, place: int) -> tuple[int, int]:
    number, place = varint_at(data, place)
    return number >> 1 ^ -(number & 1), place
