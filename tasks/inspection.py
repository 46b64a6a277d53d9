"""A look at a file before hours are spent: its columns, and how it will be cut into pieces."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.columns import table_of
from tasks.errors import bad_input
from tasks.listing import InputFile, Piece
from tasks.readers import ipc_reader
from tasks.streams import DAMAGED, first_line, format_of, lines_of, open_input

INSPECTED_LINES = 1000
WHOLE: tuple[Piece, ...] = (Piece(),)


@dataclass(frozen=True)
class Inspected:
    """A file with its pieces, and its columns: None where no row shows any."""

    file: InputFile
    table_schema: pa.Schema | None


def inspect(source: str, file: InputFile, text: str, shard_bytes: int) -> Inspected:
    """Look at a file before hours are spent: its columns, and how it will be cut into pieces.

    Reads a footer, or the first lines. Raises BadInput where the text column is missing or is not
    text, and where a Parquet or Arrow file cannot be opened at all. Damage further in is left for
    ingest, which may set it aside.
    """
    kind, compression = format_of(source, file.url)
    with open_input(file.url, kind) as stream:
        if kind == "jsonl":
            schema = first_lines(source, file.url, lines_of(stream, compression), text)
            return Inspected(file.model_copy(update={"pieces": WHOLE}), schema)
        try:
            if kind == "ipc":
                schema, pieces = ipc_reader(stream).schema, WHOLE
            else:
                parquet = pq.ParquetFile(stream)
                schema, pieces = parquet.schema_arrow, cut(parquet.metadata, text, shard_bytes)
        except DAMAGED as error:
            raise bad_input(source, f"cannot be read: {first_line(error)}", file=file.url) from error
    check_text_type(source, file.url, text, schema)
    return Inspected(file.model_copy(update={"pieces": pieces}), schema)


def first_lines(source: str, url: str, lines: Iterator[bytes], text: str) -> pa.Schema | None:
    """Return the columns of the first lines, or None where there is no object among them."""
    found = list[dict[str, Any]]()
    try:
        for line in islice(lines, INSPECTED_LINES):
            row = orjson.loads(line) if line.strip() else None
            found += [row] if isinstance(row, dict) else []
    except (*DAMAGED, orjson.JSONDecodeError):
        pass  # ingest will say which row, or set it aside
    if not found:
        return None
    if not any(text in row for row in found):
        names = dict.fromkeys(name for row in found for name in row)
        there = ", ".join(map(repr, names))
        raise bad_input(source, f"no column {text!r}; there are {there}", file=url, row=0)
    return table_of(found).schema


def check_text_type(source: str, url: str, text: str, schema: pa.Schema) -> None:
    if text not in schema.names:
        found = f"no column {text!r}; there are {', '.join(map(repr, schema.names))}"
        raise bad_input(source, found, file=url)
    kind = schema.field(text).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()):
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
            pieces.append(Piece(part=len(pieces), first_row=first_row, row_groups=tuple(groups)))
            groups, size, first_row = [], 0, row
        groups.append(i)
        size += grows
        row += group.num_rows
    return (*pieces, Piece(part=len(pieces), first_row=first_row, row_groups=tuple(groups)))
