"""Chunks of the rows of a file: valid rows in tables, bad rows with their reasons, and the counts of all rows.

Each row of a file is in exactly one chunk: in its table, or among its bad, blank or skipped rows. The rows are
also counted independently, from footers, batches and line ends (`RowTally`), and `tasks.ingest.ingest` compares
both counts.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.errors import bad_input
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.column_names import separator_fault
from zyda_flows.tasks.sources.columns import as_bytes, as_one_array, cast_decoded, decode_table
from zyda_flows.tasks.sources.streams import Input
from zyda_flows.tasks.sources.type_unification import leaf_arrays

NO_ROWS = np.empty(0, np.int64)
MOST_SECONDS = (1 << 63) // 1000 - 1  # the largest time that fits into 64 bits of milliseconds


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is not a document: its number in the file, the reason and the content.

    A row with `is_rest` stands for several rows: the rest of the file, or a range of rows in its `RowTally`.
    columns:
    the other readable columns, as a JSON object.
    """

    row: int
    reason: str
    content: bytes = b""
    is_rest: bool = False
    columns: str | None = None

    def without_content(self) -> "BadRow":
        return replace(self, content=b"", columns=None)


@dataclass(frozen=True)
class Chunk:
    """Rows of a file. rows: (n,) int64, the numbers of the table's n rows. blank: the numbers of blank rows.

    skipped: the numbers of records that are not documents, with their kind. bad_columns: for formats with columns,
    the other columns of the bad rows, one row for each.
    """

    rows: NDArray[np.int64]
    table: pa.Table
    bad: list[BadRow] = field(default_factory=list)
    blank: NDArray[np.int64] = field(default_factory=NO_ROWS.copy)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    bad_columns: pa.Table | None = None

    def count(self, tally: "RowTally") -> int:
        """Return the number of rows. tally: gives the sizes of the ranges that a bad row stands for."""
        ranges = {rows.start: len(rows) for rows in tally.unread}
        bad = sum(ranges.get(row.row, 0) if row.is_rest else 1 for row in self.bad)
        return len(self.rows) + len(self.blank) + len(self.skipped) + bad

    def has_text(self, text: str) -> bool:
        """Return whether a document of the chunk has a text that is not empty."""
        return bool(len(self.rows)) and pc.max(pc.binary_length(self.table.column(text))).as_py() > 0


@dataclass
class RowTally:
    """The number of rows of a piece by its footer, batches or line ends, complete once the piece has been read.

    rests: the number of bad rows that stand for several rows. unread: the ranges of rows for which such a bad row
    stands, if their number is known. damaged: the number of rows in damaged parts.
    """

    rows: int = 0
    rests: int = 0
    unread: list[range] = field(default_factory=list)
    damaged: int = 0

    def read_ranges(self, first_row: int) -> Iterator[range]:
        """Yield the ranges of rows that are not in `unread`, for a piece that begins at `first_row`."""
        start = first_row
        for rows in self.unread:
            yield range(start, rows.start)
            start = rows.stop
        yield range(start, first_row + self.rows)


class DecodedGrowth:
    """The decoded size that remains for a part of a file. size: bytes of the stored part."""

    def __init__(self, size: int) -> None:
        self.remaining = limits().growth_from + limits().growth * size

    def add(self, size: int) -> None:
        """Subtract decoded bytes. Raises ValueError if the part decodes to too many."""
        self.remaining -= size
        if self.remaining < 0:
            raise ValueError(f"it decodes to more than {limits().growth:,} times its size")


def unreadable_rows(rows: range, reason: str, tally: RowTally) -> Chunk:
    """Return a chunk with a bad row for each of the rows, or with one for all if there are too many."""
    tally.damaged += len(rows)
    if tally.damaged <= limits().damaged_rows:
        return Chunk(NO_ROWS, pa.table({}), [BadRow(row, reason) for row in rows])
    tally.rests += 1
    tally.unread.append(rows)
    reason = f"rows {rows.start:,} to {rows.stop - 1:,}: {reason}"
    return Chunk(NO_ROWS, pa.table({}), [BadRow(rows.start, reason, is_rest=True)])


def rest_of_file(row: int, reason: str, tally: RowTally) -> Chunk:
    """Return a chunk with one bad row for all rows from `row` on."""
    tally.rests += 1
    return Chunk(NO_ROWS, pa.table({}), [BadRow(row, reason, is_rest=True)])


def utf8_fault(content: bytes) -> str | None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start}: {error.reason}"
    return None


def arrow_chunk(table: pa.Table, faults: dict[int, str], text: str, first_row: int) -> Chunk:
    """Return a chunk of Arrow rows; rows with a null text or with invalid UTF-8 in any column are bad rows.

    faults: the known faults of some rows, by row. Raises an error of DAMAGED if offsets are out of bounds, because
    the format has no checksums.

    text: "" for a table without texts, whose bad rows have no content.
    """
    rows = np.arange(first_row, first_row + len(table))
    if not text:
        table = decode_table(table)
        reasons = faults | column_faults(table, "")
        good = np.setdiff1d(np.arange(len(table)), list(reasons))
        bad = [BadRow(int(rows[i]), reasons[i]) for i in sorted(reasons)]
        return Chunk(rows[good], table.take(good) if bad else table, bad)
    column = table.column(text)
    if pa.types.is_run_end_encoded(column.type):
        column = cast_decoded(column, pa.large_string())
    texts = as_one_array(column).cast(pa.large_binary())
    table = table.set_column(table.column_names.index(text), text, texts)
    table = decode_table(table)
    reasons = dict.fromkeys(np.flatnonzero(texts.is_null()).tolist(), f"{text!r} is null") | faults
    reasons |= invalid_texts(texts)
    reasons = column_faults(table, text) | reasons
    bad = [
        BadRow(int(rows[i]), reasons[i], (texts[i].as_py() or b"")[: limits().bad_row_bytes])
        for i in sorted(reasons)
    ]
    bad_columns = None
    if bad:
        bad_columns = table.drop_columns([text]).take(sorted(reasons))
        good = np.setdiff1d(np.arange(len(table)), list(reasons))
        table, texts, rows = table.take(good), texts.take(good), rows[good]
    index = table.column_names.index(text)
    table = table.set_column(index, text, texts.cast(pa.large_string()))
    return Chunk(rows, table, bad, bad_columns=bad_columns)


def column_faults(table: pa.Table, text: str) -> dict[int, str]:
    """Return the rows with a value that cannot be stored, each with its fault. text: a column to leave out."""
    faults = dict[int, str]()
    for name in table.column_names:
        if name != text:
            faults = utf8_faults(name, table.column(name)) | time_faults(name, table.column(name)) | faults
    return faults


def invalid_texts(texts: pa.LargeBinaryArray) -> dict[int, str]:
    """Return the rows of texts with invalid UTF-8, each with its fault."""
    try:  # Arrow checks the UTF-8 of all texts at once; each text is checked only if that fails
        texts.cast(pa.large_string())
        return {}
    except pa.ArrowInvalid:
        faults = {
            i: utf8_fault(content) for i, content in enumerate(texts.to_pylist()) if content is not None
        }
        return {i: fault for i, fault in faults.items() if fault}


def utf8_faults(name: str, column: pa.ChunkedArray) -> dict[int, str]:
    """Return the rows of a column with invalid UTF-8 at any level, each with its fault."""
    if as_bytes(column.type) == column.type:  # it holds no text
        return {}
    array = as_one_array(column)
    bad = bad_places(len(array), lambda rows: not has_utf8_fault(array.take(rows)))
    return dict.fromkeys(bad, f"column {name!r}: invalid UTF-8") if has_utf8_fault(array) else {}


def time_faults(name: str, column: pa.ChunkedArray) -> dict[int, str]:
    """Return the rows of a column with seconds that do not fit into Parquet's milliseconds, at any level."""
    if "timestamp[s" not in str(column.type):
        return {}
    array = as_one_array(column)

    def are_held(rows: pa.Array) -> bool:
        leaves = leaf_arrays(array.take(rows))
        return all(map(fit_milliseconds, leaves))

    fault = f"column {name!r}: a time that 64 bits of milliseconds do not hold"
    return dict.fromkeys(bad_places(len(array), are_held), fault)


def fit_milliseconds(times: pa.Array) -> bool:
    """Return whether all times of an array fit into milliseconds; True for arrays of other types."""
    if not pa.types.is_timestamp(times.type) or times.type.unit != "s":
        return True
    extremes = pc.min_max(times.cast(pa.int64())).as_py()
    return all(abs(value or 0) <= MOST_SECONDS for value in extremes.values())


def bad_places(count: int, are_good: Callable[[pa.Array], bool]) -> Iterator[int]:
    """Yield the bad rows among `count` rows. are_good: whether all rows of an index, (n,) int64, are."""
    ranges = [range(count)] if count else []
    while ranges:
        rows = ranges.pop()
        if are_good(pa.array(np.arange(rows.start, rows.stop))):
            continue
        if len(rows) == 1:
            yield rows.start
        else:
            ranges += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]


def has_utf8_fault(array: pa.Array) -> bool:
    """Return whether an array is invalid, but valid with its texts as bytes."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        with suppress(pa.ArrowInvalid):  # for other faults, such as a date out of range
            array.view(as_bytes(array.type)).validate(full=True)
            return True
    return False


def checked_columns(stream: Input, text: str, schema: pa.Schema, *, may_be_bad: bool = False) -> pa.Schema:
    """Return a file's columns. may_be_bad: the text column may have the null type.

    Raises BadInput if two columns have the same name, or the text column is missing or not a text.
    """
    check_names(stream.source, stream.url, schema)
    if not (may_be_bad and text in schema.names and pa.types.is_null(schema.field(text).type)):
        check_text_type(stream.source, stream.url, text, schema)
    return schema


def check_names(source: str, url: str, schema: pa.Schema) -> None:
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise bad_input(source, f"two columns are called {twice[0]!r}; give each its own name", file=url)


def check_text_type(source: str, url: str, text: str, schema: pa.Schema) -> None:
    """Raise BadInput if the column of the text is missing or not a text. text: "" for a table without texts."""
    if not text:
        return
    if text not in schema.names:
        fault = f"no column {text!r}; there are {', '.join(map(repr, schema.names))}"
        raise bad_input(source, separator_fault(schema) or fault, file=url)
    kind = schema.field(text).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise bad_input(source, f"column {text!r} is {kind}, expected string", file=url)
