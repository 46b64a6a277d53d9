"""The sources for which `zyda init` writes a recipe: files that look alike, by the first rows of some of them."""

import os
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, bad_input, first_line
from zyda_flows.tasks.planning.draft_columns import Guesses, guessed
from zyda_flows.tasks.planning.draft_inputs import NAME, Given, Pattern, fewest_patterns, form_of, given
from zyda_flows.tasks.recipe.source import RESERVED_NAMES
from zyda_flows.tasks.sources.first_rows import first_rows
from zyda_flows.tasks.sources.formats import arxiv, jsonl, warc, whole_files, wikipedia
from zyda_flows.tasks.sources.listing import InputFile
from zyda_flows.tasks.sources.reading import FIRST_BYTES, FORMATS, Format, format_of, opened
from zyda_flows.tasks.sources.rows import Chunk
from zyda_flows.tasks.sources.small_files import of_no_source

ROWS = 50  # of a file
MOST_FILES = 20  # of a folder and a format, into which somebody looks
WHOLE = (whole_files.HTML, whole_files.TEXT)
SAME_COLUMNS: tuple[Format, ...] = (*WHOLE, warc, wikipedia, arxiv)  # in all their files, with a `text`
EXTRACTORS = {"html": "structured", "wikipedia": "wikitext", "arxiv": "latex"}
ABOUT_DATA = re.compile(  # which folders of data have beside it
    r"(?:readme|licen[cs]e|notice|changelog|citation|dataset_infos?|state)(?:\.[a-z]+)?", re.IGNORECASE
)
OF_PARTS = re.compile(
    r"(?:part|data|train|shard|chunk|file|of|[0-9._-])*", re.IGNORECASE
)  # names that say nothing


@dataclass(frozen=True)
class LeftOut:
    """A file that was found in a folder or by a pattern and is in no source, and why."""

    url: str
    reason: str


@dataclass
class Alike:
    """Files of one format in which the same columns are named. bad: a sentence about each bad row."""

    kind: Format
    files: list[InputFile]
    looked: list[InputFile] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    guesses: Guesses | None = None

    @property
    def key(self) -> Hashable:
        """What two files that look alike have in common."""
        if self.guesses is None:
            return None
        names = None if self.kind is jsonl else frozenset(self.guesses.names)
        url = self.guesses.url and self.guesses.url.name
        return self.guesses.text.name, self.guesses.text.column.is_html, url, names

    def add(self, other: "Alike") -> None:
        """Take in other files that look alike."""
        self.files += other.files
        self.looked += other.looked
        self.tables += other.tables
        self.bad += other.bad


@dataclass(frozen=True)
class DraftSource:
    """A source of a recipe to be written. format: where the names of its files do not show it."""

    name: str
    patterns: tuple[Pattern, ...]
    is_absolute: bool
    kind: Format
    format: str
    files: tuple[InputFile, ...]
    looked: int
    bad: tuple[str, ...]
    guesses: Guesses

    @property
    def extractor(self) -> str | None:
        """What makes a text of its documents, if they are pages or markup."""
        return EXTRACTORS.get(self.kind.NAME) or ("structured" if self.guesses.text.column.is_html else None)

    @property
    def has_bad_rows(self) -> bool:
        return bool(self.bad or self.guesses.nulls)


def drafted(typed: Sequence[str]) -> tuple[list[DraftSource], list[LeftOut]]:
    """Make sources of inputs, in their order. Raises BadInput where a file that was named cannot be read."""
    with of_no_source(NAME):
        return sources_of([given(one) for one in typed])


def sources_of(inputs: Sequence[Given]) -> tuple[list[DraftSource], list[LeftOut]]:
    sources, left_out, seen = list[DraftSource](), list[LeftOut](), set[str]()
    for _, same_root in groupby(inputs, key=lambda one: (one.root, one.pattern is None)):
        own = [*same_root]
        formats = dict[tuple[str, str], Alike]()
        for file, is_named in files_in(own, seen):
            try:
                file = with_format(file, is_named=is_named)
                kind = format_of(NAME, file)
            except BadInput:
                if is_named:
                    raise
                left_out.append(LeftOut(file.url, "its ending is that of no format"))
                continue
            formats.setdefault((kind.NAME, file.format), Alike(kind, [])).files.append(file)
        for every in without_papers([*formats.values()], left_out):
            readable, unreadable = parted(every, is_named=any(one.is_single for one in own))
            left_out += unreadable
            sources += [source_of(own, alike) for alike in readable]
    if not sources:
        first = left_out[0]
        raise bad_input(NAME, first.reason, file=first.url)
    return with_own_names(sources), left_out


def files_in(inputs: Sequence[Given], seen: set[str]) -> Iterator[tuple[InputFile, bool]]:
    """Yield the files of inputs that no input before them has, and whether each was named by itself."""
    for one in inputs:
        for file in one.files:
            if file.url not in seen:
                seen.add(file.url)
                yield file, one.is_single


def with_format(file: InputFile, *, is_named: bool) -> InputFile:
    """Give a file without a known ending the format that its first bytes show, if they show one."""
    try:
        format_of(NAME, file)
    except BadInput:
        if arxiv.ID.match(name_of(file).lower().removesuffix(".gz")):
            return file.model_copy(update={"format": arxiv.NAME})
        with opened(NAME, file, jsonl) as stream:
            first = stream.read(max(map(len, FIRST_BYTES))) if is_named else b""
        ends = [ends for mark, (_, ends) in FIRST_BYTES.items() if first.startswith(mark)]
        known = [kind.NAME for kind in FORMATS if ends and ends[0][0] in kind.ENDINGS]
        return file.model_copy(update={"format": known[0]}) if known else file
    return file


def without_papers(formats: list[Alike], left_out: list[LeftOut]) -> list[Alike]:
    """Leave out the README and its like, which folders have beside their data, where there is anything else."""
    for alike in formats:
        papers = [file for file in alike.files if ABOUT_DATA.fullmatch(name_of(file))]
        if len(papers) < sum(len(other.files) for other in formats):
            left_out += [LeftOut(file.url, "its name is that of a file about data") for file in papers]
            alike.files = [file for file in alike.files if file not in papers]
    return [alike for alike in formats if alike.files]


def parted(every: Alike, *, is_named: bool) -> tuple[list[Alike], list[LeftOut]]:
    """Part files of one format by what their first rows look like. is_named: those that cannot be read are faults.

    Of files whose names differ in their numbers alone, one is read; files into which nobody looks are taken for
    what most others are.
    """
    groups = dict[Hashable, Alike]()
    for number, files in enumerate(by_form(every)):
        own = Alike(every.kind, files)
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
        groups.setdefault(own.key, Alike(own.kind, [], guesses=own.guesses)).add(own)
    unreadable = groups.pop(None, None)
    left_out = [LeftOut(file.url, unreadable.bad[0]) for file in unreadable.files] if unreadable else []
    return [with_all_rows(alike) for alike in groups.values()], left_out


def by_form(every: Alike) -> list[list[InputFile]]:
    """Put files together whose names differ in their numbers alone; of whole documents, all."""
    forms = dict[str, list[InputFile]]()
    for file in sorted(every.files, key=lambda file: file.size == 0):
        forms.setdefault("" if every.kind in WHOLE else form_of(file.name or name_of(file)), []).append(file)
    return [*forms.values()]


def look_into(alike: Alike) -> None:
    """Read the first rows of files, and guess their columns. Raises BadInput where there are none."""
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
    """Say why files have no document among their first rows."""
    bad = [row.reason for chunk in chunks for row in chunk.bad]
    skipped = {reason for chunk in chunks for _, reason in chunk.skipped}
    more = (
        f": {bad[0]}" if bad else f"; its first records are {', '.join(sorted(skipped))}" if skipped else ""
    )
    return f"no document is among its first rows{more}" if chunks else "it has 0 bytes"


def with_all_rows(alike: Alike) -> Alike:
    """Guess again by the rows of all files that look alike."""
    text = "text" if alike.kind in SAME_COLUMNS else None
    guesses = guessed(NAME, alike.files[0].url, alike.tables, text=text)
    return replace(alike, guesses=guesses)


def source_of(inputs: Sequence[Given], alike: Alike) -> DraftSource:
    assert alike.guesses is not None
    patterns = fewest_patterns(inputs, alike.files, ends_of(alike))
    return DraftSource(
        name=source_name(inputs[0], alike.files),
        patterns=tuple(patterns),
        is_absolute=inputs[0].is_absolute,
        kind=alike.kind,
        format=alike.files[0].format,
        files=tuple(alike.files),
        looked=len(alike.looked),
        bad=tuple(alike.bad),
        guesses=alike.guesses,
    )


def ends_of(alike: Alike) -> list[str]:
    """Return the endings of the names of files, as they are written."""
    ends = dict[str, None]()
    for name in map(name_of, alike.files):
        known = max((end for end in alike.kind.ENDINGS if name.lower().endswith(end)), key=len, default="")
        ends[name[len(name) - len(known) :]] = None
    return [*ends]


def source_name(given: Given, files: Sequence[InputFile]) -> str:
    """Name a source as its folder, or as its files where they were named."""
    return (
        os.path.basename(given.root)
        if given.pattern is None
        else own_name(files) or os.path.basename(given.root)
    )


def own_name(files: Sequence[InputFile]) -> str:
    """Return what the names of files begin with, or their folder; nothing where they share none."""
    stems = [re.split(r"\.(?=[A-Za-z])", name_of(file))[0] for file in files]
    start = re.split(r"[0-9]", stems[0])[0] if len(stems) > 1 else stems[0]
    if all(stem.startswith(start) for stem in stems) and not OF_PARTS.fullmatch(start):
        return start
    folders = {file.name.partition("/")[0] for file in files if "/" in file.name}
    return folders.pop() if len(folders) == 1 else ""


def with_own_names(sources: Sequence[DraftSource]) -> list[DraftSource]:
    """Give sources names of their own: of those with the same, by their files, their formats, or numbers."""
    named, taken = list[DraftSource](), set[str]()
    for source in sources:
        stems = [source.name]
        if sum(other.name == source.name for other in sources) > 1:
            stems = [own_name(source.files), f"{source.name}-{source.kind.NAME}"]
        plain = [valid_name(stem) for stem in stems if stem]
        numbered = (f"{plain[-1]}-{number}" for number in range(2, len(sources) + 2))
        name = next(name for name in chain(plain, numbered) if name.lower() not in taken)
        taken.add(name.lower())
        named.append(replace(source, name=name))
    return named


def valid_name(name: str) -> str:
    """Return a name of a source, without the characters that none has."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:80] or "source"
    return f"{plain}-source" if plain.lower() in RESERVED_NAMES else plain


def name_of(file: InputFile) -> str:
    return file.url.rpartition("/")[2]


def reason_of(error: BadInput) -> str:
    """Return what an error says of a file, without the name of the file."""
    after = first_line(error).partition(f"file {error.where.get('file', '')}")[2]
    return after.partition(": ")[2] or first_line(error)
