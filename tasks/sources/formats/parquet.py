"""Parquet, read a run of row groups at a time."""

import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.sources.byte_lines import DAMAGED
from zyda_flows.tasks.sources.columns import decode_table, decoded_schema
from zyda_flows.tasks.sources.file_rows import (
    Chunk,
    DecodedGrowth,
    RowTally,
    arrow_chunk,
    checked_columns,
    rest_of_file,
    unreadable_rows,
)
from zyda_flows.tasks.sources.footers import FOOTER_CHECKER
from zyda_flows.tasks.sources.formats.int96 import MICROSECONDS, Int96Columns, exact_times
from zyda_flows.tasks.sources.formats.parquet_pages import PageBounds, SmallerBatches, columns_in
from zyda_flows.tasks.sources.input_files import FilePiece
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input, damage

NAME = "parquet"
ENDINGS = (".parquet", ".pq")
AT_RANDOM = True
VERSION = 1
# 16,384 would save a twentieth of the sketching, and hold 16,384 documents in memory.
BATCH_ROWS = 1024
FOOTER_AT_ONCE = 1 << 16
REQUEST_BYTES = 16 << 20  # of a remote file, in one request
GAP_BYTES = 1 << 20  # a gap up to this size is read rather than split into two requests
# In Thrift's compact protocol: ENCRYPTION_WITH_COLUMN_KEY, whose first field is a list of strings.
STRINGS = re.escape(bytes(range(0x08, 0x100, 0x10)))  # the first byte of such a list, by its length
ENCRYPTED_COLUMN = re.compile(rb"(?:\x2c|\x0c\x04)(?:\x19|\x09\x02)[" + STRINGS + rb"]")


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
    """Return the columns of a file, from its footer, and the pieces it is cut into."""
    footer = footer_of(stream)
    parquet = open_parquet(stream, footer)
    schema = checked_columns(stream, text, decoded_schema(parquet.schema_arrow), may_be_bad=may_be_bad)
    # Each piece opens the file. If opening it means to receive all of it, there is one piece.
    most = shard_bytes if stream.comes_in_parts else sys.maxsize
    metadata = parquet.metadata
    if not FOOTER_CHECKER.is_safe(footer):
        raise ValueError("its footer is damaged")
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    if sum(group.total_byte_size for group in groups) <= most:
        rows = sum(group.num_rows for group in groups)
        return schema, (FilePiece(row_groups=tuple(range(len(groups))), rows=rows),)
    return schema, pieces_of(metadata, text, most)


def read(
    stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Read the row groups of a piece."""
    if is_small := stream.expected <= GAP_BYTES:
        stream.expect_reads([range(stream.expected)])
    try:
        footer = footer_of(stream)
        if not FOOTER_CHECKER.is_safe(footer):  # the positions of its columns are read below
            raise ValueError(
                "its footer is damaged, or its columns are encrypted and their key is not available"
            )
        parquet = open_parquet(stream, footer, pre_buffer=True, page_checksum_verification=True)
        int96 = Int96Columns(parquet, partial(open_parquet, stream, footer, page_checksum_verification=True))
    except DAMAGED as error:
        yield rest_of_file(piece.first_row, f"the file is damaged: {damage(stream, error)}", tally)
        return
    groups = range(parquet.num_row_groups) if piece.row_groups is None else piece.row_groups
    names = selection.of(parquet.schema_arrow.names, text)
    if stream.is_far and not is_small:
        stream.expect_reads(ranges_of(parquet.metadata, groups, {*names}))
    reader = GroupReader(stream, parquet, int96, text, names if selection != ALL else None, tally)
    for group in groups:
        row, rows = piece.first_row + tally.rows, parquet.metadata.row_group(group).num_rows
        tally.rows += rows
        yield from reader.chunks(group, range(row, row + rows))


def first_rows(stream: Input, count: int) -> Chunk:
    """Return the first rows. Raises an error of DAMAGED."""
    schema = open_parquet(stream, footer_of(stream)).schema_arrow
    batches = [batch.slice(0, count) for batch in islice(bounded_batches(stream), 1)]
    table = pa.Table.from_batches(batches) if batches else schema.empty_table()
    return Chunk(np.arange(len(table)), decode_table(table))


def bounded_batches(stream: Input) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a whole file in batches. Raises an error of DAMAGED."""
    footer = footer_of(stream)
    if not FOOTER_CHECKER.is_safe(footer):
        raise ValueError("its footer is damaged")
    parquet = open_parquet(stream, footer, pre_buffer=True)
    int96 = Int96Columns(parquet, partial(open_parquet, stream, footer))
    reader = GroupReader(stream, parquet, int96, "", None, RowTally())
    for group in range(parquet.num_row_groups):
        yield from (batch for batch, _ in reader.batches(group))


def open_parquet(stream: Input, footer: bytes, unit: str = MICROSECONDS, **options: Any) -> pq.ParquetFile:
    """Open a file by its footer. unit: of INT96 times. Raises ValueError if columns are encrypted.

    pyarrow aborts the process when it reads the metadata of an encrypted column. If the footer seems to have such
    a column, a child process checks it first.
    """
    metadata = pq.read_metadata(BytesIO(footer))
    if ENCRYPTED_COLUMN.search(footer) and not FOOTER_CHECKER.is_safe(footer):
        raise ValueError("its columns are encrypted and their key is not available")
    return pq.ParquetFile(stream, metadata=metadata, coerce_int96_timestamp_unit=unit, **options)


def footer_of(stream: Input) -> bytes:
    """Read the end of a file: its footer with the bytes after it, or the last bytes of a file without a footer."""
    tail = last_bytes(stream, FOOTER_AT_ONCE)
    size = int.from_bytes(tail[-8:-4], "little") + 8
    if not tail.endswith(b"PAR1") or size <= len(tail):
        return tail[-size:]
    if size > stream.expected:
        raise ValueError(f"its footer has {size - 8:,} bytes, but the file has {stream.expected:,}")
    return last_bytes(stream, size)


def last_bytes(stream: Input, size: int) -> bytes:
    size = min(size, stream.expected)
    stream.seek(stream.expected - size)
    return stream.read(size)


@dataclass(frozen=True)
class GroupReader:
    """Reads the row groups of a file. names: of the columns to read, or None for all."""

    stream: Input
    parquet: pq.ParquetFile
    int96: Int96Columns
    text: str
    names: list[str] | None
    tally: RowTally

    def chunks(self, group: int, rows: range) -> Iterator[Chunk]:
        """Yield the rows of a row group; unreadable rows of a damaged row group are bad rows."""
        row = rows.start
        try:
            for batch, times in self.batches(group):
                yield arrow_chunk(*exact_times(batch, times), self.text, row)
                row += batch.num_rows
            fault = f"it ends after {row - rows.start:,} of {len(rows):,} rows"
        except DAMAGED as error:
            fault = damage(self.stream, error)
        if row < rows.stop:
            yield unreadable_rows(range(row, rows.stop), f"row group {group} is damaged: {fault}", self.tally)

    def batches(self, group: int) -> Iterator[tuple[pa.RecordBatch, tuple[pa.RecordBatch, ...]]]:
        """Yield the batches of a row group, each with its INT96 columns in other units."""
        names = self.names or self.parquet.schema_arrow.names
        places = [*numbered_chunks(self.parquet.metadata.row_group(group), {*names})]
        rows = BATCH_ROWS
        while True:
            columns = columns_in(self.parquet.metadata, group, places)
            self.stream.watch = PageBounds(columns, rows).see
            batches = self.parquet.iter_batches(rows, row_groups=[group], columns=self.names)
            others = self.int96.batches(rows, group, names)
            try:
                first = next(batches, None)
                break
            except (
                SmallerBatches
            ) as error:  # raised before the first batch, when all its columns have been read
                rows = error.rows
        growth = DecodedGrowth(sum(len(place) for _, place in places))
        for batch in chain([] if first is None else [first], batches):
            growth.add(batch.nbytes)
            # The path of a nested column may equal the name of a column with a dot: pyarrow then reads both.
            yield batch.select(self.names) if self.names is not None else batch, next(others, ())


def ranges_of(metadata: pq.FileMetaData, groups: Iterable[int], names: Collection[str]) -> list[range]:
    """Return the byte ranges for single requests: some columns of as many row groups as fit.

    A small gap between two columns is part of a range. A row group that is larger than a request has no range: it
    is read as needed.
    """
    ranges = list[range]()
    for group in groups:
        own = close_ranges(chunks_of(metadata.row_group(group), names))
        is_next = bool(ranges and own) and 0 <= own[0].start - ranges[-1].stop <= GAP_BYTES
        if is_next and own[0].stop - ranges[-1].start <= REQUEST_BYTES:
            own[0] = range(ranges.pop().start, own[0].stop)
        ranges += own
    return [part for part in ranges if len(part) <= REQUEST_BYTES]


def chunks_of(group: pq.RowGroupMetaData, names: Collection[str]) -> Iterator[range]:
    """Yield the byte ranges of some columns of a row group."""
    yield from (place for _, place in numbered_chunks(group, names))


def numbered_chunks(group: pq.RowGroupMetaData, names: Collection[str]) -> Iterator[tuple[int, range]]:
    """Yield the numbers and byte ranges of some columns of a row group."""
    for number, column in enumerate(map(group.column, range(group.num_columns))):
        if column.path_in_schema.split(".")[0] in names or column.path_in_schema in names:
            starts = [column.data_page_offset]
            starts += [column.dictionary_page_offset] if column.has_dictionary_page else []
            yield number, range(min(starts), min(starts) + column.total_compressed_size)


def close_ranges(ranges: Iterable[range]) -> list[range]:
    """Join ranges with small gaps between them, and return them in order."""
    joined = list[range]()
    for part in sorted(ranges, key=attrgetter("start")):
        if joined and part.start - joined[-1].stop <= GAP_BYTES:
            joined[-1] = range(joined[-1].start, max(part.stop, joined[-1].stop))
        else:
            joined.append(part)
    return joined


def pieces_of(metadata: pq.FileMetaData, text: str, shard_bytes: int) -> tuple[FilePiece, ...]:
    """Cut a Parquet file into runs of row groups with at most `shard_bytes` of text each, or of all columns.

    A larger row group is a separate piece, which gives several shards.
    """
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    index = names.index(text) if text in names else None
    pieces: list[FilePiece] = []
    groups: list[int] = []
    size = row = first_row = 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        group_size = group.total_byte_size if index is None else group.column(index).total_uncompressed_size
        if groups and size + group_size > shard_bytes:
            rows = row - first_row
            pieces.append(
                FilePiece(part=len(pieces), first_row=first_row, row_groups=tuple(groups), rows=rows)
            )
            groups, size, first_row = [], 0, row
        groups.append(i)
        size += group_size
        row += group.num_rows
    rows = row - first_row
    return (*pieces, FilePiece(part=len(pieces), first_row=first_row, row_groups=tuple(groups), rows=rows))
