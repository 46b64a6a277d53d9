"""Files of any format: a look at one before hours are spent, and the reading of its rows.

A format is a module with the names of `Format`, and a place in FORMATS.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, bad_input, first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.byte_lines import DAMAGED
from zyda_flows.tasks.sources.columns import MAX_COLUMNS
from zyda_flows.tasks.sources.compression import COMPRESSIONS
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
from zyda_flows.tasks.sources.input_files import FilePiece, InputFile, Location
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input, damage, open_input


class Format(Protocol):
    """What reads the files with some endings, or those of which a recipe says that they have this NAME.

    ENDINGS are those of names, in small letters. AT_RANDOM: whether a file is read here and there, and not from
    end to end. VERSION is raised when the same file gives other rows.
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
        """Return a file's columns, None where no row shows any, and the pieces that workers read apart.

        Raises one of DAMAGED where the file cannot be read, and BadInput, where it is not may_be_bad, for a
        row among the first that is no document.
        """

    def first_rows(self, stream: Input, count: int) -> Chunk:
        """Return the first rows of a file, at most so many, in all its columns.

        No column is the text yet. Raises one of DAMAGED, BadInput.
        """

    def read(
        self, stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection
    ) -> Iterator[Chunk]:
        """Yield the rows of a piece, those that are damaged as bad rows, and count them in the tally.

        Of a selection of columns alone.
        """


UNINSPECTABLE: tuple[type[Exception], ...] = (*DAMAGED, BadInput, MemoryError)
FORMATS: tuple[Format, ...] = (
    parquet, jsonl, arrow, warc, whole_files.HTML, wikipedia, arxiv, csv_files, whole_files.TEXT,
)  # fmt: skip

# How files begin, what they are then, and how they are named.
FIRST_BYTES: dict[bytes, tuple[str, tuple[str, ...]]] = {
    b"PAR1": ("Parquet", parquet.ENDINGS),
    b"ARROW1": ("Arrow", arrow.ENDINGS),
    b"\x1f\x8b": ("gzip", (".gz",)),
    b"\x28\xb5\x2f\xfd": ("Zstandard", (".zst", ".zstd")),
    b'{"': ("JSON Lines without compression", (".jsonl", ".ndjson", ".json")),
}


@dataclass(frozen=True)
class InspectedFile:
    """A file with its pieces, and the columns to carry: None where no row shows any.

    names: of all its columns. fault: why it cannot be read.
    """

    file: InputFile
    table_schema: pa.Schema | None
    fault: str = ""
    names: tuple[str, ...] | None = None


def format_of(source: str, file: InputFile) -> Format:
    """Return the format that a file's recipe says, or the longest known ending of its name.

    So `.csv.bz2` is CSV, although `.bz2` alone is a dump of MediaWiki. Raises BadInput for other files.
    """
    known = [kind for kind in FORMATS if file.format == kind.NAME]
    if not file.format:
        name = file.url.lower()
        ends = [(end, kind) for kind in FORMATS for end in kind.ENDINGS if name.endswith(end)]
        known = [kind for _, kind in sorted(ends, key=lambda found: len(found[0]), reverse=True)]
    if not known:
        endings = ", ".join(
            dict.fromkeys(plain_ending(ending) for kind in FORMATS for ending in kind.ENDINGS)
        )
        fault = f"its ending is none of {endings}, which may be compressed; say its `format` in the recipe"
        raise bad_input(source, fault, file=file.url)
    return known[0]


def plain_ending(ending: str) -> str:
    """Return an ending without that of a compression, where it has both."""
    both = [ending.removesuffix(one) for one in COMPRESSIONS if ending.endswith(one) and ending != one]
    return both[0] if both else ending


def format_versions() -> list[str]:
    """Return the name and version of each format."""
    return [f"{known.NAME} {known.VERSION}" for known in FORMATS]


def version_of(source: str, file: InputFile) -> int:
    """Return the version of what reads a file. Raises BadInput."""
    return format_of(source, file).VERSION


def has_schema(source: str, file: InputFile) -> bool:
    """Say whether a file names its columns, or has those of its format, and does not show them by rows alone."""
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
    """Look at a file before hours are spent: its columns, and how it will be cut into pieces.

    Reads a footer, or the first lines. Raises BadInput where the text column is missing or is not
    text, and where a file cannot be opened at all or one of its first lines is no document and bad rows
    stop the build. Damage further in is left for ingest. Raises Unavailable where it is the store that failed.
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
            schema, pieces = None, (FilePiece(),)
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
    """Open a file where it is to be read, by what reads its format."""
    location = file.location or Location(url="", version=file.version)
    return open_input(source, file.url, file.size, location.version, location.url, at_random=kind.AT_RANDOM)


def wrong_ending(stream: Input) -> str:
    """Say what a file is by its first bytes, where its name says something else."""
    with suppress(OSError, ValueError):
        stream.seek(0)
        first, name = stream.read(max(map(len, FIRST_BYTES))), stream.url.lower()
        for mark, (what, endings) in FIRST_BYTES.items():
            if first.startswith(mark) and not name.endswith(endings):
                return f"it begins as {what} does, and its name has another ending; rename it"
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

    Raises BadInput where the file is not what was listed: before a row is called bad, and at the end.
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


def bounded_chunks(chunks: Iterator[Chunk], piece: FilePiece, text: str, tally: RowTally) -> Iterator[Chunk]:
    """Yield chunks up to where they ask for too much memory, or too many rows in a row have no text.

    Then one bad row stands for all that follows.
    """
    row, without_text, fault = piece.first_row, 0, ""
    try:
        for chunk in chunks:
            yield chunk
            row += chunk.count(tally)
            own = len(chunk.rows) + len(chunk.bad) + len(chunk.blank)
            own += sum(reason == csv_files.BLANK.reason for _, reason in chunk.skipped)
            without_text = 0 if chunk.has_text(text) else without_text + own
            if without_text > limits().rows_without_text:
                fault = (
                    f"more than {limits().rows_without_text:,} rows in a row have no text; no more are read"
                )
                break
    except MemoryError as error:
        fault = f"it needs too much memory: {first_line(error)}"
    if fault:
        tally.rows = row - piece.first_row
        yield rest_of_file(row, f"the file is not read from here on: {fault}", tally)
    if tally.rests and piece.rows is not None and row < piece.first_row + piece.rows:
        tally.unread.append(range(row, piece.first_row + piece.rows))
        tally.rows = piece.rows
