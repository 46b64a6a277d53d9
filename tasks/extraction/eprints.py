"""The LaTeX of an e-print: its main file, with the files that it inputs in their places."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from posixpath import join, normpath
from typing import Any, cast

from yaml import YAMLError, safe_load

from zyda_flows.tasks.extraction.eprint_kinds import BODY, IGNORED, is_plain_tex, kind_of, kind_of_content
from zyda_flows.tasks.extraction.inputenc import declared_encoding, text_in_utf8, text_of
from zyda_flows.tasks.extraction.latex_source import pieces_of
from zyda_flows.tasks.limits import limits

HEAD = re.compile(r"\\document(?:class|style)")
PART = re.compile(r"\\documentclass\s*+(?:\[[^\[\]]*+\])?\s*+\{(?:standalone|subfiles|letter)\}")
NAMED_FIRST = ("main", "paper", "article", "ms", "manuscript")
OTHERS = {
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
    """There is no LaTeX among the files; the message names their kind."""


class TooLarge(Exception):
    """The e-print or its inputs are too large."""


def latex_of(files: Mapping[str, bytes]) -> tuple[str, str]:
    """Return the LaTeX of an e-print, with its inputs in their places, and the name of its main file.

    files: by their paths. Raises NoLatex, TooLarge.
    """
    contents = {name: content for name, content in files.items() if is_source(name, content)}
    texts = {name: text_in_utf8(content) for name, content in contents.items()}
    heads = {
        name: texts[name] or content.decode("latin-1")
        for name, content in contents.items()
        if is_latex(name, content)
    }
    if not heads or is_plain_tex(heads.values()):
        raise NoLatex(kind_of(files, has_tex=bool(heads)))
    main = main_file(heads, files)
    if None in texts.values():
        encoding = declared_encoding("".join(text for text, _ in pieces_of(heads[main], keeps_percent=False)))
        texts |= {name: text_of(contents[name], encoding) for name, text in texts.items() if text is None}
    return "".join(expanded(cast(dict[str, str], texts), main)), main


def is_source(name: str, content: bytes) -> bool:
    """Return whether a file can be inputted: it is text, and no style or bibliography."""
    path = PurePosixPath(name)
    return (
        not path.name.startswith("._") and path.suffix.lower() not in OTHERS and not kind_of_content(content)
    )


def is_latex(name: str, content: bytes) -> bool:
    """Return whether a source can be the main file: by its name, or by its content."""
    is_named = PurePosixPath(name).suffix.lower() in SOURCES
    return (is_named or b"\\begin{document}" in content) and not IGNORED.match(content)


def main_file(heads: Mapping[str, str], files: Mapping[str, bytes]) -> str:
    """Return the file that 00README names, or else the file that inputs the others."""
    named, ignored = listed(files)
    if chosen := next((name for name in named if name in heads), None):
        return chosen
    candidates = [name for name, text in heads.items() if name not in ignored and BODY.search(text)]
    if len(candidates) == 1 and HEAD.search(heads[candidates[0]]):
        return candidates[0]
    inputted = {
        path
        for name, text in heads.items()
        for folder, one in inputs_of(text)
        if (path := at_name(heads, folder, one)) and path != name
    }

    def rank(name: str) -> tuple[Any, ...]:
        text, path = heads[name], PurePosixPath(name)
        has_body, is_whole = bool(BODY.search(text)), not PART.search(text)
        return (
            name in ignored,
            not (has_body and HEAD.search(text) and is_whole),
            name in inputted,
            not has_body,
            len(path.parts),
            str(path.with_suffix(".bbl")) not in files,
            path.stem.lower() not in NAMED_FIRST,
            -len(text),
            name,
        )

    return min(heads, key=rank)


def listed(files: Mapping[str, bytes]) -> tuple[list[str], set[str]]:
    """Return the main files and the ignored files that an e-print's 00README declares."""
    rows = [row for name, content in files.items() if README.match(name) for row in rows_of(name, content)]
    return [name for name, use in rows if use in {"toplevelfile", "toplevel"}], {
        name for name, use in rows if use == "ignore"
    }


def rows_of(name: str, content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the files that a 00README names, each with its use."""
    if len(content) > limits().eprint_readme_bytes:
        return
    text = text_of(content)
    if name.lower().endswith((".xxx", ".txt")) or "." not in name:
        yield from ((found[1], found[2].lower()) for found in README_LINE.finditer(text))
        return
    try:
        rows = safe_load(text)["sources"]
    except (YAMLError, RecursionError, TypeError, KeyError, ValueError):
        return
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            yield str(row.get("filename")), str(row.get("usage", "toplevel")).lower()


def at_name(sources: Mapping[str, str], folder: str, name: str) -> str | None:
    """Return the path of a file that is inputted from a folder by a name, with its ending or without."""
    plain = name.strip().strip('"')
    paths = (normpath(join(one, plain)) for one in ((folder, "") if folder else ("",)))
    return next(
        (f"{path}{end}" for path in paths for end in ("", *SOURCES) if f"{path}{end}" in sources), None
    )


def inputs_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the folder and the name of each file that a source inputs."""
    for _, found in pieces_of(text):
        if found and (name := found["input"] or found["imported"] or found["bare"]):
            yield found["folder"] or "", name


def expanded(sources: Mapping[str, str], main: str) -> Iterator[str]:
    """Yield the parts of a file with its inputs, without comments. Raises TooLarge.

    An input that is missing is left out, as is one of a file within itself. Of an input that is a document of its
    own, the body is taken.
    """
    inputs, size, bounds = 0, 0, limits()
    open_files = [(main, str(PurePosixPath(main).parent), parts_of(sources[main], is_main=True))]
    while open_files:
        _, folder, parts = open_files[-1]
        piece = next(parts, None)
        if piece is None:
            open_files.pop()
            continue
        text, found = piece
        size += len(text)
        if size > bounds.eprint_characters:
            raise TooLarge(f"with its inputs it has more than {bounds.eprint_characters:,} characters")
        yield text
        name = found and (found["input"] or found["imported"] or found["bare"])
        if not found or not name:
            continue
        if found["import"]:
            folder = normpath(join(folder if found["import"].startswith("sub") else "", found["folder"]))
        path = at_name(sources, folder, name)
        if path and all(path != one for one, _, _ in open_files):
            inputs += 1
            if inputs > bounds.eprint_inputs or len(open_files) > bounds.eprint_input_depth:
                raise TooLarge(
                    f"it has more than {bounds.eprint_inputs:,} inputs, or they are nested deeper than"
                    f" {bounds.eprint_input_depth}"
                )
            open_files.append((path, folder, parts_of(sources[path], is_main=False)))


def parts_of(text: str, *, is_main: bool) -> Iterator[tuple[str, re.Match[str] | None]]:
    r"""Yield the parts of a file between its inputs; of an input the parts inside its document."""
    if len(text) > limits().eprint_characters:
        raise TooLarge(f"a file of it has more than {limits().eprint_characters:,} characters")
    is_body = is_main or not BODY.search(text)
    for piece, found in pieces_of(text):
        mark = found.lastgroup if found else None
        if is_main and found and mark in {"begin", "end"}:
            yield piece + found[0], None
        elif is_body:
            yield piece, found
        is_body |= mark == "begin"
        if mark == "endinput" or (mark == "end" and not is_main):
            return
