"""The LaTeX of an e-print: its main file, with the files that it inputs in their places."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

MAX_INPUTS = 1000
MAX_DEPTH = 20
MAX_LATEX = 1 << 26  # characters, with what is inputted
# What ends a piece of a file or is no part of it; and code and addresses, in which % begins no comment.
TOKEN = re.compile(
    r"\\begin\s*\{(?P<code>verbatim\*?|[BL]?Verbatim|lstlisting|minted|alltt|comment)\}"
    r"|\\(?:verb\*?|lstinline)(?P<mark>[^A-Za-z\s*{\[])[^\n]*?(?P=mark)"
    r"|\\(?:url|path|href)\s*\{[^{}\n]*\}"
    r"|\\(?:input|include|subfile)\s*\{(?P<input>[^{}]+)\}|\\input\s+(?P<bare>[^\s{}\\]+)"
    r"|\\[^A-Za-z]|(?P<comment>%.*)"
)
BEGIN = re.compile(r"\\documentclass|\\documentstyle")
BODY = re.compile(r"\\begin\s*\{document\}")
NAMED_FIRST = ("main", "paper", "article", "ms", "manuscript")


class NoLatex(Exception):
    """There is no LaTeX among the files; the message says what there is."""


class TooLarge(Exception):
    """What is inputted has no end, or is too much."""


def latex_of(files: Mapping[str, bytes]) -> tuple[str, str]:
    """Return the LaTeX of an e-print, with its inputs in their places, and the name of its main file.

    files: by their paths. Raises NoLatex, TooLarge.
    """
    sources = {
        name: text_of(content)
        for name, content in files.items()
        if not PurePosixPath(name).name.startswith("._") and is_latex(name, content)
    }
    if not sources:
        raise NoLatex(kind_of(files))
    main = main_file(sources)
    return "".join(expanded(sources, main)), main


def is_latex(name: str, content: bytes) -> bool:
    """Say whether a file can be LaTeX, by its name; one without an ending by what stands in it."""
    ending = PurePosixPath(name).suffix.lower()
    return ending in (".tex", ".ltx", ".latex") or (ending not in OTHERS and b"\\begin{document}" in content)


OTHERS = {".sty", ".cls", ".bib", ".bst", ".bbl", ".log", ".aux", ".pdf", ".ps", ".eps", ".png", ".jpg"}


def text_of(content: bytes) -> str:
    """Return the text of a file: UTF-8, or else Latin-1, which old ones are in."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def kind_of(files: Mapping[str, bytes]) -> str:
    """Say what an e-print without LaTeX is."""
    if any(content.startswith(b"%PDF") for content in files.values()):
        return "PDF"
    if any(content.startswith(b"%!PS") for content in files.values()):
        return "PostScript"
    if any(name.lower().endswith((".html", ".htm")) for name in files):
        return "HTML"
    if any(b"\\bye" in content or b"\\magnification" in content for content in files.values()):
        return "plain TeX"
    return "no LaTeX" if files else "withdrawn"


def main_file(sources: Mapping[str, str]) -> str:
    """Choose the file that the others are inputted by: with a head and a body, and not inputted itself."""
    inputted = {
        found
        for text in sources.values()
        for _, one in pieces_of(text)
        if one and (found := at_name(sources, one))
    }

    def rank(name: str) -> tuple[bool, bool, bool, bool, int, str]:
        text, stem = sources[name], PurePosixPath(name).stem.lower()
        has_head, has_body = bool(BEGIN.search(text)), bool(BODY.search(text))
        named = stem in NAMED_FIRST
        return not (has_head and has_body), name in inputted, not has_body, not named, -len(text), name

    return min(sources, key=rank)


def at_name(sources: Mapping[str, str], name: str) -> str | None:
    """Return the path of a file that is inputted by a name, with its ending or without."""
    plain = name.strip().strip('"').removeprefix("./")
    return next((path for path in (plain, f"{plain}.tex", f"{plain}.ltx") if path in sources), None)


def expanded(sources: Mapping[str, str], main: str) -> Iterator[str]:
    """Yield the parts of a file with its inputs, without comments. Raises TooLarge.

    An input that is not there is left out, as is one of a file within itself.
    """
    inputs, size = 0, 0
    parts, open_files = [pieces_of(sources[main])], [main]
    while parts:
        piece = next(parts[-1], None)
        if piece is None:
            parts.pop()
            open_files.pop()
            continue
        text, name = piece
        size += len(text)
        if size > MAX_LATEX:
            raise TooLarge(f"with its inputs it has more than {MAX_LATEX:,} characters")
        yield text
        found = at_name(sources, name) if name else None
        if found and found not in open_files:
            inputs += 1
            if inputs > MAX_INPUTS or len(parts) > MAX_DEPTH:
                raise TooLarge(
                    f"it has more than {MAX_INPUTS:,} inputs, or they are nested deeper than {MAX_DEPTH}"
                )
            parts.append(pieces_of(sources[found]))
            open_files.append(found)


def pieces_of(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the parts of a file between its inputs, each with the name of the file that is inputted after it."""
    parts, place, endless = list[str](), 0, set[str]()
    while found := TOKEN.search(text, place):
        parts.append(text[place : found.start()])
        place = found.end()
        if found["input"] or found["bare"]:
            yield "".join(parts), found["input"] or found["bare"]
            parts.clear()
        elif found["code"]:
            end = -1 if found["code"] in endless else text.find(f"\\end{{{found['code']}}}", place)
            if end < 0:  # of a macro, say, and no code
                endless.add(found["code"])
            place = max(end, place)
            parts.append(text[found.start() : place])
        else:
            parts.append("%" if found["comment"] else found[0])
    yield "".join([*parts, text[place:]]), None
