"""Arrow IPC, as a file or a stream."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from tasks.sources.columns import plain_schema
from tasks.sources.listing import Piece
from tasks.sources.rows import Chunk, Tally, arrow_chunk, checked_columns, rest_of_file
from tasks.sources.streams import DAMAGED, Input, damage

ENDINGS = (".arrow", ".ipc", ".feather")
AT_RANDOM = False
VERSION = 1


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[Piece, ...]]:
    """Return the columns of a file, from its head."""
    return checked_columns(stream, text, plain_schema(ipc_reader(stream).schema)), (Piece(),)


def read(stream: Input, piece: Piece, text: str, tally: Tally) -> Iterator[Chunk]:
    """Read the batches of an Arrow file or stream, up to where it is damaged."""
    try:
        reader = ipc_reader(stream)
    except DAMAGED as error:
        yield rest_of_file(0, f"the file is damaged: {damage(stream, error)}", tally)
        return
    batches = ipc_batches(reader)
    while True:
        try:
            batch = next(batches)()
            batch.validate(full=True)  # the format has no checksums, and offsets that lie lead out of memory
        except StopIteration:
            return
        except DAMAGED as error:
            lost = f"the file is damaged from here on: {damage(stream, error)}{rows_lost(reader, tally.rows)}"
            yield rest_of_file(tally.rows, lost, tally)
            return
        row, tally.rows = tally.rows, tally.rows + batch.num_rows
        yield arrow_chunk(pa.Table.from_batches([batch]), text, row)


def rows_lost(reader: Any, read: int) -> str:
    """Say how many rows of an Arrow file cannot be read, where its batches' heads are still there."""
    try:
        return f"; {reader.count_rows() - read:,} rows are lost"
    except (*DAMAGED, AttributeError):  # a stream has no list of its batches
        return ""


def ipc_reader(stream: Input) -> Any:
    """Open an Arrow IPC file or stream, whichever it is."""
    is_file = stream.read(6) == b"ARROW1"
    stream.seek(0)
    return pa.ipc.open_file(stream) if is_file else pa.ipc.open_stream(stream)


def ipc_batches(reader: Any) -> Iterator[Callable[[], pa.RecordBatch]]:
    if hasattr(reader, "num_record_batches"):
        for i in range(reader.num_record_batches):
            yield partial(reader.get_batch, i)
        return
    # The method itself, for `read` to call where it catches errors; it is never None, so this has no end.
    yield from iter(lambda: reader.read_next_batch, None)
