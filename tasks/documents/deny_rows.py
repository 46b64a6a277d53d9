"""Deny lists applied to rows that are set aside: by their readable columns, or by their bytes.

Such a row is not a document. If its content is published, the content is removed from the row if it matches a deny
list; the row itself is kept in the counts. The rules are stricter than for a document, because the columns of the
row are unknown:

- readable columns: the values that lists name, at any level, and each text in them as an address and as a whole
text; - other content: addresses and hosts anywhere in it, values of columns in the forms of broken JSON, CSV and
tables
  with tabs, and the texts in it.
"""

import csv
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.deny_list import DenyList, Request, load_deny_list
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.signatures.letters import letters_in
from zyda_flows.tasks.sources.named_values import as_text, column_of, value_at
from zyda_flows.tasks.sources.small_files import PlannedFile
from zyda_flows.tasks.sources.web_addresses import host_and_parents, normalise_domain
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import parquet_writer, tables_of, write_artifact

CONTENTS = pa.schema([("content", pa.binary()), ("columns", pa.string())])
# An address with its scheme; a value of JSON or CSV that may be one without it; a name that may be a host.
ADDRESS = re.compile(r"""https?:[^\s"'<>]+""", re.IGNORECASE)
VALUE = re.compile(r"""(?:^|["',;\t])([^\s"',;<>]++)(?=$|["',;\t])""", re.MULTILINE)
HOST = re.compile(r"[\w-]++(?:\.[\w-]++)+")
LONGEST_ADDRESS = 1 << 13  # characters
ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})++")  # characters in JSON
LEAST_BEGINNING = 24  # bytes by which a row is known that has grown
CLOSING = b" \t\r\n}]\"'"
QUOTED = re.compile(r"'((?:[^'\\]|\\.)*+)'", re.DOTALL)  # of Python
STRING = re.compile(r'"((?:[^"\\]|\\.)*+)("|\\?\Z)', re.DOTALL)  # of JSON, the last one perhaps cut


@dataclass(frozen=True)
class RowAside:
    """The content of a row that is set aside. fields: its columns. content: its bytes as text."""

    fields: dict[str, Any]
    content: str = ""

    @cached_property
    def texts(self) -> list[str]:
        """All texts in the row: of its columns, and of its unreadable content, also unescaped."""
        return [*texts_in(self.fields), *texts_in_content(self.content)]


def parse_row_aside(content: bytes | None, columns: str | None) -> RowAside:
    """Return a row that is set aside. columns: as JSON; if given, the content is the row's text."""
    content, fields = content or b"", None
    if columns is not None:
        return RowAside(orjson.loads(columns) | {"": decoded(content)})
    with suppress(ValueError):
        fields = orjson.loads(content)
    return RowAside(fields if isinstance(fields, dict) else {}, decoded(content))


def decoded(content: bytes) -> str:
    """Return bytes as text; from damaged UTF-16 and UTF-32 at least the ASCII characters."""
    for encoding in ("utf-8-sig", "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding).replace("\0", "")
    return content.replace(b"\0", b"").decode(errors="replace")


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a value, at all levels."""
    waiting = [value]
    while waiting:
        element = waiting.pop()
        if isinstance(element, str):
            yield element
        elif isinstance(element, dict):
            waiting += element.values()
        elif isinstance(element, list):
            waiting += element


def texts_in_content(content: str) -> Iterator[str]:
    """Yield the texts in unreadable content: all of it, its JSON strings, and its CSV fields."""
    if not content:
        return
    yield content
    for body, end in STRING.findall(content):
        for whole in (body, body[: body.rfind("\\")] if end != '"' else ""):  # it may be cut within an escape
            with suppress(ValueError):
                yield str(orjson.loads(f'"{whole}"'))
                break
    yield from QUOTED.findall(content)
    csv.field_size_limit(limits().record_bytes)
    for delimiter in ",\t":
        with suppress(csv.Error):
            for record in csv.reader(content.splitlines(keepends=True), delimiter=delimiter):
                yield from record


@dataclass(frozen=True)
class RowJudge:
    """Deny lists in the form in which rows that are set aside are compared with them."""

    denied: DenyList
    patterns: dict[str, re.Pattern[str]] = field(default_factory=dict)

    def is_denied(self, content: bytes | None, columns: str | None) -> bool:
        """Return whether a row matches a request."""
        if not content and not columns:
            return False
        if self.denied.row_hashes and hash_of_row(content, columns) in self.denied.row_hashes:
            return True
        if columns is None and content and self.has_denied_beginning(content):
            return True
        row = parse_row_aside(content, columns)
        return self.has_address(row) or self.has_value(row) or self.has_text(row)

    def has_denied_beginning(self, content: bytes) -> bool:
        return any(
            size <= len(content) and sha256(content[:size]).hexdigest() in hashes
            for size, hashes in self.denied.row_beginnings.items()
        )

    def has_address(self, row: RowAside) -> bool:
        denied = self.denied
        if not denied.has_addresses:
            return False
        values = (text for text in texts_in(row.fields) if len(text) < LONGEST_ADDRESS)
        addresses = {*values, *addresses_in(row.content)}
        return any(map(denied.has_address, addresses)) or (
            bool(denied.domains) and not denied.domains.isdisjoint(hosts_in(row.content))
        )

    def has_value(self, row: RowAside) -> bool:
        for column in self.denied.columns:
            named, hashed = (
                by_column.get(column, set[str]())
                for by_column in (self.denied.values, self.denied.value_hashes)
            )
            if any(is_among(value, named, hashed) for value in values_of(row, column)):
                return True
        return False

    def has_text(self, row: RowAside) -> bool:
        hashes, letters = self.denied.all_text_hashes, self.denied.letter_hashes
        texts = [text.encode(errors="replace") for text in row.texts if text] if hashes or letters else []
        if any(sha256(text).hexdigest() in hashes for text in texts):
            return True
        letters_of_texts = (
            letters_in(pa.array(texts, pa.large_binary()).cast(pa.large_string())) if letters else []
        )
        return any(len(own) and sha256(own).hexdigest() in letters for own in letters_of_texts)


def is_among(value: str, named: Collection[str], hashed: Collection[str]) -> bool:
    return value in named or (bool(hashed) and sha256(value.encode()).hexdigest() in hashed)


def values_of(row: RowAside, column: str) -> Iterator[str]:
    """Yield the possible values of a column in a row."""
    if (name := column_of(column, [*row.fields])) is not None:
        below = column[len(name) + 1 :].split(".") if name != column else []
        value = as_text(value_at(row.fields[name], below), lists=False)
        if value is not None:
            yield value
    yield from values_named(row.fields, column.rpartition(".")[2])
    if not row.content:
        return
    if not row.fields:
        yield from row.texts  # the fields of a record of CSV may be of any column
    yield from named_values(row.content, column)


def values_named(fields: Any, name: str) -> Iterator[str]:
    """Yield the values with a name at all levels, also inside lists and objects with that name."""
    waiting = [(fields, False)]
    while waiting:
        value, is_named = waiting.pop()
        if isinstance(value, dict):
            waiting += [(element, is_named or key == name) for key, element in value.items()]
        elif isinstance(value, list):
            waiting += [(element, is_named) for element in value]
        elif is_named and (text := as_text(value, lists=False)) is not None:
            yield text


def text_of_row(row: RowAside, column: str) -> str | None:
    """Return the probable text of a row: its column, or the longest text in unreadable content."""
    if row.fields:
        name = "" if "" in row.fields else column
        value = row.fields.get(name)
        return value if isinstance(value, str) else None
    named = [*named_values(row.content, column)]
    return max(named or (text for text in row.texts if text != row.content), key=len, default=None)


def named_values(content: str, column: str) -> Iterator[str]:
    """Yield the values of a column in broken JSON."""
    for found in pattern_of(column).findall(content):
        if found[0] == "'":
            yield found[1:-1]
        with suppress(ValueError):
            value = as_text(orjson.loads(found), lists=False)
            if value is not None:
                yield value


def pattern_of(column: str) -> re.Pattern[str]:
    """Return the pattern of a column's values in broken JSON; the last value may be cut after its quote."""
    name = re.escape(column.rpartition(".")[2])
    return re.compile(
        rf"""["']{name}["']\s*:\s*("(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|[^"'\s,}}\]]++)""", re.DOTALL
    )


def addresses_in(content: str) -> Iterator[str]:
    """Yield the addresses in a row, plain and JSON-escaped; without a scheme, only whole values."""
    content = unescaped(content)
    yield from ADDRESS.findall(content)
    yield from (value for value in VALUE.findall(content) if "." in value)


def unescaped(content: str) -> str:
    """Return content with JSON escapes decoded, except escapes that end a text."""

    def characters(found: re.Match[str]) -> str:
        return bytes.fromhex(found[0].replace("\\u", "")).decode("utf-16-be", "replace")

    return ESCAPED.sub(characters, content.replace("\\/", "/"))


def hosts_in(content: str) -> Iterator[str]:
    """Yield the names in a row that may be hosts, each with its parent domains."""
    for name in {found.lower() for found in HOST.findall(unescaped(content))}:
        host = name if name.isascii() else normalise_domain(name)
        yield from host_and_parents(host) if host else ()


def hash_of_row(content: bytes | None, columns: str | None) -> str:
    """Return the SHA-256 that identifies a row after its file has changed."""
    return sha256(b"\0".join([content or b"", (columns or "").encode()])).hexdigest()


def request_for_row(content: bytes | None, columns: str | None) -> Request:
    """Return the request that identifies a row after its file has changed, also if more bytes follow it."""
    beginning = (content or b"").rstrip(CLOSING)
    if columns is None and len(beginning) >= LEAST_BEGINNING:
        return Request(row_sha256=sha256(beginning).hexdigest(), row_bytes=len(beginning))
    return Request(row_sha256=hash_of_row(content, columns))


@dataclass(frozen=True)
class RowsWithoutDenied(ArtifactJob):
    """The rows of a piece that are set aside, without the content of rows on deny lists."""

    stage, version = "deny-rows", 1

    source: str
    rows: Artifact
    lists: Annotated[tuple[PlannedFile, ...], NotInKey("their digests are in the key")]

    @property
    def name(self) -> str:
        return self.rows.name

    @property
    def also_in_key(self) -> list[str]:
        return [file.sha256 for file in self.lists]

    def make(self) -> Artifact:
        judge = RowJudge(load_deny_list(self.lists))

        def fill(scratch: Path) -> None:
            writer = None
            for table in tables_of(self.folder, self.rows):
                writer = writer or parquet_writer(scratch, table.schema)
                writer.write_table(without_denied(judge, table))
            if writer:
                writer.close()

        return write_artifact(self.folder, self.path, self.name, fill, counts=self.rows.counts)


def without_denied(judge: RowJudge, table: pa.Table) -> pa.Table:
    """Return rows that are set aside, with null as content and columns of rows on deny lists."""
    pairs = zip(*(table.column(name).to_pylist() for name in CONTENTS.names), strict=True)
    is_kept = pa.array([not judge.is_denied(content, columns) for content, columns in pairs], pa.bool_())
    for name in CONTENTS.names:
        place = table.column_names.index(name)
        values = table.column(name)
        kept = pc.if_else(is_kept, values, pa.scalar(None, values.type))
        table = table.set_column(place, table.schema.field(place), kept)
    return table
