"""Arrow IPC, as a file or a stream."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources import byte_lines
from zyda_flows.tasks.sources.columns import as_bytes, decode_table, decoded_schema
from zyda_flows.tasks.sources.file_rows import (
    Chunk,
    DecodedGrowth,
    RowTally,
    arrow_chunk,
    checked_columns,
    rest_of_file,
    unreadable_rows,
)
from zyda_flows.tasks.sources.formats.arrow_bounds import MessageBounds, parts_of
from zyda_flows.tasks.sources.input_files import FilePiece
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input, damage

NAME = "arrow"
ENDINGS = (".arrow", ".ipc", ".feather")
AT_RANDOM = False
DAMAGED = (
    *byte_lines.DAMAGED,
    pa.ArrowMemoryError,
)  # a damaged length may request too much memory
VERSION = 1


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
    """Return the columns of a file, from its schema message."""
    return checked_columns(stream, text, decoded_schema(ipc_reader(stream).schema), may_be_bad=may_be_bad), (
        FilePiece(),
    )


def first_rows(stream: Input, count: int) -> Chunk:
    """Return the first rows of the first batch that is not empty. Raises an error of DAMAGED."""
    reader = ipc_reader(stream)
    stream.watch = MessageBounds(reader.schema).see
    table = reader.schema.empty_table()
    with suppress(StopIteration):
        for get_batch in ipc_batches(reader):
            if (batch := get_batch()).num_rows:
                check_offsets(batch)
                table = pa.Table.from_batches([next(parts_of(batch))[0].slice(0, count)])
                break
    return Chunk(np.arange(len(table)), decode_table(table))


def read(
    stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Read the batches of an Arrow file or stream, up to where it is damaged."""
    try:
        reader = ipc_reader(stream)
    except DAMAGED as error:
        yield rest_of_file(0, f"the file is damaged: {damage(stream, error)}", tally)
        return
    bounds, growth = MessageBounds(reader.schema), DecodedGrowth(stream.expected)
    stream.watch = bounds.see
    for number, get_batch in enumerate(ipc_batches(reader)):
        rows, first = None, tally.rows
        try:
            batch = get_batch()
            rows = batch.num_rows
            batch = batch.select(selection.of(batch.schema.names, text))
            check_offsets(batch)
            parts = [*parts_of(batch)]
        except StopIteration:
            return
        except DAMAGED as error:
            fault = damage(stream, error)
            rows = bounds.refused_rows() if rows is None else rows
            rows = rows_in(stream, number) if rows is None else rows
            if rows is None:
                yield rest_of_file(first, f"the file is damaged from here on: {fault}", tally)
                return
            tally.rows += rows
            yield unreadable_rows(range(first, first + rows), f"batch {number} is damaged: {fault}", tally)
        else:
            tally.rows += rows
            yield from chunks_of_parts(parts, range(first, tally.rows), number, text, growth, tally)


def chunks_of_parts(
    parts: list[tuple[pa.RecordBatch, int, int]],
    rows: range,
    number: int,
    text: str,
    growth: DecodedGrowth,
    tally: RowTally,
) -> Iterator[Chunk]:
    """Yield the chunks of a batch's parts, or bad rows for parts that decode to too many bytes.

    parts: each with its decoded bytes and the bytes of its largest row. rows: of the batch. number: of the batch.
    """
    first = rows.start
    for part, size, largest in parts:
        try:
            growth.add(size)
        except ValueError as error:
            yield unreadable_rows(range(first, rows.stop), f"batch {number} is damaged: {error}", tally)
            return
        if largest > limits().page_bytes:
            fault = f"a row of {largest:,} bytes, decoded, expected at most {limits().page_bytes:,}"
            yield unreadable_rows(range(first, first + len(part)), fault, tally)
        else:
            yield arrow_chunk(pa.Table.from_batches([part]), {}, text, first)
        first += len(part)


def check_offsets(batch: pa.RecordBatch) -> None:
    """Raise ArrowInvalid if offsets are out of bounds, because the format has no checksums.

    Texts are validated as bytes. Their UTF-8 is checked later, row by row.
    """
    for column in batch.columns:
        kind = as_bytes(column.type)
        with suppress(pa.ArrowNotImplementedError):
            column = column if kind == column.type else column.view(kind)
        column.validate(full=True)


def rows_in(stream: Input, number: int) -> int | None:
    """Return the number of rows of a batch of an Arrow file from its head, or None if it cannot be read."""
    stream.seek(0)
    with suppress(*DAMAGED):
        fields = pa.ipc.open_file(stream).schema
        for place in range(len(fields)):
            with suppress(*DAMAGED):
                only = pa.ipc.IpcReadOptions(included_fields=[place])
                return int(pa.ipc.open_file(stream, options=only).get_batch(number).num_rows)
    return None  # also for a stream, which cannot be read after a damaged message


def ipc_reader(stream: Input) -> Any:
    """Open an Arrow IPC file or stream."""
    is_file = stream.read(6) == b"ARROW1"
    stream.seek(0)
    return pa.ipc.open_file(stream) if is_file else pa.ipc.open_stream(stream)


def ipc_batches(reader: Any) -> Iterator[Callable[[], pa.RecordBatch]]:
    if hasattr(reader, "num_record_batches"):
        for i in range(reader.num_record_batches):
            yield partial(reader.get_batch, i)
        return
    # Yields the method itself, which `read` calls where it catches errors; it is never None, so this has no end.
    yield from iter(lambda: reader.read_next_batch, None)
