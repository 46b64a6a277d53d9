"""Parquet, read a run of row groups at a time."""

import os
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.sources.columns import plain_schema
from tasks.sources.listing import Piece
from tasks.sources.rows import NO_ROWS, BadRow, Chunk, Tally, arrow_chunk, checked_columns, rest_of_file
from tasks.sources.streams import DAMAGED, Input, damage

ENDINGS = (".parquet", ".pq")
AT_RANDOM = True
VERSION = 1
# 16,384 would save a twentieth of the sketching, and hold so many documents at once
# (python -m benchmarks.constants).
BATCH_ROWS = 1024


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[Piece, ...]]:
    """Return the columns of a file, from its footer, and the pieces it is cut into."""
    parquet = pq.ParquetFile(stream)
    check_plain(stream, parquet)
    schema = checked_columns(stream, text, plain_schema(parquet.schema_arrow))
    # Each piece opens the file anew: one alone where that means to receive all of it.
    most = shard_bytes if stream.comes_in_parts else sys.maxsize
    return schema, pieces_of(parquet.metadata, text, most)


def read(stream: Input, piece: Piece, text: str, tally: Tally) -> Iterator[Chunk]:
    """Read the row groups of a piece."""
    try:
        parquet = pq.ParquetFile(stream, pre_buffer=True, page_checksum_verification=True)
        check_plain(stream, parquet)
    except DAMAGED as error:
        yield rest_of_file(piece.first_row, f"the file is damaged: {damage(stream, error)}", tally)
        return
    groups = range(parquet.num_row_groups) if piece.row_groups is None else piece.row_groups
    for group in groups:
        row, rows = piece.first_row + tally.rows, parquet.metadata.row_group(group).num_rows
        tally.rows += rows
        yield from read_row_group(stream, parquet, group, range(row, row + rows), text)


def check_plain(stream: Input, parquet: pq.ParquetFile) -> None:
    """Raise ValueError where columns are encrypted: pyarrow ends the process where it is asked about one.

    The plain footer of such a file is signed, so that it is longer than what it says of the columns. To read of
    them is safe.
    """
    stream.seek(-8, os.SEEK_END)
    if int.from_bytes(stream.read(4), "little") == parquet.metadata.serialized_size:
        return
    try:
        next(parquet.iter_batches(1, row_groups=list(range(parquet.num_row_groups))[:1]), None)
    except DAMAGED as error:
        raise ValueError(
            f"columns are encrypted, and nobody has their key here: {damage(stream, error)}"
        ) from error


def read_row_group(
    stream: Input, parquet: pq.ParquetFile, group: int, rows: range, text: str
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


def pieces_of(metadata: pq.FileMetaData, text: str, shard_bytes: int) -> tuple[Piece, ...]:
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
        group_size = group.column(index).total_uncompressed_size if index is not None else 0
        if groups and size + group_size > shard_bytes:
            rows = row - first_row
            pieces.append(Piece(part=len(pieces), first_row=first_row, row_groups=tuple(groups), rows=rows))
            groups, size, first_row = [], 0, row
        groups.append(i)
        size += group_size
        row += group.num_rows
    rows = row - first_row
    return (*pieces, Piece(part=len(pieces), first_row=first_row, row_groups=tuple(groups), rows=rows))
