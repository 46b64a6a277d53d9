"""Published files to Arrow tables: Parquet, JSON Lines (plain, gzip, zstd) and Arrow IPC.

A reader yields chunks of some MiB. Each row of the file is in exactly one chunk, either in its
table or among its bad rows, so that rows can be counted against what the file says it has.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.columns import one_array, table_of
from tasks.listing import InputFile, Piece
from tasks.storage import Stream
from tasks.streams import DAMAGED, first_line, format_of, lines_of, open_input

CHUNK_BYTES = 32 << 20
BATCH_ROWS = 1024
MAX_CONTENT = 1 << 20  # of a bad row, so much is kept beside its reason


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be a document: its place in the file, why, and what was there."""

    row: int
    reason: str
    content: bytes = b""


@dataclass(frozen=True)
class Chunk:
    """Rows of a file: `rows` (n,) int64 are the places of the table's n rows."""

    rows: NDArray[np.int64]
    table: pa.Table
    bad: list[BadRow] = field(default_factory=list)


def read(source: str, file: InputFile, piece: Piece, text: str) -> Iterator[Chunk]:
    """Yield the chunks of a piece of a file."""
    kind, compression = format_of(source, file.url)
    with open_input(file.url, kind) as stream:
        if kind == "jsonl":
            yield from read_jsonl(lines_of(stream, compression), text)
        elif kind == "ipc":
            yield from read_batches(ipc_batches(stream), text, 0)
        else:
            yield from read_parquet(stream, piece, text)


def read_jsonl(lines: Iterator[bytes], text: str) -> Iterator[Chunk]:
    """Read JSON Lines; blank lines are rows of nothing and are skipped, but counted as lines."""
    rows: list[int] = []
    objects: list[dict[str, Any]] = []
    bad: list[BadRow] = []
    size = 0
    row = -1
    try:
        for row, line in enumerate(lines):
            if not line.strip():
                continue
            found = parse_line(line, text)
            if isinstance(found, str):
                bad.append(BadRow(row, found, line[:MAX_CONTENT]))
            else:
                rows.append(row)
                objects.append(found)
            size += len(line)
            if size >= CHUNK_BYTES:
                yield json_chunk(rows, objects, bad, text)
                rows, objects, bad, size = [], [], [], 0
    except DAMAGED as error:
        bad.append(BadRow(row + 1, f"the file is damaged from here on: {first_line(error)}"))
    yield json_chunk(rows, objects, bad, text)


def parse_line(line: bytes, text: str) -> dict[str, Any] | str:
    """Decode one line: the object, or the reason why it is not a document."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return utf8_fault(line) or f"invalid JSON: {first_line(error)}"
    if not isinstance(found, dict):
        return f"a JSON {type(found).__name__}, expected an object"
    if found.get(text) is None:
        return f"{text!r} is null" if text in found else f"no field {text!r}"
    if not isinstance(found[text], str):
        return f"{text!r} is a {type(found[text]).__name__}, expected a string"
    return found


def utf8_fault(content: bytes) -> str | None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start}: {error.reason}"
    return None


def json_chunk(rows: list[int], objects: list[dict[str, Any]], bad: list[BadRow], text: str) -> Chunk:
    texts = pa.array([found.pop(text) for found in objects], pa.large_string())
    table = table_of(objects) if any(objects) else pa.table({})
    has_columns = bool(table.column_names)
    table = table.append_column(text, texts) if has_columns else pa.table({text: texts})
    return Chunk(np.array(rows, np.int64), table, bad)


def ipc_reader(stream: Stream) -> Any:
    """Open an Arrow IPC file or stream, whichever it is."""
    is_file = stream.read(6) == b"ARROW1"
    stream.seek(0)
    return pa.ipc.open_file(stream) if is_file else pa.ipc.open_stream(stream)


def ipc_batches(stream: Stream) -> Iterator[Callable[[], pa.RecordBatch]]:
    reader = ipc_reader(stream)
    if hasattr(reader, "num_record_batches"):
        for i in range(reader.num_record_batches):
            yield partial(reader.get_batch, i)
        return
    yield from iter(lambda: reader.read_next_batch, None)


def read_batches(batches: Iterator[Callable[[], pa.RecordBatch]], text: str, row: int) -> Iterator[Chunk]:
    try:
        for read_batch in batches:
            try:
                batch = read_batch()
            except StopIteration:
                return
            yield arrow_chunk(pa.Table.from_batches([batch]), text, row)
            row += batch.num_rows
    except DAMAGED as error:
        damage = BadRow(row, f"the file is damaged from here on: {first_line(error)}")
        yield Chunk(np.empty(0, np.int64), pa.table({}), [damage])


def read_parquet(stream: Stream, piece: Piece, text: str) -> Iterator[Chunk]:
    """Read the row groups of a piece; one that is damaged gives a bad row for each of its rows."""
    parquet = pq.ParquetFile(stream, pre_buffer=True, page_checksum_verification=True)
    row = piece.first_row
    for group in piece.row_groups or ():
        rows = parquet.metadata.row_group(group).num_rows
        done = 0
        try:
            for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[group]):
                yield arrow_chunk(pa.Table.from_batches([batch]), text, row + done)
                done += batch.num_rows
        except DAMAGED as error:
            reason = f"row group {group} is damaged: {first_line(error)}"
            bad = [BadRow(row + i, reason) for i in range(done, rows)]
            yield Chunk(np.empty(0, np.int64), pa.table({}), bad)
        row += rows


def arrow_chunk(table: pa.Table, text: str, first_row: int) -> Chunk:
    """Judge the texts of Arrow rows: null and invalid UTF-8 are bad."""
    rows = np.arange(first_row, first_row + len(table))
    texts = one_array(table.column(text)).cast(pa.large_binary())
    reasons = dict.fromkeys(np.flatnonzero(texts.is_null()).tolist(), f"{text!r} is null")
    try:
        texts.cast(pa.large_string())
    except pa.ArrowInvalid:
        contents = enumerate(texts.to_pylist())
        faults = {i: utf8_fault(content) for i, content in contents if content is not None}
        reasons |= {i: fault for i, fault in faults.items() if fault}
    bad = [BadRow(int(rows[i]), reasons[i], (texts[i].as_py() or b"")[:MAX_CONTENT]) for i in sorted(reasons)]
    if bad:
        good = np.setdiff1d(np.arange(len(table)), list(reasons))
        table, texts, rows = table.take(good), texts.take(good), rows[good]
    index = table.column_names.index(text)
    return Chunk(rows, table.set_column(index, text, texts.cast(pa.large_string())), bad)
