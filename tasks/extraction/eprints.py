"""Assemble the LaTeX of an e-print: its main file, in which the inputted files replace their input commands."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from posixpath import join, normpath
from typing import Any, NamedTuple

from yaml import YAMLError, safe_load

from zyda_flows.tasks.extraction.eprint_kinds import BODY, IGNORED, is_plain_tex, kind_of, kind_of_content
from zyda_flows.tasks.extraction.inputenc import declared_encoding, text_in_utf8, text_of
from zyda_flows.tasks.extraction.latex_source import pieces_of
from zyda_flows.tasks.limits import limits

Piece = tuple[str, re.Match[str] | None]  # of a source, with the mark that ends it: see `pieces_of`

HEAD = re.compile(r"\\document(?:class|style)")
PART_CLASS = re.compile(r"\\documentclass\s*+(?:\[[^\[\]]*+\])?\s*+\{(?:standalone|subfiles|letter)\}")
NAMED_FIRST = ("main", "paper", "article", "ms", "manuscript")
OTHER_SUFFIXES = {
    ".sty", ".cls", ".bib", ".bst", ".bbl", ".blg", ".log", ".aux", ".out", ".toc", ".pdf", ".ps", ".eps",
    ".png",
    ".jpg", ".jpeg", ".gif", ".svg", ".py", ".c", ".cpp", ".js", ".json", ".csv", ".xml", ".html", ".htm",
    ".zip",
    ".gz",
}  # fmt: skip
SOURCES = (".tex", ".ltx", ".latex")
README = re.compile(r"(?:.*/)?00README(?:\.(?:XXX|txt|json|jsn|ya?ml))?\Z", re.I | re.DOTALL)
README_LINE = re.compile(r"^[ \t]*+(\S++)[ \t]++(\w++)", re.M)


class NoLatex(Exception):
    """No file has LaTeX; the message names the kind of the e-print."""


class TooLarge(Exception):
    """The e-print or its inputs are too large."""


def latex_of(files: Mapping[str, bytes]) -> tuple[str, str]:
    """Return the LaTeX of an e-print with the inputted files in place, and the path of its main file.

    Args:
        files: the contents of the files, by path.

    Raises:
        NoLatex: no file has LaTeX.
        TooLarge: the LaTeX is larger than the limits.
    """
    contents = {name: content for name, content in files.items() if is_source(name, content)}
    texts = {name: text_in_utf8(content) for name, content in contents.items()}
    candidates = {
        name: texts[name] or content.decode("latin-1")
        for name, content in contents.items()
        if is_latex(name, content)
    }
    if not candidates or is_plain_tex(candidates.values()):
        raise NoLatex(kind_of(files, has_tex=bool(candidates)))
    main = main_file(candidates, files)
    return "".join(expand_inputs(decoded_sources(contents, texts, candidates[main]), main)), main


def decoded_sources(
    contents: Mapping[str, bytes], texts: Mapping[str, str | None], main_text: str
) -> dict[str, str]:
    """Return the texts of sources: in UTF-8, or else in the encoding that the main file declares.

    texts: the texts of sources in UTF-8; None for other sources.
    """
    encoding = ""
    if None in texts.values():
        encoding = declared_encoding("".join(text for text, _ in pieces_of(main_text, keeps_percent=False)))
    return {name: text_of(contents[name], encoding) if text is None else text for name, text in texts.items()}


def is_source(name: str, content: bytes) -> bool:
    """Return whether a file can be inputted: a text file that is not a style or a bibliography."""
    path = PurePosixPath(name)
    is_other = path.name.startswith("._") or path.suffix.lower() in OTHER_SUFFIXES
    return not is_other and not kind_of_content(content)


def is_latex(name: str, content: bytes) -> bool:
    """Return whether a source can be the main file, judged by its name and its content."""
    is_named = PurePosixPath(name).suffix.lower() in SOURCES
    return (is_named or b"\\begin{document}" in content) and not IGNORED.match(content)


def main_file(candidates: Mapping[str, str], files: Mapping[str, bytes]) -> str:
    """Return the main file that 00README names, or else the candidate with the lowest rank.

    candidates: the texts of sources that can be the main file, by path. files: the contents of all files.
    """
    main_files, ignored = readme_files(files)
    if named := next((name for name in main_files if name in candidates), None):
        return named
    with_body = [name for name, text in candidates.items() if name not in ignored and BODY.search(text)]
    if len(with_body) == 1 and HEAD.search(candidates[with_body[0]]):
        return with_body[0]
    inputted = inputted_files(candidates)

    def rank(name: str) -> tuple[Any, ...]:
        path = PurePosixPath(name)
        is_partial, has_no_body, size = rank_of_content(candidates[name])
        return (
            name in ignored,
            is_partial,
            name in inputted,
            has_no_body,
            len(path.parts),
            str(path.with_suffix(".bbl")) not in files,
            path.stem.lower() not in NAMED_FIRST,
            size,
            name,
        )

    return min(candidates, key=rank)


def rank_of_content(text: str) -> tuple[bool, bool, int]:
    """Return whether a source is not a whole document, whether it has no body, and its negative length."""
    has_body = bool(BODY.search(text))
    is_whole = has_body and bool(HEAD.search(text)) and not PART_CLASS.search(text)
    return not is_whole, not has_body, -len(text)


def inputted_files(sources: Mapping[str, str]) -> set[str]:
    """Return the paths of the sources that other sources input. sources: texts by path."""
    marks = [(name, mark) for name, text in sources.items() for _, mark in pieces_of(text)]
    inputs = [(name, find_input(sources, mark["folder"] or "", mark)) for name, mark in marks if mark]
    return {path for name, path in inputs if path and path != name}


def readme_files(files: Mapping[str, bytes]) -> tuple[list[str], set[str]]:
    """Return the main files and the ignored files that an e-print's 00README declares."""
    rows = [
        row for name, content in files.items() if README.match(name) for row in readme_rows(name, content)
    ]
    main_files = [name for name, use in rows if use in {"toplevelfile", "toplevel"}]
    return main_files, {name for name, use in rows if use == "ignore"}


def readme_rows(name: str, content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the files that a 00README lists, each with its use; nothing of an invalid or a too large one."""
    if len(content) > limits().eprint_readme_bytes:
        return
    text = text_of(content)
    if name.lower().endswith((".xxx", ".txt")) or "." not in name:
        yield from ((match[1], match[2].lower()) for match in README_LINE.finditer(text))
        return
    try:
        rows = safe_load(text)["sources"]
    except (YAMLError, RecursionError, TypeError, KeyError, ValueError):
        return
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            yield str(row.get("filename")), str(row.get("usage", "toplevel")).lower()


def find_input(sources: Mapping[str, str], folder: str, mark: re.Match[str]) -> str | None:
    """Return the path of the file that an input command names, or None if the file is missing.

    Args:
        sources: the texts of all sources, by path.
        folder: the folder in which the file is searched before the root of the e-print.
        mark: a mark of `pieces_of`; other marks than inputs have no path.
    """
    name = mark["input"] or mark["imported"] or mark["bare"]
    if not name:
        return None
    plain = name.strip().strip('"')
    stems = (normpath(join(parent, plain)) for parent in ((folder, "") if folder else ("",)))
    paths = (f"{stem}{suffix}" for stem in stems for suffix in ("", *SOURCES))
    return next((path for path in paths if path in sources), None)


def input_folder(mark: re.Match[str], folder: str) -> str:
    r"""Return the folder from which a command inputs a file; `\import` names another than the current folder."""
    if not mark["import"]:
        return folder
    return normpath(join(folder if mark["import"].startswith("sub") else "", mark["folder"]))


class OpenFile(NamedTuple):
    """A source that is being read. folder: where its inputs are searched. pieces: the pieces not read yet."""

    path: str
    folder: str
    pieces: Iterator[Piece]


def expand_inputs(sources: Mapping[str, str], main: str) -> Iterator[str]:
    """Yield the parts of the main file with its inputs, without comments.

    A missing file is skipped, and a file that inputs itself. Of an inputted document only the body is kept.

    Raises:
        TooLarge: there are more characters or inputs than the limits.
    """
    inputs, size, bounds = 0, 0, limits()
    open_files = [OpenFile(main, str(PurePosixPath(main).parent), main_pieces(sources[main]))]
    while open_files:
        piece = next(open_files[-1].pieces, None)
        if piece is None:
            open_files.pop()
            continue
        text, mark = piece
        size += len(text)
        check_size(size, "the LaTeX with its inputs")
        yield text
        folder = input_folder(mark, open_files[-1].folder) if mark else ""
        path = find_input(sources, folder, mark) if mark else None
        if path is None or any(path == file.path for file in open_files):
            continue
        inputs += 1
        if inputs > bounds.eprint_inputs or len(open_files) > bounds.eprint_input_depth:
            raise TooLarge(
                f"expected at most {bounds.eprint_inputs:,} inputs, nested at most"
                f" {bounds.eprint_input_depth} deep; the e-print has more"
            )
        open_files.append(OpenFile(path, folder, input_pieces(sources[path])))


def check_size(characters: int, name: str) -> None:
    """Raise TooLarge if a text has more characters than the limit."""
    if characters > limits().eprint_characters:
        raise TooLarge(f"{name} has more than {limits().eprint_characters:,} characters")


def main_pieces(text: str) -> Iterator[Piece]:
    r"""Yield the pieces of the main file up to `\endinput`."""
    check_size(len(text), "the main file")
    for piece, mark in pieces_of(text):
        kind = mark.lastgroup if mark else None
        if mark and kind in {"begin", "end"}:
            yield piece + mark[0], None
        else:
            yield piece, mark
        if kind == "endinput":
            return


def input_pieces(text: str) -> Iterator[Piece]:
    r"""Yield the pieces of an inputted file up to `\endinput`; of a whole document the pieces of its body."""
    check_size(len(text), "an inputted file")
    is_body = not BODY.search(text)
    for piece, mark in pieces_of(text):
        if is_body:
            yield piece, mark
        kind = mark.lastgroup if mark else None
        is_body |= kind == "begin"
        if kind in {"end", "endinput"}:
            return
