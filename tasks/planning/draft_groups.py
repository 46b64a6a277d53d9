"""Files of one format, grouped by the columns of their first rows."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, bad_input, first_line
from zyda_flows.tasks.planning.draft_columns import ColumnGuesses, guess_columns
from zyda_flows.tasks.planning.draft_inputs import NAME, form_of
from zyda_flows.tasks.sources.file_rows import Chunk
from zyda_flows.tasks.sources.first_rows import first_rows
from zyda_flows.tasks.sources.formats import arxiv, jsonl, warc, whole_files, wikipedia
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.reading import Format

ROWS_READ = 50  # of a file
MOST_FILES = 20  # of a folder and a format, that are read
WHOLE_FILE_FORMATS = (whole_files.HTML, whole_files.TEXT)
SAME_COLUMNS: tuple[Format, ...] = (
    *WHOLE_FILE_FORMATS,
    warc,
    wikipedia,
    arxiv,
)  # in all their files, with a `text`


@dataclass(frozen=True)
class LeftOutFile:
    """A file in a folder or of a pattern that is in no source, and the reason."""

    url: str
    reason: str


@dataclass
class FileGroup:
    """Files of one format in which the same columns are named. bad: a sentence about each bad row."""

    kind: Format
    files: list[InputFile]
    inspected: list[InputFile] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    guesses: ColumnGuesses | None = None

    @property
    def key(self) -> Hashable:
        """Equal for files of the same columns; None for files that cannot be read."""
        if self.guesses is None:
            return None
        names = None if self.kind is jsonl else frozenset(self.guesses.column_names)
        url = self.guesses.url_column and self.guesses.url_column.name
        return self.guesses.text_column.name, self.guesses.text_column.column.is_html, url, names

    def add(self, other: "FileGroup") -> None:
        """Add the files of a similar group."""
        self.files += other.files
        self.inspected += other.inspected
        self.tables += other.tables
        self.bad += other.bad


def group_by_columns(every: FileGroup, *, is_named: bool) -> tuple[list[FileGroup], list[LeftOutFile]]:
    """Group the files of one format by their first rows. is_named: raise BadInput for an unreadable file.

    Of files whose names differ only in their numbers, the first file is read. At most MOST_FILES are read; the
    other files join the largest group.
    """
    groups = dict[Hashable, FileGroup]()
    for number, files in enumerate(group_by_name(every)):
        own = FileGroup(every.kind, files)
        if number < MOST_FILES:
            try:
                read_first_rows(own)
            except BadInput as error:
                if is_named:
                    raise
                own.bad = [reason_of(error)]
        elif groups:
            max(
                groups.values(), key=lambda group: (group.guesses is not None, len(group.files))
            ).files += files
            continue
        groups.setdefault(own.key, FileGroup(own.kind, [], guesses=own.guesses)).add(own)
    unreadable = groups.pop(None, None)
    left_out = [LeftOutFile(file.url, unreadable.bad[0]) for file in unreadable.files] if unreadable else []
    return [with_all_rows(group) for group in groups.values()], left_out


def group_by_name(every: FileGroup) -> list[list[InputFile]]:
    """Group files whose names differ only in their numbers; files with a single document each are a group."""
    forms = dict[str, list[InputFile]]()
    for file in sorted(every.files, key=lambda file: file.size == 0):
        forms.setdefault(
            "" if every.kind in WHOLE_FILE_FORMATS else form_of(file.name or name_of(file)), []
        ).append(file)
    return [*forms.values()]


def read_first_rows(group: FileGroup) -> None:
    """Read the first rows of files, and guess their columns. Raises BadInput if there are no rows."""
    group.inspected = [file for file in group.files if file.size][
        : MOST_FILES if group.kind in WHOLE_FILE_FORMATS else 1
    ]
    chunks = [first_rows(NAME, file, ROWS_READ) for file in group.inspected]
    group.tables = [chunk.table for chunk in chunks if len(chunk.table)]
    group.bad = [
        f"{name_of(file)}, row {row.row}: {row.reason}"
        for file, chunk in zip(group.inspected, chunks, strict=True)
        for row in chunk.bad
    ]
    first = group.files[0]
    if not group.tables:
        raise bad_input(NAME, why_empty(chunks), file=first.url)
    text = "text" if group.kind in SAME_COLUMNS else None
    group.guesses = guess_columns(NAME, first.url, group.tables, text=text)


def why_empty(chunks: Sequence[Chunk]) -> str:
    """Return the reason why files have no document in their first rows."""
    bad = [row.reason for chunk in chunks for row in chunk.bad]
    skipped = {reason for chunk in chunks for _, reason in chunk.skipped}
    more = (
        f": {bad[0]}" if bad else f"; its first records are {', '.join(sorted(skipped))}" if skipped else ""
    )
    return f"no document is among its first rows{more}" if chunks else "it has 0 bytes"


def with_all_rows(group: FileGroup) -> FileGroup:
    """Guess the columns by the rows of all similar files."""
    text = "text" if group.kind in SAME_COLUMNS else None
    guesses = guess_columns(NAME, group.files[0].url, group.tables, text=text)
    return replace(group, guesses=guesses)


def ends_of(group: FileGroup) -> list[str]:
    """Return the endings of the names of files, as they are written."""
    ends = dict[str, None]()
    for name in map(name_of, group.files):
        known = max((end for end in group.kind.ENDINGS if name.lower().endswith(end)), key=len, default="")
        ends[name[len(name) - len(known) :]] = None
    return [*ends]


def name_of(file: InputFile) -> str:
    return file.url.rpartition("/")[2]


def reason_of(error: BadInput) -> str:
    """Return the message of an error without the name of the file."""
    after = first_line(error).partition(f"file {error.where.get('file', '')}")[2]
    return after.partition(": ")[2] or first_line(error)
