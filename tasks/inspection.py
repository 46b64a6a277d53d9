"""A look at a file before hours are spent: its columns, and how it will be cut into pieces."""

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.columns import TooWide, plain_schema, table_of
from tasks.errors import bad_input
from tasks.listing import InputFile, Piece
from tasks.readers import BYTE_ORDER_MARK, ipc_reader, parse_line
from tasks.stores import Stream
from tasks.streams import (
    COMPRESSED_BLOCK,
    DAMAGED,
    UNREADABLE,
    Lines,
    LongLine,
    damage,
    format_of,
    open_input,
)

INSPECTED_LINES = 1000
WHOLE: tuple[Piece, ...] = (Piece(),)


@dataclass(frozen=True)
class Inspected:
    """A file with its pieces, and its columns: None where no row shows any."""

    file: InputFile
    table_schema: pa.Schema | None


def inspect(source: str, file: InputFile, text: str, shard_bytes: int, *, may_be_bad: bool) -> Inspected:
    """Look at a file before hours are spent: its columns, and how it will be cut into pieces.

    Reads a footer, or the first lines. Raises BadInput where the text column is missing or is not
    text, and where a file cannot be opened at all or one of its first lines is no document and bad rows
    stop the build. Damage further in is left for ingest. Raises Unavailable where it is the store that failed.
    """
    kind, compression = format_of(source, file.url)
    with open_input(source, file.url, file.size, kind) as stream:
        if kind == "jsonl":
            lines = Lines(stream, compression)
            schema = first_lines(source, file.url, lines, text, may_be_bad=may_be_bad)
            return Inspected(file.model_copy(update={"pieces": WHOLE}), schema)
        try:
            schema, pieces = head_of(stream, kind, text, shard_bytes)
        except DAMAGED as error:
            found = damage(stream, error)
            if may_be_bad:
                return Inspected(file.model_copy(update={"pieces": WHOLE}), None)
            raise bad_input(source, f"cannot be read: {found}", file=file.url) from error
    check_names(source, file.url, schema)
    check_text_type(source, file.url, text, schema)
    return Inspected(file.model_copy(update={"pieces": pieces}), schema)


def head_of(stream: Stream, kind: str, text: str, shard_bytes: int) -> tuple[pa.Schema, tuple[Piece, ...]]:
    """Return the columns of a Parquet or Arrow file, and its pieces."""
    if kind == "ipc":
        return plain_schema(ipc_reader(stream).schema), WHOLE
    parquet = pq.ParquetFile(stream)
    return plain_schema(parquet.schema_arrow), cut(parquet.metadata, text, shard_bytes)


def is_one_value(start: bytes) -> bool:
    """Say whether the beginning of a file is that of an array or object over several lines, or a long array."""
    line, end, rest = start.partition(b"\n")
    if line.strip() == b"{" or line.strip() == b"[":
        return True
    if not line.startswith(b"["):
        return False
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return bool(end) or len(start) >= COMPRESSED_BLOCK // 2
    return not rest.strip() and b"{" in line


def first_lines(source: str, url: str, lines: Lines, text: str, *, may_be_bad: bool) -> pa.Schema | None:
    """Return the columns of the first lines, or None where there is no object among them."""
    found, first_bad, row = list[dict[str, Any]](), None, -1
    try:
        if is_one_value(lines.start().removeprefix(BYTE_ORDER_MARK).lstrip()):
            shape = "looks like one JSON value, expected a line for each row (JSON Lines)"
            raise bad_input(source, shape, file=url, row=0)
        for row, line in enumerate(islice(lines, INSPECTED_LINES)):
            found += objects_of(line)
            first_bad = first_bad or bad_line(row, line, text)
    except UNREADABLE as error:
        reason = damage(lines.stream, error)
        first_bad = first_bad or (row + 1, f"the file is damaged from here on: {reason}")
    if first_bad and not may_be_bad and (not found or any(text in row for row in found)):
        raise bad_input(source, first_bad[1], file=url, row=first_bad[0])
    if not found:
        return None
    if not any(text in row for row in found):
        names = dict.fromkeys(name for row in found for name in row)
        there = ", ".join(map(repr, names))
        raise bad_input(source, f"no column {text!r}; there are {there}", file=url, row=0)
    try:
        return table_of(found).schema
    except TooWide as error:
        raise bad_input(source, str(error), file=url) from error


def bad_line(row: int, line: bytes | LongLine, text: str) -> tuple[int, str] | None:
    """Return the place of a line and why it is no document, or None where it is one, or is blank."""
    content = line.removeprefix(BYTE_ORDER_MARK) if isinstance(line, bytes) and row == 0 else line
    if isinstance(content, bytes) and not content.strip():
        return None
    found = parse_line(content, text)
    return (row, found) if isinstance(found, str) else None


def objects_of(line: bytes | LongLine) -> list[dict[str, Any]]:
    """Return the object of a line, or nothing: ingest will say what is wrong with it."""
    if isinstance(line, LongLine):
        return []
    try:
        found = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError:
        return []
    return [found] if isinstance(found, dict) else []


def check_names(source: str, url: str, schema: pa.Schema) -> None:
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise bad_input(source, f"two columns are called {twice[0]!r}; give each its own name", file=url)


def check_text_type(source: str, url: str, text: str, schema: pa.Schema) -> None:
    if text not in schema.names:
        found = f"no column {text!r}; there are {', '.join(map(repr, schema.names))}"
        raise bad_input(source, found, file=url)
    kind = schema.field(text).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise bad_input(source, f"column {text!r} is {kind}, expected string", file=url)


def cut(metadata: pq.FileMetaData, text: str, shard_bytes: int) -> tuple[Piece, ...]:
    """Cut a Parquet file into runs of row groups with at most `shard_bytes` of text each.

    A row group that is larger than that is a piece of its own, and gives several shards.
    """
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    index = names.index(text) if text in names else None
    pieces: list[Piece] = []
    groups: list[int] = []
    size = row = first_row = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        grows = group.column(index).total_uncompressed_size if index is not None else 0
        if groups and size + grows > shard_bytes:
            rows = row - first_row
            pieces.append(Piece(part=len(pieces), first_row=first_row, row_groups=tuple(groups), rows=rows))
            groups, size, first_row = [], 0, row
        groups.append(i)
        size += grows
        row += group.num_rows
    rows = row - first_row
    return (*pieces, Piece(part=len(pieces), first_row=first_row, row_groups=tuple(groups), rows=rows))
