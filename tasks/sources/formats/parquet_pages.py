"""Limits for the decoded size of Parquet pages, checked by their heads before Arrow decodes them.

The head of a page states its decompressed bytes and its number of values. Dictionaries, run lengths and deltas
expand few bytes to many values, and Arrow decodes a whole batch of rows. So the columns of a row group are checked
while Arrow reads their bytes, and a batch has only as many rows as fit into the limit.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.formats.thrift import MalformedThrift, struct_at, varint_at

DATA, DICTIONARY, DATA_V2 = 0, 2, 3  # kinds of pages
PLAIN_DICTIONARY, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 2, 7, 8  # encodings
KIND, SIZE, COMPRESSED_SIZE, HEAD, HEAD_V2 = 1, 2, 3, 5, 8  # fields of a page's head
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
LEVELS = 4  # bytes of the two levels of a value
FEWER_ROWS = (128, 16, 1)  # of a batch
SMALL_DICTIONARY = 1 << 16


class SmallerBatches(ValueError):
    """The rows of a batch would need too much memory. rows: the number that a batch may have."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"only {rows} rows fit into a batch")
        self.rows = rows


@dataclass(frozen=True)
class DataPage:
    """A data page: the rows that begin in it, its size, and the most bytes of one value and of all its values."""

    rows: int
    size: int
    value_bytes: int
    all_bytes: int


@dataclass(frozen=True)
class ColumnPages:
    """A column of a row group. width: bytes of a value, or None for texts. levels: of repetition, 0 if flat."""

    place: range
    codec: str
    width: int | None
    levels: int

    def look_through(self, content: bytes) -> list[DataPage]:
        """Return the data pages of the column. Raises ValueError if a page is too large."""
        pages = [*self.pages(content, counts_rows=False)]
        if self.levels and sum(page.all_bytes for page in pages) > limits().batch_bytes:
            return [*self.pages(content, counts_rows=True)]
        return pages

    def pages(self, content: bytes, *, counts_rows: bool) -> Iterator[DataPage]:
        place = longest = 0
        with suppress(MalformedThrift):  # Arrow reports it
            while place < len(content):
                head, start = struct_at(content, place)
                size, place = number_in(head, SIZE), start + number_in(head, COMPRESSED_SIZE)
                if size > limits().page_bytes:
                    raise ValueError(f"a page of {size:,} bytes, expected at most {limits().page_bytes:,}")
                body = content[start:place]
                if head.get(KIND) == DICTIONARY:
                    longest = self.longest_of(body, size)
                elif head.get(KIND) in (DATA, DATA_V2):
                    yield self.page(head, body, longest, counts_rows=counts_rows)

    def longest_of(self, body: bytes, size: int) -> int:
        """Return the length of a dictionary's longest value, or its size if that is small or unreadable."""
        longest = place = 0
        if self.width is not None or size < SMALL_DICTIONARY:
            return size
        with suppress(pa.ArrowException, ValueError, OSError):
            content = self.decompressed(body, size)
            while place + 4 <= len(content):
                length = int.from_bytes(content[place : place + 4], "little")
                longest, place = max(longest, length), place + 4 + length
            return longest
        return size

    def page(self, head: dict[int, Any], body: bytes, longest: int, *, counts_rows: bool) -> DataPage:
        """Return a data page. longest: of the dictionary's values. Raises MalformedThrift."""
        size, is_second = number_in(head, SIZE), head[KIND] == DATA_V2
        own = head.get(HEAD_V2 if is_second else HEAD)
        if not isinstance(own, dict):
            raise MalformedThrift("a data page without its head")
        values, encoding = number_in(own, 1), own.get(4 if is_second else 2)
        value_bytes, repeats = self.largest_value(encoding, size, longest)
        all_bytes = values * (value_bytes + LEVELS) if repeats else size + values * LEVELS
        rows = values
        if self.levels and is_second:
            rows = number_in(own, 3)
        elif self.levels:
            rows = self.rows_in(body, size, values) if counts_rows else 0
        return DataPage(rows, size, value_bytes + LEVELS, all_bytes)

    def largest_value(self, encoding: int | None, size: int, longest: int) -> tuple[int, bool]:
        """Return the most bytes of a value of a page, and whether its values may share their stored bytes."""
        if self.width is not None:
            return self.width, True
        if encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY):
            return longest, True
        return size, encoding == DELTA_BYTE_ARRAY

    def rows_in(self, body: bytes, size: int, values: int) -> int:
        """Return the number of rows that begin in a page of version 1; 0 if it is unreadable."""
        with suppress(pa.ArrowException, ValueError, OSError):
            content = self.decompressed(body, size)
            levels = content[4 : 4 + int.from_bytes(content[:4], "little")]
            return count_zeros(levels, values, self.levels.bit_length())
        return 0

    def decompressed(self, body: bytes, size: int) -> bytes:
        if self.codec == "UNCOMPRESSED":
            return body
        name = "lz4_raw" if self.codec == "LZ4" else self.codec.lower()
        return bytes(pa.Codec(name).decompress(body, size, asbytes=True))


def number_in(fields: dict[int, Any], name: int) -> int:
    """Return a non-negative number of a struct. Raises MalformedThrift if it is missing."""
    value = fields.get(name)
    if not isinstance(value, int) or value < 0:
        raise MalformedThrift(f"field {name} is {value}, expected a number from 0")
    return value


def count_zeros(levels: bytes, count: int, width: int) -> int:
    """Count the zeros among levels of `width` bits, in Parquet's hybrid of runs and packed values."""
    place = zeros = seen = 0
    while place < len(levels) and seen < count:
        head, place = varint_at(levels, place)
        most, size = count - seen, (width + 7) // 8
        if head & 1:
            most, size = min(most, 8 * (head >> 1)), width * (head >> 1)
            bits = np.unpackbits(np.frombuffer(levels[place : place + size], np.uint8), bitorder="little")
            packed = bits[: len(bits) // width * width].reshape(-1, width)[:most]
            zeros += len(packed) - int(np.count_nonzero(packed.any(axis=1)))
        else:
            most = min(most, head >> 1)
            zeros += most if not any(levels[place : place + size]) else 0
        place, seen = place + size, seen + max(1, most)
    return zeros


def most_bytes(pages: Sequence[DataPage], rows: int, *, is_nested: bool) -> int:
    """Return the most bytes to which consecutive rows decode. rows: their number."""
    if not is_nested:
        sizes = [min(page.all_bytes, rows * page.value_bytes) for page in pages]
        if rows == 1:
            return max(sizes, default=0)
    else:
        sizes = [page.all_bytes for page in pages]
    before = [0, *accumulate(page.rows for page in pages)]
    bytes_before = [0, *accumulate(sizes)]
    most = first = 0
    for last in range(len(pages)):
        while first < last and before[last] - before[first + 1] >= rows:  # the pages between have enough rows
            first += 1
        most = max(most, bytes_before[last + 1] - bytes_before[first])
    return most


class PageBounds:
    """Checks the columns of a row group, each when its bytes have been read."""

    def __init__(self, columns: Iterable[ColumnPages], rows: int) -> None:
        self.unread, self.rows = list(columns), rows
        self.pages_of_columns = list[tuple[ColumnPages, list[DataPage]]]()

    def see(self, place: int, content: bytes) -> None:
        """Check bytes of the file. Raises SmallerBatches, and ValueError if no batch is small enough."""
        end = place + len(content)
        complete = [
            column for column in self.unread if place <= column.place.start and column.place.stop <= end
        ]
        for column in complete:
            self.unread.remove(column)
            pages = column.look_through(content[column.place.start - place : column.place.stop - place])
            self.pages_of_columns.append((column, pages))
        if complete:
            self.judge()

    def judge(self) -> None:
        """Compare the columns read so far with the limits."""
        most = limits().page_bytes
        largest = sum(largest_page(pages) for _, pages in self.pages_of_columns)
        if largest > 2 * most:
            raise ValueError(f"pages of {largest:,} bytes in one row group, expected at most {2 * most:,}")
        if self.batch_size(self.rows) <= limits().batch_bytes:
            return
        fewer = [rows for rows in FEWER_ROWS if rows < self.rows]
        if fitting := next((rows for rows in fewer if self.batch_size(rows) <= limits().batch_bytes), None):
            raise SmallerBatches(fitting)
        if (size := self.batch_size(1)) > most:
            raise ValueError(f"a row of up to {size:,} bytes, expected at most {most:,}")
        if fewer:
            raise SmallerBatches(1)

    def batch_size(self, rows: int) -> int:
        return sum(
            most_bytes(pages, rows, is_nested=column.levels > 0) for column, pages in self.pages_of_columns
        )


def largest_page(pages: Sequence[DataPage]) -> int:
    return max((page.size for page in pages), default=0)


def columns_in(
    metadata: pq.FileMetaData, group: int, places: Iterable[tuple[int, range]]
) -> Iterator[ColumnPages]:
    """Yield the columns of a row group. places: their numbers and byte ranges."""
    for number, place in places:
        schema = metadata.schema.column(number)
        width = WIDTHS.get(schema.physical_type, schema.length if schema.length > 0 else None)
        codec = metadata.row_group(group).column(number).compression
        yield ColumnPages(place, codec, width, schema.max_repetition_level)
