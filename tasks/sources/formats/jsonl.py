"""JSON Lines, plain or compressed: an object on each line."""

import json
import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from zyda_flows.tasks.errors import bad_input, bad_row
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.byte_lines import UNREADABLE, ByteLines, LongLine
from zyda_flows.tasks.sources.compression import BLOCK
from zyda_flows.tasks.sources.decoders import COMPRESSIONS
from zyda_flows.tasks.sources.file_rows import BadRow, Chunk, RowTally, rest_of_file, utf8_fault
from zyda_flows.tasks.sources.input_files import FilePiece
from zyda_flows.tasks.sources.json_columns import TooWide, table_of
from zyda_flows.tasks.sources.json_text import TooDeep, has_large_number, json_fault
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input, damage

NAME = "jsonl"
# ".json.gz" is how Dolma names JSON Lines.
ENDINGS = tuple(f"{stem}{end}" for stem in (".jsonl", ".ndjson", ".json") for end in ("", *COMPRESSIONS))
AT_RANDOM = False
VERSION = 1
CHUNK_BYTES = 32 << 20
CHUNK_LINES = 1 << 16  # blank and bad lines of a chunk, which may have no bytes to count
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
INSPECTED_LINES = 1000
VALUE_BYTES = 64  # the memory of an empty list or object
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
JSON_KINDS: dict[type, str] = {
    dict: "an object", list: "a list", str: "a string", int: "a number", float: "a number", bool: "true or false",
    type(None): "null",
}  # fmt: skip


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
    """Return the columns of the first lines, or None if none of them is an object."""
    lines = ByteLines(stream)
    return first_lines(stream.source, stream.url, lines, text, may_be_bad=may_be_bad), (FilePiece(),)


def read(
    stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Read all lines. Blank lines are counted as blank rows."""
    try:
        yield from chunks_of_lines(ByteLines(stream), text, tally, selection=selection)
    except TooWide as error:
        raise bad_input(stream.source, str(error), file=stream.url) from error


class GatheredLines:
    """Lines that are gathered for a chunk."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.rows: list[int] = []
        self.objects: list[dict[str, Any]] = []
        self.bad: list[BadRow] = []
        self.blank: list[int] = []
        self.size = 0

    @property
    def others(self) -> int:
        """The number of blank and bad lines."""
        return len(self.blank) + len(self.bad)

    def add(self, row: int, line: bytes | LongLine, text: str) -> None:
        content = line.start if isinstance(line, LongLine) else line
        self.size += weight(line)
        if not content or not content.strip():
            self.blank.append(row)
            return
        parsed = parse_line(line, text)
        if isinstance(parsed, str):
            self.bad.append(BadRow(row, parsed, content[: limits().bad_row_bytes]))
        else:
            self.rows.append(row)
            self.objects.append(self.selected(parsed, text))

    def selected(self, fields: dict[str, Any], text: str) -> dict[str, Any]:
        """Return the selected fields of a row."""
        if self.selection == ALL:
            return fields
        return {name: fields[name] for name in self.selection.of(fields, text)}

    def chunk(self, text: str) -> Chunk:
        if not text:
            table = table_of(self.objects) if any(self.objects) else pa.table({})
            return Chunk(np.array(self.rows, np.int64), table, self.bad, np.array(self.blank, np.int64))
        texts = pa.array([fields.pop(text) for fields in self.objects], pa.large_string())
        table = table_of(self.objects) if any(self.objects) else pa.table({})
        table = table.append_column(text, texts) if table.column_names else pa.table({text: texts})
        return Chunk(np.array(self.rows, np.int64), table, self.bad, np.array(self.blank, np.int64))


def chunks_of_lines(
    lines: ByteLines, text: str, tally: RowTally, most_others: int = CHUNK_LINES, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Yield the rows of lines. most_others: blank and bad lines of a chunk."""
    gathered, row = GatheredLines(selection), -1
    try:
        for row, line in enumerate(lines):
            if row == 0 and isinstance(line, bytes):
                gathered.add(row, line.removeprefix(BYTE_ORDER_MARK), text)
            else:
                gathered.add(row, line, text)
            if gathered.size >= CHUNK_BYTES or gathered.others >= most_others:
                yield gathered.chunk(text)
                gathered = GatheredLines(selection)
    except UNREADABLE as error:
        reason = f"the file is damaged from here on: {damage(lines.stream, error)}"
        yield gathered.chunk(text)
        yield rest_of_file(row + 1, reason, tally)
    else:
        yield gathered.chunk(text)
    tally.rows += lines.ends + lines.is_open


def parse_line(line: bytes | LongLine, text: str) -> dict[str, Any] | str:
    """Decode one line: the object, or the reason why it is not a document."""
    if isinstance(line, LongLine):
        return f"a line of more than {limits().line_bytes:,} bytes"
    if count_values(line) > limits().line_values:
        return f"more than {limits().line_values:,} values in one line"
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return utf8_fault(line) or json_fault(error)
    if fault := document_fault(value, text):
        return fault
    try:
        # orjson reads large integers as floats; Python's own reader keeps their digits.
        return json.loads(line) if has_large_number(value) else value
    except TooDeep as error:
        return str(error)
    except ValueError:  # Python's limit
        return f"an integer of more than {sys.get_int_max_str_digits():,} digits"


def document_fault(value: Any, text: str) -> str:
    """Return why a JSON value is not a document, or an empty text.

    text: the name of the text field; "" if any object is valid.
    """
    if not isinstance(value, dict):
        return f"{JSON_KINDS[type(value)]}, expected an object"
    if not text:
        return ""
    if value.get(text) is None:
        return f"{text!r} is null" if text in value else f"no field {text!r}"
    if not isinstance(value[text], str):
        return f"{text!r} is {JSON_KINDS[type(value[text])]}, expected a string"
    return ""


def count_values(line: bytes) -> int:
    """Return an upper bound of the lists, objects and elements of a line, from its brackets and commas."""
    count = sum(map(line.count, (b",", b"[", b"{")))
    if count <= limits().line_values:
        return count
    return sum(map(STRING.sub(b"", line).count, (b",", b"[", b"{")))


def weight(line: bytes | LongLine) -> int:
    """Return the approximate memory of a decoded line: brackets take many times their own size."""
    content = line.start if isinstance(line, LongLine) else line
    return max(len(content), VALUE_BYTES * (content.count(b"[") + content.count(b"{")))


def is_one_value(start: bytes) -> bool:
    """Return whether a file begins with a JSON value over several lines, or with a long array."""
    line, end, following = start.partition(b"\n")
    if line.strip() == b"{" or line.strip() == b"[":
        return True
    if not line.startswith(b"["):
        return False
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return bool(end) or len(start) >= BLOCK // 2
    return not following.strip() and b"{" in line


def first_lines(source: str, url: str, lines: ByteLines, text: str, *, may_be_bad: bool) -> pa.Schema | None:
    """Return the columns of the first lines, or None if none of them is an object. Raises BadInput."""
    objects, first_bad, row, size = list[dict[str, Any]](), None, -1, 0
    try:
        expect_lines(source, url, lines)
        for row, line in enumerate(islice(lines, INSPECTED_LINES)):
            objects += objects_of(line)
            first_bad = first_bad or bad_line(row, line, text)
            size += weight(line)
            if size > limits().inspected_bytes:
                break
    except UNREADABLE as error:
        reason = damage(lines.stream, error)
        first_bad = first_bad or (row + 1, f"the file is damaged from here on: {reason}")
    has_text = any(text in row for row in objects)
    if first_bad and not may_be_bad and (has_text or not objects):
        raise bad_row(source, first_bad[1], file=url, row=first_bad[0])
    if objects and not has_text:
        names = ", ".join(map(repr, dict.fromkeys(name for row in objects for name in row)))
        raise bad_input(source, f"no column {text!r}; there are {names}", file=url, row=0)
    return schema_of(source, url, objects) if objects else None


def schema_of(source: str, url: str, objects: list[dict[str, Any]]) -> pa.Schema:
    """Return the columns of objects. Raises BadInput if there are too many."""
    try:
        return table_of(objects).schema
    except TooWide as error:
        raise bad_input(source, str(error), file=url) from error


def expect_lines(source: str, url: str, lines: ByteLines) -> None:
    """Raise BadInput if a file begins with one JSON value over several lines."""
    if is_one_value(lines.start().removeprefix(BYTE_ORDER_MARK).lstrip()):
        shape = "looks like one JSON value, expected a line for each row (JSON Lines)"
        raise bad_input(source, shape, file=url, row=0)


def first_rows(stream: Input, count: int) -> Chunk:
    """Return at most `count` first objects, and the bad lines before the last of them."""
    rows, objects, bad, size, lines = (
        list[int](),
        list[dict[str, Any]](),
        list[BadRow](),
        0,
        ByteLines(stream),
    )
    expect_lines(stream.source, stream.url, lines)
    for row, line in enumerate(islice(lines, INSPECTED_LINES)):
        size += weight(line)
        if values := objects_of(line):
            rows, objects = [*rows, row], [*objects, *values]
        elif fault := bad_line(row, line, ""):
            bad.append(BadRow(*fault))
        if len(objects) == count or size > limits().inspected_bytes:
            break
    return Chunk(np.array(rows, np.int64), table_of(objects) if any(objects) else pa.table({}), bad)


def bad_line(row: int, line: bytes | LongLine, text: str) -> tuple[int, str] | None:
    """Return the number and the fault of a bad line; None for a document or a blank line."""
    content = line.removeprefix(BYTE_ORDER_MARK) if isinstance(line, bytes) and row == 0 else line
    if isinstance(content, bytes) and not content.strip():
        return None
    parsed = parse_line(content, text)
    return (row, parsed) if isinstance(parsed, str) else None


def objects_of(line: bytes | LongLine) -> list[dict[str, Any]]:
    """Return a list with the object of a line; empty for a bad line, whose fault ingest reports."""
    if isinstance(line, LongLine) or count_values(line) > limits().line_values:
        return []
    try:
        value = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
        has_large_number([value])
    except (orjson.JSONDecodeError, TooDeep):
        return []
    return [value] if isinstance(value, dict) else []
