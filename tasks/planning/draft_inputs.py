"""The files, folders, globs and URLs for which `zyda init` writes a recipe: their files and their patterns."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path

from zyda_flows.tasks.errors import BadInput, BadRecipe, ZydaError
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.recipe.values import valid_url, without_credentials
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.listing import WILDCARDS, folder_hint, list_by_pattern
from zyda_flows.tasks.sources.small_files import errors_about

NAME = "input"  # in errors, in place of a source's name
MOST_NAMED = 1000  # files that a recipe names singly
MOST_PATTERNS = 10


@dataclass(frozen=True)
class Pattern:
    """A pattern or a path below a folder; the name of the folder is not a pattern."""

    root: str
    tail: str
    has_marks: bool = True

    @property
    def url(self) -> str:
        return self.below(self.root)

    def below(self, folder: str) -> str:
        """Return it below a folder; a path with an asterisk would be read as a pattern, and is escaped."""
        if self.has_marks:
            return f"{escape(folder)}/{self.tail}"
        path = f"{folder}/{self.tail}"
        return escape(path) if "*" in path else path

    def from_folder(self, folder: str) -> str:
        """Return it relative to a folder of this machine."""
        root = os.path.relpath(self.root, folder)
        path = self.below(root).removeprefix("./")
        return self.url if path.startswith("~") else path


@dataclass(frozen=True)
class TypedInput:
    """An input as it was typed, and its files.

    root: the folder that holds them. pattern: lists them; None for a whole folder.
    is_absolute: whether a recipe gives their absolute paths.
    """

    typed: str
    root: str
    pattern: Pattern | None
    files: tuple[InputFile, ...]
    is_absolute: bool

    @property
    def is_single(self) -> bool:
        """Whether the input names a single file, which must be readable."""
        return self.pattern is not None and not self.pattern.has_marks and len(self.files) == 1


def read_input(typed: str) -> TypedInput:
    """Return the files of an input. Raises BadInput if there are none, BadRecipe for an invalid URL."""
    try:
        is_file = typed.startswith("~") and os.path.lexists(typed)  # and no folder of a user
        place = valid_url(without_credentials(os.path.abspath(typed) if is_file else typed))
    except ValueError as error:
        raise BadRecipe(f"an input cannot be used: {error}") from error
    if "://" in place:
        return read_url_input(typed, place)
    path = place if os.path.lexists(place) else str(Path(place).expanduser())
    whole, is_absolute = os.path.abspath(path), os.path.isabs(path)
    if os.path.isdir(whole) and not has_own_files(whole):
        return TypedInput(typed, whole, None, files_below(typed, whole), is_absolute)
    pattern = pattern_of(whole if os.path.lexists(path) else path, is_there=os.path.lexists(path))
    pattern = replace(pattern, root=os.path.abspath(pattern.root or "."))
    return TypedInput(typed, pattern.root, pattern, files_of([pattern.url]), is_absolute)


def read_url_input(typed: str, url: str) -> TypedInput:
    pattern = pattern_of(url, is_there=not any(mark in url for mark in "*["))
    try:
        return TypedInput(typed, pattern.root, pattern, files_of([url]), is_absolute=True)
    except BadInput:
        if not folder_hint(url):
            raise
    folder = url.rstrip("/")
    return TypedInput(typed, folder, None, files_below(typed, folder), is_absolute=True)


def pattern_of(place: str, *, is_there: bool) -> Pattern:
    """Split a path, or a pattern before its first wildcard, into a folder and the rest."""
    fixed = place if is_there else re.split(f"[{re.escape(WILDCARDS)}]", place)[0]
    root = fixed.rpartition("/")[0]
    return Pattern(root, place.removeprefix(root).removeprefix("/"), has_marks=fixed != place)


def has_own_files(folder: str) -> bool:
    """Return whether a folder is a dataset such as Spark's `x.parquet`, with files of that ending."""
    try:
        pattern = pattern_of(folder, is_there=True)
        return bool(os.path.splitext(folder)[1] and files_of([pattern.url]))
    except ZydaError:
        return False


def files_below(typed: str, folder: str) -> tuple[InputFile, ...]:
    try:
        return files_of([Pattern(folder, "**").url])
    except BadInput as error:
        if "no file matches" not in str(error):
            raise
        raise BadInput(f"{NAME}: the folder {typed} has no files") from error


def files_of(patterns: Sequence[str]) -> tuple[InputFile, ...]:
    """Return the files of patterns. Raises BadInput for a pattern without files."""
    source = Source.model_construct(name=NAME, files=tuple(patterns))
    with errors_about(NAME):
        listed = list_by_pattern(source)
    return tuple({file.url: file for files in listed.values() for file in files}.values())


def fewest_patterns(
    inputs: Sequence[TypedInput], files: Sequence[InputFile], ends: Sequence[str]
) -> list[Pattern]:
    """Return patterns that list exactly these files, or the files themselves.

    inputs: of one folder, which list the files. ends: the endings of their names. Raises BadInput for too many.
    """
    wanted, root = {file.url for file in files}, inputs[0].root
    for typed_input in inputs:
        if typed_input.pattern and wanted == {file.url for file in typed_input.files}:
            return [typed_input.pattern]
    if (len(files) > 1 or inputs[0].pattern is None) and not root.startswith(
        "http"
    ):  # whose servers list nothing
        for tails in tails_of(files, ends):
            patterns = [Pattern(root, tail) for tail in tails]
            if len(patterns) <= MOST_PATTERNS and urls_of(patterns) == wanted:
                return patterns
    if len(files) > MOST_NAMED:
        fault = f"{len(files):,} files are mixed with others of the same names; give each kind a folder"
        raise BadInput(f"{NAME}, folder {root}: {fault}")
    return [pattern_of(file.url, is_there=True) for file in files]


def tails_of(files: Sequence[InputFile], ends: Sequence[str]) -> Iterator[list[str]]:
    """Yield lists of patterns below a root, the simplest first."""
    names = [file.url.rpartition("/")[2] for file in files]
    alike = [*dict.fromkeys(form_of(name) for name in names)]
    for folders in ("", "**/"):
        yield [f"{folders}*{escape(end)}" for end in ends]
        yield [f"{folders}{form}" for form in alike]
    if len(files) > 1:
        yield [*dict.fromkeys(form_of(file.name) for file in files)]


def form_of(name: str) -> str:
    """Return a pattern for the names that differ from this name only in their numbers."""
    return "*".join(escape(part) for part in re.split(r"\d+", name))


def urls_of(patterns: Sequence[Pattern]) -> set[str]:
    """Return the URLs of the files of patterns; an empty result if a pattern has no files."""
    try:
        return {file.url for file in files_of([pattern.url for pattern in patterns])}
    except ZydaError:
        return set()
