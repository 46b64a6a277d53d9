"""The sources for which `zyda init` writes a recipe: groups of similar files, by the first rows of some of them."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from zyda_flows.tasks.errors import BadInput, bad_input
from zyda_flows.tasks.planning.draft_columns import ColumnGuesses
from zyda_flows.tasks.planning.draft_groups import FileGroup, LeftOutFile, ends_of, group_by_columns, name_of
from zyda_flows.tasks.planning.draft_inputs import NAME, Pattern, TypedInput, fewest_patterns, read_input
from zyda_flows.tasks.recipe.source import RESERVED_NAMES
from zyda_flows.tasks.sources.formats import arxiv, jsonl
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.reading import FIRST_BYTES, FORMATS, Format, format_of, open_listed_file
from zyda_flows.tasks.sources.small_files import errors_about

EXTRACTORS = {"html": "structured", "wikipedia": "wikitext", "arxiv": "latex"}
ABOUT_DATA = re.compile(  # which folders of data have beside it
    r"(?:readme|licen[cs]e|notice|changelog|citation|dataset_infos?|state)(?:\.[a-z]+)?", re.IGNORECASE
)
OF_PARTS = re.compile(
    r"(?:part|data|train|shard|chunk|file|of|[0-9._-])*", re.IGNORECASE
)  # names without a meaning


@dataclass(frozen=True)
class DraftSource:
    """A source of a recipe to be written. format: where the names of its files do not show it."""

    name: str
    patterns: tuple[Pattern, ...]
    is_absolute: bool
    kind: Format
    format: str
    files: tuple[InputFile, ...]
    inspected: int
    bad: tuple[str, ...]
    guesses: ColumnGuesses

    @property
    def extractor(self) -> str | None:
        """The extractor for its documents, if they are pages or markup."""
        return EXTRACTORS.get(self.kind.NAME) or (
            "structured" if self.guesses.text_column.column.is_html else None
        )

    @property
    def has_bad_rows(self) -> bool:
        return bool(self.bad or self.guesses.rows_without_text)


def draft_from_inputs(typed: Sequence[str]) -> tuple[list[DraftSource], list[LeftOutFile]]:
    """Return the sources of inputs, in order. Raises BadInput for an unreadable file that was named."""
    with errors_about(NAME):
        return sources_of([read_input(argument) for argument in typed])


def sources_of(inputs: Sequence[TypedInput]) -> tuple[list[DraftSource], list[LeftOutFile]]:
    sources, left_out, seen = list[DraftSource](), list[LeftOutFile](), set[str]()
    for _, same_root in groupby(inputs, key=lambda typed: (typed.root, typed.pattern is None)):
        own = [*same_root]
        formats = dict[tuple[str, str], FileGroup]()
        for file, is_named in files_in(own, seen):
            try:
                file = with_format(file, is_named=is_named)
                kind = format_of(NAME, file)
            except BadInput:
                if is_named:
                    raise
                left_out.append(LeftOutFile(file.url, "its ending is that of no format"))
                continue
            formats.setdefault((kind.NAME, file.format), FileGroup(kind, [])).files.append(file)
        for same_format in without_papers([*formats.values()], left_out):
            readable, unreadable = group_by_columns(
                same_format, is_named=any(typed.is_single for typed in own)
            )
            left_out += unreadable
            sources += [source_of(own, group) for group in readable]
    if not sources:
        first = left_out[0]
        raise bad_input(NAME, first.reason, file=first.url)
    return with_own_names(sources), left_out


def files_in(inputs: Sequence[TypedInput], seen: set[str]) -> Iterator[tuple[InputFile, bool]]:
    """Yield the files of inputs, each once, and whether its input names a single file."""
    for typed in inputs:
        for file in typed.files:
            if file.url not in seen:
                seen.add(file.url)
                yield file, typed.is_single


def with_format(file: InputFile, *, is_named: bool) -> InputFile:
    """Return a file without a known ending with the format of its first bytes, if they show one."""
    try:
        format_of(NAME, file)
    except BadInput:
        if arxiv.ID.match(name_of(file).lower().removesuffix(".gz")):
            return file.model_copy(update={"format": arxiv.NAME})
        with open_listed_file(NAME, file, jsonl) as stream:
            first = stream.read(max(map(len, FIRST_BYTES))) if is_named else b""
        ends = [ends for mark, (_, ends) in FIRST_BYTES.items() if first.startswith(mark)]
        known = [kind.NAME for kind in FORMATS if ends and ends[0][0] in kind.ENDINGS]
        return file.model_copy(update={"format": known[0]}) if known else file
    return file


def without_papers(formats: list[FileGroup], left_out: list[LeftOutFile]) -> list[FileGroup]:
    """Leave out files about the data, such as README files, if there are other files."""
    for group in formats:
        papers = [file for file in group.files if ABOUT_DATA.fullmatch(name_of(file))]
        if len(papers) < sum(len(other.files) for other in formats):
            left_out += [LeftOutFile(file.url, "its name is that of a file about data") for file in papers]
            group.files = [file for file in group.files if file not in papers]
    return [group for group in formats if group.files]


def source_of(inputs: Sequence[TypedInput], group: FileGroup) -> DraftSource:
    assert group.guesses is not None
    patterns = fewest_patterns(inputs, group.files, ends_of(group))
    return DraftSource(
        name=source_name(inputs[0], group.files),
        patterns=tuple(patterns),
        is_absolute=inputs[0].is_absolute,
        kind=group.kind,
        format=group.files[0].format,
        files=tuple(group.files),
        inspected=len(group.inspected),
        bad=tuple(group.bad),
        guesses=group.guesses,
    )


def source_name(typed_input: TypedInput, files: Sequence[InputFile]) -> str:
    """Return a name for a source: its folder's name, or the name of its files if they were given singly."""
    return (
        os.path.basename(typed_input.root)
        if typed_input.pattern is None
        else own_name(files) or os.path.basename(typed_input.root)
    )


def own_name(files: Sequence[InputFile]) -> str:
    """Return the common beginning of the names of files, or their folder; "" if they have none in common."""
    stems = [re.split(r"\.(?=[A-Za-z])", name_of(file))[0] for file in files]
    start = re.split(r"[0-9]", stems[0])[0] if len(stems) > 1 else stems[0]
    if all(stem.startswith(start) for stem in stems) and not OF_PARTS.fullmatch(start):
        return start
    folders = {file.name.partition("/")[0] for file in files if "/" in file.name}
    return folders.pop() if len(folders) == 1 else ""


def with_own_names(sources: Sequence[DraftSource]) -> list[DraftSource]:
    """Make the names of sources unique, by their files, formats or numbers."""
    named, taken = list[DraftSource](), set[str]()
    for source in sources:
        same = [other.kind.NAME for other in sources if other.name == source.name]
        stems = [f"{source.name}-{source.kind.NAME}" if len(same) > 1 else source.name]
        if same.count(source.kind.NAME) > 1:
            stems.insert(0, own_name(source.files))
        plain = [valid_name(stem) for stem in stems if stem]
        numbered = (f"{plain[-1]}-{number}" for number in range(2, len(sources) + 2))
        name = next(name for name in chain(plain, numbered) if name.lower() not in taken)
        taken.add(name.lower())
        named.append(replace(source, name=name))
    return named


def valid_name(name: str) -> str:
    """Return a name without characters that are invalid in names of sources."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:80] or "source"
    return f"{plain}-source" if plain.lower() in RESERVED_NAMES else plain
