"""Rows of a file on their way to documents: good ones in tables, bad ones with their reason, all of them counted.

Each row of a file is in exactly one chunk, in its table, among its bad rows, its blank or its skipped ones. How
many rows there are is counted apart from that, by footers, batches and ends of lines (`RowTally`), and
`tasks.ingest.ingest` compares the two.
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
MOST_SECONDS = (1 << 63) // 1000 - 1  # of a time that is stored in milliseconds


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be a document: its place in the file, why, and what was there.

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
    """Rows of a file: `rows` (n,) int64 are the places of the table's n rows, `blank` those of nothing.

    skipped: the places of records that are no documents of their kind, with what they are. bad_columns: of formats
    with columns, those of the bad rows beside the text, a row for each.
    """

    rows: NDArray[np.int64]
    table: pa.Table
    bad: list[BadRow] = field(default_factory=list)
    blank: NDArray[np.int64] = field(default_factory=NO_ROWS.copy)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    bad_columns: pa.Table | None = None

    def count(self, tally: "RowTally") -> int:
        """Count its rows. tally: has the ranges that one bad row stands for."""
        ranges = {rows.start: len(rows) for rows in tally.unread}
        bad = sum(ranges.get(row.row, 0) if row.is_rest else 1 for row in self.bad)
        return len(self.rows) + len(self.blank) + len(self.skipped) + bad

    def has_text(self, text: str) -> bool:
        """Say whether a document of it has a text that is not empty."""
        return bool(len(self.rows)) and pc.max(pc.binary_length(self.table.column(text))).as_py() > 0


@dataclass
class RowTally:
    """How many rows a piece has by its footer, its batches or the ends of its lines, once it was read.

    `rests` counts the bad rows that stand for several. `unread` are the rows that such a one stands for, if their
    number is known. `damaged` counts the rows of damaged parts that are bad rows each.
    """

    rows: int = 0
    rests: int = 0
    unread: list[range] = field(default_factory=list)
    damaged: int = 0

    def read_ranges(self, first_row: int) -> Iterator[range]:
        """Yield the rows that are counted one by one, of a piece whose first row is given."""
        start = first_row
        for rows in self.unread:
            yield range(start, rows.start)
            start = rows.stop
        yield range(start, first_row + self.rows)


class DecodedGrowth:
    """What is decoded of a part of a file. size: bytes of that part, as it is stored."""

    def __init__(self, size: int) -> None:
        self.left = limits().growth_from + limits().growth * size

    def add(self, size: int) -> None:
        """Count bytes that were decoded. Raises ValueError if they are too many for the part."""
        self.left -= size
        if self.left < 0:
            raise ValueError(f"it decodes to more than {limits().growth:,} times its size")


def unreadable_rows(rows: range, reason: str, tally: RowTally) -> Chunk:
    """Return the chunk of rows that cannot be read: a bad row for each, or one for all where they are too many."""
    tally.damaged += len(rows)
    if tally.damaged <= limits().damaged_rows:
        return Chunk(NO_ROWS, pa.table({}), [BadRow(row, reason) for row in rows])
    tally.rests += 1
    tally.unread.append(rows)
    reason = f"rows {rows.start:,} to {rows.stop - 1:,}: {reason}"
    return Chunk(NO_ROWS, pa.table({}), [BadRow(rows.start, reason, is_rest=True)])


def rest_of_file(row: int, reason: str, tally: RowTally) -> Chunk:
    """Return the chunk that says that nothing from a row on can be read."""
    tally.rests += 1
    return Chunk(NO_ROWS, pa.table({}), [BadRow(row, reason, is_rest=True)])


def utf8_fault(content: bytes) -> str | None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start}: {error.reason}"
    return None


def arrow_chunk(table: pa.Table, faults: dict[int, str], text: str, first_row: int) -> Chunk:
    """Judge Arrow rows: those with a null text, or with invalid UTF-8 in any column, are bad. Decode the others.

    faults: what is known to be wrong with some rows of the table.
    Raises one of DAMAGED where offsets lead out of memory: the format has no checksums.
    """
    rows = np.arange(first_row, first_row + len(table))
    column = table.column(text)
    if pa.types.is_run_end_encoded(column.type):
        column = cast_decoded(column, pa.large_string())
    texts = as_one_array(column).cast(pa.large_binary())
    table = table.set_column(table.column_names.index(text), text, texts)
    table = decode_table(table)
    reasons = dict.fromkeys(np.flatnonzero(texts.is_null()).tolist(), f"{text!r} is null") | faults
    try:  # from bytes to text Arrow checks the UTF-8; one by one they are looked at only if that fails
        texts.cast(pa.large_string())
    except pa.ArrowInvalid:
        contents = enumerate(texts.to_pylist())
        found = ((i, utf8_fault(content)) for i, content in contents if content is not None)
        reasons |= {i: fault for i, fault in found if fault}
    for name in table.column_names:
        if name != text:
            reasons = utf8_faults(name, table.column(name)) | time_faults(name, table.column(name)) | reasons
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


def utf8_faults(name: str, column: pa.ChunkedArray) -> dict[int, str]:
    """Return the rows of a column with invalid UTF-8 at any level, each with a sentence that says so."""
    if as_bytes(column.type) == column.type:  # it holds no text
        return {}
    array = as_one_array(column)
    bad = bad_places(len(array), lambda rows: not has_utf8_fault(array.take(rows)))
    return dict.fromkeys(bad, f"column {name!r}: invalid UTF-8") if has_utf8_fault(array) else {}


def time_faults(name: str, column: pa.ChunkedArray) -> dict[int, str]:
    """Return the rows of a column with seconds that Parquet, which has milliseconds, does not hold at any level."""
    if "timestamp[s" not in str(column.type):
        return {}
    array = as_one_array(column)

    def are_held(rows: pa.Array) -> bool:
        leaves = leaf_arrays(array.take(rows))
        return all(hold_milliseconds(one) for one in leaves if pa.types.is_timestamp(one.type))

    fault = f"column {name!r}: a time that 64 bits of milliseconds do not hold"
    return dict.fromkeys(bad_places(len(array), are_held), fault)


def hold_milliseconds(times: pa.TimestampArray) -> bool:
    if times.type.unit != "s":
        return True
    found = pc.min_max(times.cast(pa.int64())).as_py()
    return all(abs(value or 0) <= MOST_SECONDS for value in found.values())


def bad_places(count: int, are_good: Callable[[pa.Array], bool]) -> Iterator[int]:
    """Yield which of so many rows are bad. are_good: says whether all rows at some places, (n,) int64, are good."""
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
    """Say whether an array is not in order, and is where its texts are taken for bytes."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        with suppress(pa.ArrowInvalid):  # of a date out of its range, say, which nobody is asked about
            array.view(as_bytes(array.type)).validate(full=True)
            return True
    return False


def checked_columns(stream: Input, text: str, schema: pa.Schema, *, may_be_bad: bool = False) -> pa.Schema:
    """Return a file's columns. may_be_bad: the text may be of no type, where all its values are null.

    Raises BadInput where two have one name, or the text is missing or is none.
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
    if text not in schema.names:
        fault = f"no column {text!r}; there are {', '.join(map(repr, schema.names))}"
        raise bad_input(source, separator_fault(schema) or fault, file=url)
    kind = schema.field(text).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise bad_input(source, f"column {text!r} is {kind}, expected string", file=url)
