"""Inspect files of any format before a build, and read their rows.

A format is a module with the names of `Format` and an entry in FORMATS.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadInput, bad_input, first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.byte_lines import DAMAGED
from zyda_flows.tasks.sources.columns import MAX_COLUMNS
from zyda_flows.tasks.sources.decoders import COMPRESSIONS
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally, rest_of_file
from zyda_flows.tasks.sources.formats import (
    arrow,
    arxiv,
    csv_files,
    jsonl,
    parquet,
    warc,
    whole_files,
    wikipedia,
)
from zyda_flows.tasks.sources.input_files import WHOLE, FilePiece, InputFile, Location
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input, damage, open_input


class Format(Protocol):
    """A reader of the files with one of ENDINGS, or with NAME as their `format` in a recipe.

    ENDINGS: of file names, in lower case. AT_RANDOM: whether a file is read at random positions, not from start to
    end. VERSION: increased when the same file gives other rows.
    """

    @property
    def NAME(self) -> str: ...
    @property
    def ENDINGS(self) -> tuple[str, ...]: ...
    @property
    def AT_RANDOM(self) -> bool: ...
    @property
    def VERSION(self) -> int: ...

    def inspect(
        self, stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
    ) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
        """Return a file's columns, None if they are unknown, and the pieces that workers read separately.

        Raises an error of DAMAGED if the file cannot be read; unless may_be_bad, BadInput if one of the first rows
        is not a document.
        """

    def first_rows(self, stream: Input, count: int) -> Chunk:
        """Return at most `count` first rows of a file, with all columns.

        The text column is not known yet. Raises an error of DAMAGED, BadInput.
        """

    def read(
        self, stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection
    ) -> Iterator[Chunk]:
        """Yield the rows of a piece in the selected columns, and count them in the tally; damage gives bad rows."""


UNINSPECTABLE: tuple[type[Exception], ...] = (*DAMAGED, BadInput, MemoryError)
FORMATS: tuple[Format, ...] = (
    parquet, jsonl, arrow, warc, whole_files.HTML, wikipedia, arxiv, csv_files, whole_files.TEXT,
)  # fmt: skip

TABLES: tuple[Format, ...] = (parquet, jsonl, arrow)  # formats of tables without texts

# The first bytes of files, with the format that they show and the endings of its files.
FIRST_BYTES: dict[bytes, tuple[str, tuple[str, ...]]] = {
    b"PAR1": ("Parquet", parquet.ENDINGS),
    b"ARROW1": ("Arrow", arrow.ENDINGS),
    b"\x1f\x8b": ("gzip", (".gz",)),
    b"\x28\xb5\x2f\xfd": ("Zstandard", (".zst", ".zstd")),
    b'{"': ("JSON Lines without compression", (".jsonl", ".ndjson", ".json")),
}


@dataclass(frozen=True)
class InspectedFile:
    """A file with its pieces and the schema of the selected columns, None if they are unknown.

    names: of all its columns. fault: the reason why the file cannot be read, if it cannot.
    """

    file: InputFile
    table_schema: pa.Schema | None
    fault: str = ""
    names: tuple[str, ...] | None = None


def format_of(source: str, file: InputFile) -> Format:
    """Return a file's format: from its recipe, or by the longest known ending of its name.

    `.csv.bz2` is CSV, although `.bz2` alone is a dump of MediaWiki. Raises BadInput for other files.
    """
    if file.format:
        known = [(kind.NAME, kind) for kind in FORMATS if file.format == kind.NAME]
    else:
        name = file.url.lower()
        known = [(ending, kind) for kind in FORMATS for ending in kind.ENDINGS if name.endswith(ending)]
    if not known:
        endings = dict.fromkeys(plain_ending(ending) for kind in FORMATS for ending in kind.ENDINGS)
        advice = "which may be compressed; set its `format` in the recipe"
        raise bad_input(source, f"its ending is none of {', '.join(endings)}, {advice}", file=file.url)
    return max(known, key=lambda match: len(match[0]))[1]


def plain_ending(ending: str) -> str:
    """Return an ending without the ending of a compression; an ending of a compression alone is unchanged."""
    plain = [ending.removesuffix(end) for end in COMPRESSIONS if ending.endswith(end) and ending != end]
    return plain[0] if plain else ending


def format_versions() -> list[str]:
    """Return the name and version of each format."""
    return [f"{known.NAME} {known.VERSION}" for known in FORMATS]


def version_of(source: str, file: InputFile) -> int:
    """Return the version of the reader of a file. Raises BadInput."""
    return format_of(source, file).VERSION


def has_schema(source: str, file: InputFile) -> bool:
    """Return whether a file states its columns, or has the columns of its format; JSON Lines has only rows."""
    return format_of(source, file) is not jsonl


def inspect(
    source: str,
    file: InputFile,
    text: str,
    shard_bytes: int,
    selection: Selection = ALL,
    *,
    may_be_bad: bool,
) -> InspectedFile:
    """Return a file's columns and pieces, from its footer or its first rows.

    Raises BadInput if the text column is missing or is not text. Unless may_be_bad, raises BadInput if the file
    cannot be opened or one of its first rows is not a document. Ingest detects damage after the first rows. Raises
    Unavailable if the store failed.
    """
    kind, fault = format_of(source, file), ""
    with open_listed_file(source, file, kind) as stream:
        try:
            schema, pieces = kind.inspect(stream, text, shard_bytes, may_be_bad=may_be_bad)
        except UNINSPECTABLE as error:
            stream.expect_unchanged()
            fault = wrong_ending(stream)
            if isinstance(error, BadInput) and not fault:
                raise
            fault = fault or damage(stream, error)
            if not may_be_bad:
                raise bad_input(source, f"cannot be read: {fault}", file=file.url) from error
            schema, pieces = None, (WHOLE,)
    names = tuple(schema.names) if schema is not None else None
    if schema is not None:
        schema = pa.schema([schema.field(name) for name in selection.of(schema.names, text)])
        if len(schema) > MAX_COLUMNS:
            fault = (
                f"it has {len(schema):,} columns, expected at most {MAX_COLUMNS:,}; name some in `columns`"
            )
            raise bad_input(source, fault, file=file.url)
    return InspectedFile(file.model_copy(update={"pieces": pieces}), schema, fault, names)


def open_listed_file(source: str, file: InputFile, kind: Format) -> Input:
    """Open a file at its location, with the access pattern of its format."""
    location = file.location or Location(url="", version=file.version)
    return open_input(source, file.url, file.size, location.version, location.url, at_random=kind.AT_RANDOM)


def wrong_ending(stream: Input) -> str:
    """Return a fault if the first bytes of a file show another format than its name, else an empty text."""
    with suppress(OSError, ValueError):
        stream.seek(0)
        first, name = stream.read(max(map(len, FIRST_BYTES))), stream.url.lower()
        for mark, (name_of_format, endings) in FIRST_BYTES.items():
            if first.startswith(mark) and not name.endswith(endings):
                return f"it begins as {name_of_format} does, and its name has another ending; rename it"
    return ""


def read(
    source: str,
    file: InputFile,
    piece: FilePiece,
    text: str,
    tally: RowTally | None = None,
    selection: Selection = ALL,
) -> Iterator[Chunk]:
    """Yield the chunks of a piece of a file, of some MiB each, and count its rows.

    Raises BadInput if the file differs from the listing; this is checked before the first bad row and at the end.
    """
    kind, tally = format_of(source, file), tally if tally is not None else RowTally()
    with open_listed_file(source, file, kind) as stream:
        is_bad = False
        for chunk in bounded_chunks(kind.read(stream, piece, text, tally, selection), piece, text, tally):
            if chunk.bad and not is_bad:
                stream.expect_unchanged()
                is_bad = True
            yield chunk
        stream.expect_unchanged()


def first_table(source: str, file: InputFile) -> pa.Table:
    """Return the first rows of a table without texts, with all columns. Raises BadInput if it cannot be read."""
    kind = format_of(source, file)
    if kind not in TABLES:
        fault = f"its format is {kind.NAME}, expected {', '.join(table.NAME for table in TABLES)}"
        raise bad_input(source, fault, file=file.url)
    with open_listed_file(source, file, kind) as stream:
        try:
            return kind.first_rows(stream, jsonl.INSPECTED_LINES).table
        except UNINSPECTABLE as error:
            stream.expect_unchanged()
            if isinstance(error, BadInput):
                raise
            raise bad_input(source, f"cannot be read: {damage(stream, error)}", file=file.url) from error


def read_table_rows(
    source: str, file: InputFile, columns: Sequence[str], piece: FilePiece = WHOLE
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Yield the rows of a table without texts, and their numbers in the file, (n,), some MiB at a time.

    columns: to read; a table lacks the columns that none of its rows has. Raises BadInput at the first bad row.
    """
    kind, selection = format_of(source, file), Selection(only=tuple(columns))
    with open_listed_file(source, file, kind) as stream:
        for chunk in kind.read(stream, piece, "", RowTally(), selection):
            if chunk.bad:
                stream.expect_unchanged()
                raise bad_input(source, chunk.bad[0].reason, file=file.url, row=chunk.bad[0].row)
            yield chunk.rows, chunk.table
        stream.expect_unchanged()


def bounded_chunks(chunks: Iterator[Chunk], piece: FilePiece, text: str, tally: RowTally) -> Iterator[Chunk]:
    """Yield chunks until one needs too much memory, or too many consecutive rows have no text.

    A single bad row then stands for the rest of the file.
    """
    row, without_text, fault = piece.first_row, 0, ""
    try:
        for chunk in chunks:
            yield chunk
            row += chunk.count(tally)
            rows = len(chunk.rows) + len(chunk.bad) + len(chunk.blank)
            rows += sum(reason == csv_files.BLANK.reason for _, reason in chunk.skipped)
            without_text = 0 if chunk.has_text(text) else without_text + rows
            if without_text > limits().rows_without_text:
                fault = f"more than {limits().rows_without_text:,} consecutive rows have no text"
                break
    except MemoryError as error:
        fault = f"it needs too much memory: {first_line(error)}"
    if fault:
        tally.rows = row - piece.first_row
        yield rest_of_file(row, f"the file is not read from here on: {fault}", tally)
    if tally.rests and piece.rows is not None and row < piece.first_row + piece.rows:
        tally.unread.append(range(row, piece.first_row + piece.rows))
        tally.rows = piece.rows
