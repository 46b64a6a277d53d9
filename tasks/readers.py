"""Published files to Arrow tables: Parquet, JSON Lines (plain, gzip, zstd) and Arrow IPC.

A reader yields chunks of some MiB. Each row of the file is in exactly one chunk, in its table, among
its bad rows or among its blank ones. How many rows there are is counted apart from that, by footers,
batches and ends of lines (`Tally`), and `tasks.ingest` compares the two.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.columns import TooWide, decoded, one_array, plain, table_of
from tasks.errors import bad_input, first_line
from tasks.json_text import TooDeep, has_large_number
from tasks.listing import InputFile, Piece
from tasks.stores import Stream
from tasks.streams import (
    DAMAGED,
    MAX_CONTENT,
    MAX_LINE,
    UNREADABLE,
    Lines,
    LongLine,
    damage,
    format_of,
    open_input,
)

CHUNK_BYTES = 32 << 20
BATCH_ROWS = 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be a document: its place in the file, why, and what was there.

    One with `is_rest` stands for all that follows in its file, which nobody could read or count.
    """

    row: int
    reason: str
    content: bytes = b""
    is_rest: bool = False


@dataclass(frozen=True)
class Chunk:
    """Rows of a file: `rows` (n,) int64 are the places of the table's n rows, `blank` those of nothing."""

    rows: NDArray[np.int64]
    table: pa.Table
    bad: list[BadRow] = field(default_factory=list)
    blank: NDArray[np.int64] = field(default_factory=NO_ROWS.copy)


@dataclass
class Tally:
    """How many rows a piece has by its footer, its batches or the ends of its lines, once it was read.

    `rests` counts the bad rows that stand for all that follows.
    """

    rows: int = 0
    rests: int = 0


def read(
    source: str, file: InputFile, piece: Piece, text: str, tally: Tally | None = None
) -> Iterator[Chunk]:
    """Yield the chunks of a piece of a file, and count its rows."""
    tally = tally or Tally()
    kind, compression = format_of(source, file.url)
    with open_input(source, file.url, file.size, kind) as stream:
        if kind == "jsonl":
            try:
                yield from read_jsonl(stream, compression, text, tally)
            except TooWide as error:
                raise bad_input(source, str(error), file=file.url) from error
        elif kind == "ipc":
            yield from read_ipc(stream, text, tally)
        else:
            yield from read_parquet(stream, piece, text, tally)


def rest_of_file(row: int, reason: str, tally: Tally) -> Chunk:
    """Return the chunk that says that nothing from a row on can be read."""
    tally.rests += 1
    return Chunk(NO_ROWS, pa.table({}), [BadRow(row, reason, is_rest=True)])


class Gathered:
    """Rows of JSON Lines on their way to a chunk."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.objects: list[dict[str, Any]] = []
        self.bad: list[BadRow] = []
        self.blank: list[int] = []
        self.size = 0

    def add(self, row: int, line: bytes | LongLine, text: str) -> None:
        content = line.start if isinstance(line, LongLine) else line
        self.size += len(content)
        if not content.strip():
            self.blank.append(row)
            return
        found = parse_line(line, text)
        if isinstance(found, str):
            self.bad.append(BadRow(row, found, content[:MAX_CONTENT]))
        else:
            self.rows.append(row)
            self.objects.append(found)

    def chunk(self, text: str) -> Chunk:
        texts = pa.array([found.pop(text) for found in self.objects], pa.large_string())
        table = table_of(self.objects) if any(self.objects) else pa.table({})
        table = table.append_column(text, texts) if table.column_names else pa.table({text: texts})
        return Chunk(np.array(self.rows, np.int64), table, self.bad, np.array(self.blank, np.int64))


def read_jsonl(stream: Stream, compression: str | None, text: str, tally: Tally) -> Iterator[Chunk]:
    """Read JSON Lines; blank lines are rows of nothing, but counted as lines."""
    lines = Lines(stream, compression)
    gathered, row = Gathered(), -1
    try:
        for row, line in enumerate(lines):
            if row == 0 and isinstance(line, bytes):
                gathered.add(row, line.removeprefix(BYTE_ORDER_MARK), text)
            else:
                gathered.add(row, line, text)
            if gathered.size >= CHUNK_BYTES:
                yield gathered.chunk(text)
                gathered = Gathered()
    except UNREADABLE as error:
        reason = f"the file is damaged from here on: {damage(stream, error)}"
        yield gathered.chunk(text)
        yield rest_of_file(row + 1, reason, tally)
    else:
        yield gathered.chunk(text)
    tally.rows += lines.ends + lines.is_open


def parse_line(line: bytes | LongLine, text: str) -> dict[str, Any] | str:
    """Decode one line: the object, or the reason why it is not a document."""
    if isinstance(line, LongLine):
        return f"a line of more than {MAX_LINE:,} bytes"
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
    try:
        return json.loads(line) if has_large_number(found) else found
    except TooDeep as error:
        return str(error)
    except ValueError:  # Python's own limit
        return f"a whole number of more than {sys.get_int_max_str_digits():,} digits"


def utf8_fault(content: bytes) -> str | None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start}: {error.reason}"
    return None


def ipc_reader(stream: Stream) -> Any:
    """Open an Arrow IPC file or stream, whichever it is."""
    is_file = stream.read(6) == b"ARROW1"
    stream.seek(0)
    return pa.ipc.open_file(stream) if is_file else pa.ipc.open_stream(stream)


def ipc_batches(reader: Any) -> Iterator[Callable[[], pa.RecordBatch]]:
    if hasattr(reader, "num_record_batches"):
        for i in range(reader.num_record_batches):
            yield partial(reader.get_batch, i)
        return
    yield from iter(lambda: reader.read_next_batch, None)


def read_ipc(stream: Stream, text: str, tally: Tally) -> Iterator[Chunk]:
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


def read_parquet(stream: Stream, piece: Piece, text: str, tally: Tally) -> Iterator[Chunk]:
    """Read the row groups of a piece."""
    try:
        parquet = pq.ParquetFile(stream, pre_buffer=True, page_checksum_verification=True)
    except DAMAGED as error:
        yield rest_of_file(piece.first_row, f"the file is damaged: {damage(stream, error)}", tally)
        return
    groups = range(parquet.num_row_groups) if piece.row_groups is None else piece.row_groups
    for group in groups:
        row, rows = piece.first_row + tally.rows, parquet.metadata.row_group(group).num_rows
        tally.rows += rows
        yield from read_row_group(stream, parquet, group, range(row, row + rows), text)


def read_row_group(
    stream: Stream, parquet: pq.ParquetFile, group: int, rows: range, text: str
) -> Iterator[Chunk]:
    """Read a row group; a damaged one gives a bad row for each of its rows that could not be read."""
    batches, row = parquet.iter_batches(BATCH_ROWS, row_groups=[group]), rows.start
    while True:
        try:
            batch = next(batches, None)
        except DAMAGED as error:
            reason = f"row group {group} is damaged: {damage(stream, error)}"
            yield Chunk(NO_ROWS, pa.table({}), [BadRow(place, reason) for place in range(row, rows.stop)])
            return
        if batch is None:
            return
        yield arrow_chunk(pa.Table.from_batches([batch]), text, row)
        row += batch.num_rows


def arrow_chunk(table: pa.Table, text: str, first_row: int) -> Chunk:
    """Judge the texts of Arrow rows: null and invalid UTF-8 are bad. Decode the other columns."""
    rows = np.arange(first_row, first_row + len(table))
    column = table.column(text)
    if pa.types.is_run_end_encoded(column.type):
        column = decoded(column, pa.large_string())
    texts = one_array(column).cast(pa.large_binary())
    table = table.set_column(table.column_names.index(text), text, texts)
    table = plain(table)
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
