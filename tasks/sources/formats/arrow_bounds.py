"""Limits for the batches of Arrow files, checked before they are decompressed and decoded.

A compressed buffer states its decompressed size. Dictionaries, runs, views and nulls expand few bytes to many
values. So a batch that states too many bytes is refused, and a batch with large values is decoded in parts.
"""

import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.limits import limits

MARK = b"\xff\xff\xff\xff"  # before each message
MESSAGE_HEADER, MESSAGE_BODY = 2, 3  # fields of a message
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # kinds of messages
NODES, BUFFERS, COMPRESSION = 1, 2, 3  # fields of a batch
SMALL_ROWS = 1 << 20  # batches up to this size are not checked
CHUNK_ROWS = 1 << 16


class FlatBufferTable:
    """A table of FlatBuffers, the encoding of Arrow's messages."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place = data, place
        self.fields = place - self.number("<i", place)

    def number(self, form: str, place: int) -> int:
        return int(struct.unpack_from(form, self.data, place)[0])

    def field(self, number: int) -> int | None:
        """Return the position of a field, or None."""
        if 4 + 2 * number >= self.number("<H", self.fields):
            return None
        offset = self.number("<H", self.fields + 4 + 2 * number)
        return self.place + offset if offset else None

    def table(self, number: int) -> "FlatBufferTable | None":
        place = self.field(number)
        return None if place is None else FlatBufferTable(self.data, place + self.number("<I", place))

    def pairs(self, number: int) -> NDArray[np.int64]:
        """Return a list of pairs of integers: (n, 2)."""
        place = self.field(number)
        if place is None:
            return np.empty((0, 2), np.int64)
        place += self.number("<I", place)
        count = self.number("<I", place)
        return np.frombuffer(self.data, "<i8", 2 * count, place + 4).reshape(-1, 2)


class MessageBounds:
    """Check the messages of a file while Arrow reads their bytes. schema: of the file."""

    def __init__(self, schema: pa.Schema) -> None:
        self.most_rows = limits().encoded_rows if any(map(is_encoded, schema.types)) else None
        self.head = b""
        self.refused: int | None = None

    def refused_rows(self) -> int | None:
        """Return the number of rows of the refused batch, once; None if no batch was refused."""
        rows, self.refused = self.refused, None
        return rows

    def see(self, _: int, content: bytes) -> None:
        """Check bytes of the file: a head, a body, or both. Raises ValueError for a batch that is too large."""
        head, body = self.head, content
        if content[:4] == MARK and len(content) > 8:
            end = 8 + int.from_bytes(content[4:8], "little")
            head, body = content[8:end], content[end:]
        elif not head:
            head, body = content, b""
        self.head = b""
        with suppress(struct.error, OverflowError):  # not a head, or a damaged head: Arrow reports it
            self.judge(head, body)

    def judge(self, head: bytes, body: bytes) -> None:
        """Check a message. Raises ValueError if its batch is too large."""
        message = FlatBufferTable(head, int.from_bytes(head[:4], "little"))
        kind, size = message.field(1), message.field(MESSAGE_BODY)
        batch = message.table(MESSAGE_HEADER)
        kind = 0 if kind is None else head[kind]
        if batch is None or kind not in (DICTIONARY_BATCH, RECORD_BATCH):
            return
        if not body and size is not None and message.number("<q", size):
            self.head = head  # the body is read next
            return
        batch = batch.table(1) if kind == DICTIONARY_BATCH else batch
        if batch is not None and (fault := fault_of_batch(batch, body, self.most_rows)):
            rows = batch.field(0) if kind == RECORD_BATCH else None
            self.refused = batch.number("<q", rows) if rows is not None else None
            raise ValueError(fault)


def fault_of_batch(batch: FlatBufferTable, body: bytes, most_rows: int | None) -> str | None:
    """Return the fault of a batch that would need too much memory, or None."""
    size, most = len(body), limits().ipc_bytes
    if batch.field(COMPRESSION) is not None:
        places = [int(place) for place, length in batch.pairs(BUFFERS).tolist() if length >= 8]
        sizes = [int.from_bytes(body[place : place + 8], "little", signed=True) for place in places]
        size += sum(max(0, length) for length in sizes)
        if size > most:
            return f"its buffers have {size:,} bytes, decompressed, expected at most {most:,}"
    values = int(batch.pairs(NODES)[:, 0].max(initial=0))
    bound = min(SMALL_ROWS + 8 * size, most_rows or sys.maxsize)
    return f"{values:,} values in {size:,} bytes, expected at most {bound:,}" if values > bound else None


def is_encoded(kind: pa.DataType) -> bool:
    """Return whether values of a type may have more bytes, decoded, than in a batch."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return is_encoded(kind.storage_type)
    tests = (
        types.is_null, types.is_dictionary, types.is_run_end_encoded, types.is_string_view, types.is_binary_view,
        types.is_list_view, types.is_large_list_view, types.is_union,
    )  # fmt: skip
    return any(test(kind) for test in tests) or any(
        is_encoded(kind.field(i).type) for i in range(kind.num_fields)
    )


def decoded_sizes(array: pa.Array) -> NDArray[np.int64]:
    """Return the approximate decoded bytes of each value: (n,) int64."""
    kind, types = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return decoded_sizes(array.storage)
    if types.is_dictionary(kind):
        return sizes_in_dictionary(array)
    if types.is_run_end_encoded(kind):
        ends = as_numbers(array.run_ends)
        runs = np.diff(np.clip(ends - array.offset, 0, len(array)), prepend=0)
        return np.repeat(decoded_sizes(array.values), runs)
    if types.is_struct(kind):
        return sum(map(decoded_sizes, array.flatten()), np.ones(len(array), np.int64))
    if types.is_map(kind) or "list" in str(kind).partition("<")[0]:
        return sizes_of_lists(array)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return sizes_of_views(array)
    if types.is_string(kind) or types.is_large_string(kind) or "binary" in str(kind):
        return as_numbers(pc.fill_null(pc.binary_length(array), 0)) + 8
    return np.full(len(array), max(8, array.nbytes // max(1, len(array))), np.int64)


def sizes_in_dictionary(array: pa.DictionaryArray) -> NDArray[np.int64]:
    """Return the approximate decoded bytes of each value of a dictionary array: (n,) int64."""
    indices, sizes = as_numbers(pc.fill_null(array.indices, 0)), decoded_sizes(array.dictionary)
    return sizes[indices] if len(sizes) else np.zeros(len(array), np.int64)


def sizes_of_views(array: pa.Array) -> NDArray[np.int64]:
    """Return the approximate bytes of each value of a view array: (n,) int64."""
    views = np.frombuffer(array.buffers()[1] or b"", np.int32).reshape(-1, 4)
    lengths = views[array.offset : array.offset + len(array), 0]
    return np.maximum(lengths, 0).astype(np.int64) + 8


def sizes_of_lists(array: pa.Array) -> NDArray[np.int64]:
    """Return the approximate decoded bytes of each list, map or list view: (n,) int64."""
    kind = array.type
    if pa.types.is_map(kind):
        pairs = decoded_sizes(array.keys) + decoded_sizes(array.items)
        return np.diff(sums_before(pairs)[as_numbers(array.offsets)]) + 8
    lengths = as_numbers(pc.fill_null(pc.list_value_length(array), 0))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        before, starts = sums_before(decoded_sizes(array.values)), as_numbers(array.offsets)
        return before[starts + lengths] - before[starts] + 8
    return np.diff(sums_before(decoded_sizes(array.flatten()))[sums_before(lengths)]) + 8


def sums_before(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of all sizes before each index: (n + 1,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def as_numbers(array: pa.Array) -> NDArray[np.int64]:
    return array.to_numpy(zero_copy_only=False).astype(np.int64)


def parts_of(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """Cut a batch into parts that are decoded separately, each with its bytes and the bytes of its largest row."""
    sizes: Any = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if is_encoded(column.type):
            sizes += decoded_sizes(column)
    before = sums_before(sizes)
    cuts = [0]
    while cuts[-1] < batch.num_rows:
        fits = int(np.searchsorted(before, before[cuts[-1]] + limits().batch_bytes, side="right")) - 1
        cuts.append(min(max(fits, cuts[-1] + 1), cuts[-1] + CHUNK_ROWS, batch.num_rows))
    for start, stop in pairwise(cuts):
        yield (
            batch.slice(start, stop - start),
            int(before[stop] - before[start]),
            int(sizes[start:stop].max()),
        )
