"""CSV and TSV: a row of column names, then a row for each document; all columns are texts.

A field that begins with a quote may span several lines. A quote within a field is a character of the field. If the
opening quote of a field has no end, or characters follow the closing quote, the first line of the record is a bad
row, and the next line begins a new record. In TSV such a line is split at its tabs instead, because most programs
write TSV without quoting.
"""

import csv
import io
from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from zyda_flows.tasks.errors import bad_input
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.byte_lines import UNREADABLE, ByteLines, LongLine
from zyda_flows.tasks.sources.column_names import separator_fault
from zyda_flows.tasks.sources.columns import MAX_COLUMNS
from zyda_flows.tasks.sources.decoders import COMPRESSIONS
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally, check_names, utf8_fault
from zyda_flows.tasks.sources.input_files import FilePiece
from zyda_flows.tasks.sources.outcomes import (
    BadRecord,
    Outcome,
    SkippedRecord,
    checked_outcomes,
    chunks_of_outcomes,
    first_documents,
)
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input, damage

NAME = "csv"
ENDINGS = tuple(f"{stem}{end}" for stem in (".csv", ".tsv") for end in ("", *COMPRESSIONS))
AT_RANDOM = False
VERSION = 1
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = SkippedRecord("blank line")
CSV_FAULTS = {
    "unexpected end of data": "the opening quote of a field has no end",
    "',' expected after '\"'": "characters follow the closing quote of a field",
    "'\t' expected after '\"'": "characters follow the closing quote of a field",
}


class UnboundedQuotes(ValueError):
    """Too many lines were read repeatedly, because opening quotes have no end."""


class Records:
    """The records of a file as outcomes. names: of its columns. count: of the records read so far.

    Raises BadInput for a file without column names, and an error of UNREADABLE if it is damaged before their end.
    """

    def __init__(self, stream: Input) -> None:
        self.stream, self.count, self.rescanned = stream, 0, 0
        self.names = list[str]()
        self.lines, self.waiting = iter(ByteLines(stream, limits().record_bytes)), deque[bytes | LongLine]()
        self.delimiter = "\t" if ".tsv" in stream.url.lower().rpartition("/")[2] else ","
        csv.field_size_limit(limits().record_bytes)
        names = self.record(begins=True)
        if not isinstance(names, list) or not any(names):
            fault = names.reason if isinstance(names, BadRecord) else "its first line has no names of columns"
            raise bad_input(stream.source, fault, file=stream.url, row=0)
        if len(names) > MAX_COLUMNS:
            fault = f"it has {len(names):,} columns, expected at most {MAX_COLUMNS:,}"
            raise bad_input(stream.source, fault, file=stream.url, row=0)
        self.names = names
        check_names(stream.source, stream.url, self.schema)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.large_string()) for name in self.names])

    def __iter__(self) -> Iterator[Outcome]:
        try:
            while (record := self.record()) is not None:
                self.count += 1
                yield self.outcome(record)
        except ENDS_READING as error:
            reason = f"the file is damaged from here on: {damage(self.stream, error)}"
            yield BadRecord(reason, is_rest=True)

    def outcome(self, record: list[str] | BadRecord | SkippedRecord) -> Outcome:
        if not isinstance(record, list):
            return record
        if len(record) != len(self.names):
            content = as_line(record, self.delimiter)
            return BadRecord(f"it has {len(record):,} fields, expected {len(self.names):,}", content)
        return dict(zip(self.names, record, strict=True))

    def next_line(self) -> bytes | LongLine | None:
        return self.waiting.popleft() if self.waiting else next(self.lines, None)

    def record(self, *, begins: bool = False) -> list[str] | BadRecord | SkippedRecord | None:
        """Return the fields of the next record, its fault or a blank line; None at the end."""
        line = self.next_line()
        if line is None:
            return None
        if isinstance(line, LongLine):
            return BadRecord(f"a line of more than {limits().record_bytes:,} bytes", line.start)
        line = line.removeprefix(BYTE_ORDER_MARK) if begins else line
        if not line.strip():
            return BLANK
        taken: list[bytes | LongLine] = [line]
        parsed = self.parsed(taken)
        unquoted = self.unquoted(line, begins=begins)
        if unquoted is not None and not self.is_quoted(parsed, taken):
            parsed = unquoted
            self.give_back(taken)
        if isinstance(parsed, BadRecord):
            self.give_back(taken)
        return parsed

    def unquoted(self, line: bytes, *, begins: bool) -> list[str] | BadRecord | None:
        """Return a TSV line with quotes split at its tabs, or None if it then has another number of fields."""
        if self.delimiter != "\t" or b'"' not in line:
            return None
        fields = line.decode(errors="replace").removesuffix("\r").split("\t")
        return utf8_bad(line) or fields if begins or len(fields) == len(self.names) else None

    def is_quoted(self, parsed: list[str] | BadRecord, taken: list[bytes | LongLine]) -> bool:
        """Return whether TSV lines are one record with quotes, not separate rows."""
        if isinstance(parsed, BadRecord) or (self.names and len(parsed) != len(self.names)):
            return False
        tabs = {line.count(b"\t") for line in taken if isinstance(line, bytes)}
        return not (len(taken) > 1 and len(self.names) > 1 and tabs == {len(self.names) - 1})

    def give_back(self, taken: list[bytes | LongLine]) -> None:
        """Return the lines after the first to be read again. Raises UnboundedQuotes if that happens too often."""
        self.waiting.extendleft(reversed(taken[1:]))
        self.rescanned += sum(len(line) for line in taken[1:] if isinstance(line, bytes))
        if self.rescanned > limits().rescanned_bytes:
            raise UnboundedQuotes(
                f"quotes without an end, in more than {limits().rescanned_bytes:,} bytes of lines"
            )
        del taken[1:]

    def parsed(self, taken: list[bytes | LongLine]) -> list[str] | BadRecord:
        """Return the fields of the record that begins with `taken[0]`, and append its further lines to `taken`."""
        if fault := utf8_bad(taken[0]):
            return fault
        try:
            fields = next(csv.reader(self.spanned(taken), delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            return BadRecord(f"invalid CSV: {CSV_FAULTS.get(str(error), error)}", start_of(taken[0]))
        return fields

    def spanned(self, taken: list[bytes | LongLine]) -> Iterator[str]:
        """Yield the first line, then further lines while a quote is open."""
        line, size = taken[0], 0
        while isinstance(line, bytes):
            size += len(line)
            if size > limits().record_bytes:
                return
            try:
                yield line.decode() + "\n"
            except UnicodeDecodeError:
                return
            following = self.next_line()
            if following is None:
                return
            taken.append(following)
            line = following


def as_line(record: list[str], delimiter: str) -> bytes:
    """Return the fields of a record as a line of CSV, with quotes where required."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="").writerow(record)
    return line.getvalue().encode()


def utf8_bad(line: bytes | LongLine) -> BadRecord | None:
    fault = utf8_fault(start_of(line))
    return BadRecord(fault, start_of(line)) if fault else None


def start_of(line: bytes | LongLine) -> bytes:
    return line.start if isinstance(line, LongLine) else line


ENDS_READING: tuple[type[Exception], ...] = (*UNREADABLE, UnboundedQuotes)


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
    """Return the columns of a file, by its first line."""
    records = Records(stream)
    schema = checked_outcomes(stream, records, records.schema, text, may_be_bad=may_be_bad)
    return schema, (FilePiece(),)


def first_rows(stream: Input, count: int) -> Chunk:
    """Return the first records. Raises BadInput if the columns have another separator than the ending states."""
    records = Records(stream)
    if fault := separator_fault(records.schema):
        raise bad_input(stream.source, fault, file=stream.url)
    return first_documents(records, records.schema, count)


def read(
    stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Read all records."""
    try:
        records = Records(stream)
    except UNREADABLE as error:
        reason = f"the file is damaged: {damage(stream, error)}"
        yield from chunks_of_outcomes(
            [BadRecord(reason, is_rest=True)], pa.schema([]), text, tally, selection
        )
        return
    yield from chunks_of_outcomes(records, records.schema, text, tally, selection)
    tally.rows += records.count
