"""Pieces of LaTeX as text: paragraphs, formulas, code, and where things end."""

import re
from collections.abc import Iterator

from zyda_flows.tasks.extraction.code_blocks import fenced
from zyda_flows.tasks.extraction.latex_words import QUOTES

SPACES = re.compile(r"[ \t]*\n[ \t]*|[ \t]+")
BLANKS = re.compile(r"[ \t]+")
SPACES_AT_END = re.compile(r"(?<![ \t])[ \t]+\n")
PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
EMPTY_LINE = re.compile(r"\n[ \t]*\n")
LINE_ENDS = re.compile(r"\n{3,}")
INNER_LINE = re.compile(r"\n(?=[^\n])")
ITEM = "\0"
GONE = "\1"  # stands where a command was that is no text, a citation for example
SIGNS = re.compile("[\0\1]")
HOLLOW = re.compile(f" ?(?:\\([ ,;]*{GONE}[ ,;{GONE}]*\\)|\\[[ ,;]*{GONE}[ ,;{GONE}]*\\])")
LEFT_OUT = re.compile(f" ?{GONE}(?: ?(?=[.,;:!?)\n])|(?= )|$)|{GONE}")
OPTIONS = re.compile(r"(?:\s*+\[[^\[\]]*+\])++")
OPTION = re.compile(r"\s*+\[[^\[\]]*+\]")
SPACE = re.compile(r"\s*+")
ENSURED = re.compile(r"\\ensuremath\s*+\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}")
LABEL = re.compile(r"\\(?:label|tag)\s*+\{[^{}]*+\}|\\(?:nonumber|notag)(?![A-Za-z])")
CODE_LANGUAGE = re.compile(
    r"[ \t]*+(?:\[((?:[^\]{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\])?(?:\{([A-Za-z+#]+)\})?[ \t]*\n"
)
LANGUAGE = re.compile(r"language=\{?([A-Za-z+#]+)")


def written(formula: str, *, is_display: bool) -> str:
    """Return a formula as it is written, without labels."""
    inner = (LABEL.sub("", formula) if "\\" in formula else formula).strip()
    if "\\ensuremath" in inner:
        inner = ENSURED.sub(r"\1", inner)
    if not inner:
        return ""
    return f"\n\n$$\n{inner}\n$$\n\n" if is_display else f"${SPACES.sub(' ', inner)}$"


def before_space(latex: str, place: int) -> int:
    """Return the place before the spaces that TeX takes away behind a command: authors mean them as a rule."""
    return place - 1 if latex[place - 1 : place] in (" ", "\t") else place


def joined(pieces: Iterator[str]) -> str:
    """Return pieces as one text, with one space where two meet."""
    parts, is_spaced = list[str](), False
    for piece in pieces:
        if part := piece.lstrip(" ") if is_spaced else piece:
            parts.append(part)
            is_spaced = part[-1] in " \n"
    return "".join(parts)


def without_gone(text: str) -> str:
    """Return a text without the marks of removed commands, and without the spaces and parentheses around them."""
    return LEFT_OUT.sub("", HOLLOW.sub("", text)) if GONE in text else text


def plain(text: str) -> str:
    """Return text between commands: a line end is a space, but for blank lines."""
    if "\n" in text:
        if PARAGRAPH.search(text):
            text = "\n\n".join([SPACES.sub(" ", paragraph) for paragraph in PARAGRAPH.split(text)])
        else:
            text = text.replace("\n", " ")
    for mark, pairs in QUOTES.items():
        if mark in text:
            for old, new in pairs:
                text = text.replace(old, new)
    return BLANKS.sub(" ", text) if "  " in text or "\t" in text else text


def end_of_formula(latex: str, mark: str, place: int) -> int | None:
    """Return where a formula ends that opens with dollars; None where it does not, or a paragraph ends before."""
    while (end := latex.find(mark, place)) >= 0:
        if latex[end - 1] != "\\" or latex[end - 2] == "\\":
            return None if EMPTY_LINE.search(latex, place, end) else end
        place = end + 1
    return None


def end_of_environment(latex: str, name: str, place: int) -> tuple[int, int]:
    """Return the end of the content of an environment, and of the environment, which may contain its like."""
    begin, end, depth, search = f"\\begin{{{name}}}", f"\\end{{{name}}}", 1, place
    while (match := latex.find(end, search)) >= 0:
        depth += latex.count(begin, search, match) - 1
        search = match + len(end)
        if depth == 0:
            return match, search
    return len(latex), len(latex)


def past_options(latex: str, place: int) -> int:
    """Return the place behind optional arguments."""
    match = OPTIONS.match(latex, place)
    return match.end() if match else place


def code(inside: str) -> str:
    """Return code between fences, with the language that its options name."""
    match = CODE_LANGUAGE.match(inside)
    named = LANGUAGE.search(match[1] or "") if match else None
    language = (named[1] if named else (match[2] or "") if match else "").lower()
    start = inside.find("\n") + 1 if match and not match[1] else match.end() if match else 0
    return f"\n\n{fenced(inside[start:].strip(chr(10)), language)}\n\n"
