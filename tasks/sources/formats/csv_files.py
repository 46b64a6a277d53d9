"""CSV and tables with tabs: a row of names, then a row for each document; all columns are texts.

Fields in quotes may go over several lines. Where quotes are not as they should be, the line with which a record
begins is no row, and the next line is taken for the beginning of another: a quote too many would hide all that
follows.
"""

import csv
import io
from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from tasks.errors import bad_input
from tasks.sources.compression import COMPRESSIONS
from tasks.sources.lines import UNREADABLE, Lines, LongLine
from tasks.sources.listing import Piece
from tasks.sources.outcomes import Bad, Outcome, Skip, checked_outcomes, chunks_of_outcomes
from tasks.sources.rows import Chunk, Tally, check_names, utf8_fault
from tasks.sources.selection import ALL, Selection
from tasks.sources.streams import Input, damage

NAME = "csv"
ENDINGS = tuple(f"{stem}{end}" for stem in (".csv", ".tsv") for end in ("", *COMPRESSIONS))
AT_RANDOM = False
VERSION = 1
MAX_RECORD = 1 << 26  # bytes of the lines of one record
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = Skip("blank line")


class Records:
    """The records of a file: `names` are those of its columns, and each other one an outcome. They are counted.

    Raises BadInput for a file without names, and one of UNREADABLE where it is damaged before they end.
    """

    def __init__(self, stream: Input) -> None:
        self.stream, self.count = stream, 0
        self.lines, self.waiting = iter(Lines(stream, MAX_RECORD)), deque[bytes]()
        self.delimiter = "\t" if ".tsv" in stream.url.lower().rpartition("/")[2] else ","
        csv.field_size_limit(MAX_RECORD)
        names = self.record(begins=True)
        if not isinstance(names, list) or not any(names):
            fault = names.reason if isinstance(names, Bad) else "its first line has no names of columns"
            raise bad_input(stream.source, fault, file=stream.url, row=0)
        self.names: list[str] = names
        check_names(stream.source, stream.url, self.schema)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.large_string()) for name in self.names])

    def __iter__(self) -> Iterator[Outcome]:
        try:
            while (record := self.record()) is not None:
                self.count += 1
                yield self.outcome(record)
        except UNREADABLE as error:
            reason = f"the file is damaged from here on: {damage(self.stream, error)}"
            yield Bad(reason, is_rest=True)

    def outcome(self, record: list[str] | Bad | Skip) -> Outcome:
        if not isinstance(record, list):
            return record
        if len(record) != len(self.names):
            content = self.delimiter.join(record).encode()
            return Bad(f"it has {len(record):,} fields, where there are {len(self.names):,} columns", content)
        return dict(zip(self.names, record, strict=True))

    def next_line(self) -> bytes | LongLine | None:
        return self.waiting.popleft() if self.waiting else next(self.lines, None)

    def record(self, *, begins: bool = False) -> list[str] | Bad | Skip | None:
        """Return the fields of the next record, or what it is instead; None at the end."""
        taken, size, quotes = list[bytes](), 0, 0
        while True:
            line = self.next_line()
            if line is None and not taken:
                return None
            if line is None or isinstance(line, LongLine) or (size := size + len(line)) > MAX_RECORD:
                return self.given_up(taken, line, "a quote that opens a field has no end")
            line = line.removeprefix(BYTE_ORDER_MARK) if begins and not taken else line
            if not taken and not line.strip():
                return BLANK
            taken.append(line)
            quotes += line.count(b'"')
            if quotes % 2 == 0:  # else it ends within quotes
                parsed = self.parsed(b"\n".join(taken))
                return parsed if isinstance(parsed, list) else self.given_up(taken, None, parsed.reason)

    def given_up(self, taken: list[bytes], line: bytes | LongLine | None, reason: str) -> Bad:
        """Take the first of some lines for a bad row, and the others for what follows it."""
        if not taken:
            start = line.start if isinstance(line, LongLine) else line or b""
            return Bad(f"a line of more than {MAX_RECORD:,} bytes", start)
        following = [*taken[1:], *([line] if isinstance(line, bytes) else [])]
        self.waiting.extendleft(reversed(following))
        return Bad(reason, taken[0])

    def parsed(self, content: bytes) -> list[str] | Bad:
        """Return the fields of some lines."""
        if fault := utf8_fault(content):
            return Bad(fault)
        lines = io.StringIO(content.decode().removesuffix("\r"), newline="")
        try:
            records = list(csv.reader(lines, delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            return Bad(f"no record of CSV: {error}")
        return records[0] if len(records) == 1 else Bad("a quote stands in the middle of a field")


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[Piece, ...]]:
    """Return the columns of a file, by its first line."""
    records = Records(stream)
    schema = checked_outcomes(stream, records, records.schema, text, may_be_bad=may_be_bad)
    return schema, (Piece(),)


def read(stream: Input, piece: Piece, text: str, tally: Tally, selection: Selection = ALL) -> Iterator[Chunk]:
    """Read all records."""
    try:
        records = Records(stream)
    except UNREADABLE as error:
        reason = f"the file is damaged: {damage(stream, error)}"
        yield from chunks_of_outcomes([Bad(reason, is_rest=True)], pa.schema([]), text, tally, selection)
        return
    yield from chunks_of_outcomes(records, records.schema, text, tally, selection)
    tally.rows += records.count
