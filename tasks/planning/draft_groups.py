"""Files of one format, grouped by the columns of their first rows."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, bad_input, first_line
from zyda_flows.tasks.planning.draft_columns import Guesses, guessed
from zyda_flows.tasks.planning.draft_inputs import NAME, form_of
from zyda_flows.tasks.sources.file_rows import Chunk
from zyda_flows.tasks.sources.first_rows import first_rows
from zyda_flows.tasks.sources.formats import arxiv, jsonl, warc, whole_files, wikipedia
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.reading import Format

ROWS = 50  # of a file
MOST_FILES = 20  # of a folder and a format, that are read
WHOLE = (whole_files.HTML, whole_files.TEXT)
SAME_COLUMNS: tuple[Format, ...] = (*WHOLE, warc, wikipedia, arxiv)  # in all their files, with a `text`


@dataclass(frozen=True)
class LeftOut:
    """A file in a folder or of a pattern that is in no source, and the reason."""

    url: str
    reason: str


@dataclass
class FileGroup:
    """Files of one format in which the same columns are named. bad: a sentence about each bad row."""

    kind: Format
    files: list[InputFile]
    looked: list[InputFile] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    guesses: Guesses | None = None

    @property
    def key(self) -> Hashable:
        """Equal for files that look alike; None for files that cannot be read."""
        if self.guesses is None:
            return None
        names = None if self.kind is jsonl else frozenset(self.guesses.names)
        url = self.guesses.url and self.guesses.url.name
        return self.guesses.text.name, self.guesses.text.column.is_html, url, names

    def add(self, other: "FileGroup") -> None:
        """Add the files of a similar group."""
        self.files += other.files
        self.looked += other.looked
        self.tables += other.tables
        self.bad += other.bad


def parted(every: FileGroup, *, is_named: bool) -> tuple[list[FileGroup], list[LeftOut]]:
    """Group the files of one format by their first rows. is_named: raise BadInput for an unreadable file.

    Of files whose names differ only in their numbers, the first file is read. At most MOST_FILES are read; the
    other files join the largest group.
    """
    groups = dict[Hashable, FileGroup]()
    for number, files in enumerate(by_form(every)):
        own = FileGroup(every.kind, files)
        if number < MOST_FILES:
            try:
                look_into(own)
            except BadInput as error:
                if is_named:
                    raise
                own.bad = [reason_of(error)]
        elif groups:
            max(
                groups.values(), key=lambda alike: (alike.guesses is not None, len(alike.files))
            ).files += files
            continue
        groups.setdefault(own.key, FileGroup(own.kind, [], guesses=own.guesses)).add(own)
    unreadable = groups.pop(None, None)
    left_out = [LeftOut(file.url, unreadable.bad[0]) for file in unreadable.files] if unreadable else []
    return [with_all_rows(alike) for alike in groups.values()], left_out


def by_form(every: FileGroup) -> list[list[InputFile]]:
    """Group files whose names differ only in their numbers; files with a single document each are a group."""
    forms = dict[str, list[InputFile]]()
    for file in sorted(every.files, key=lambda file: file.size == 0):
        forms.setdefault("" if every.kind in WHOLE else form_of(file.name or name_of(file)), []).append(file)
    return [*forms.values()]


def look_into(alike: FileGroup) -> None:
    """Read the first rows of files, and guess their columns. Raises BadInput if there are no rows."""
    alike.looked = [file for file in alike.files if file.size][: MOST_FILES if alike.kind in WHOLE else 1]
    chunks = [first_rows(NAME, file, ROWS) for file in alike.looked]
    alike.tables = [chunk.table for chunk in chunks if len(chunk.table)]
    alike.bad = [
        f"{name_of(file)}, row {row.row}: {row.reason}"
        for file, chunk in zip(alike.looked, chunks, strict=True)
        for row in chunk.bad
    ]
    first = alike.files[0]
    if not alike.tables:
        raise bad_input(NAME, why_empty(chunks), file=first.url)
    text = "text" if alike.kind in SAME_COLUMNS else None
    alike.guesses = guessed(NAME, first.url, alike.tables, text=text)


def why_empty(chunks: Sequence[Chunk]) -> str:
    """Return the reason why files have no document in their first rows."""
    bad = [row.reason for chunk in chunks for row in chunk.bad]
    skipped = {reason for chunk in chunks for _, reason in chunk.skipped}
    more = (
        f": {bad[0]}" if bad else f"; its first records are {', '.join(sorted(skipped))}" if skipped else ""
    )
    return f"no document is among its first rows{more}" if chunks else "it has 0 bytes"


def with_all_rows(alike: FileGroup) -> FileGroup:
    """Guess the columns by the rows of all similar files."""
    text = "text" if alike.kind in SAME_COLUMNS else None
    guesses = guessed(NAME, alike.files[0].url, alike.tables, text=text)
    return replace(alike, guesses=guesses)


def ends_of(alike: FileGroup) -> list[str]:
    """Return the endings of the names of files, as they are written."""
    ends = dict[str, None]()
    for name in map(name_of, alike.files):
        known = max((end for end in alike.kind.ENDINGS if name.lower().endswith(end)), key=len, default="")
        ends[name[len(name) - len(known) :]] = None
    return [*ends]


def name_of(file: InputFile) -> str:
    return file.url.rpartition("/")[2]


def reason_of(error: BadInput) -> str:
    """Return the message of an error without the name of the file."""
    after = first_line(error).partition(f"file {error.where.get('file', '')}")[2]
    return after.partition(": ")[2] or first_line(error)
