"""Write pieces of LaTeX as text (paragraphs, formulas, code), and find the ends of formulas and environments."""

import re
from collections.abc import Iterator

from zyda_flows.tasks.extraction.code_blocks import fence_code
from zyda_flows.tasks.extraction.latex_words import QUOTES

SPACES = re.compile(r"[ \t]*\n[ \t]*|[ \t]+")
BLANKS = re.compile(r"[ \t]+")
SPACES_AT_END = re.compile(r"(?<![ \t])[ \t]+\n")
PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
EMPTY_LINE = re.compile(r"\n[ \t]*\n")
LINE_ENDS = re.compile(r"\n{3,}")
INNER_LINE = re.compile(r"\n(?=[^\n])")
ITEM = "\0"  # marks the beginning of an item of a list
REMOVED = "\1"  # marks the position of a removed command, a citation for example
MARKS = re.compile("[\0\1]")
REMOVED_IN_BRACKETS = re.compile(
    f" ?(?:\\([ ,;]*{REMOVED}[ ,;{REMOVED}]*\\)|\\[[ ,;]*{REMOVED}[ ,;{REMOVED}]*\\])"
)
REMOVED_WITH_SPACE = re.compile(f" ?{REMOVED}(?: ?(?=[.,;:!?)\n])|(?= )|$)|{REMOVED}")
OPTIONS = re.compile(r"(?:\s*+\[[^\[\]]*+\])++")
OPTION = re.compile(r"\s*+\[[^\[\]]*+\]")
SPACE = re.compile(r"\s*+")
ENSURED = re.compile(r"\\ensuremath\s*+\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}")
LABEL = re.compile(r"\\(?:label|tag)\s*+\{[^{}]*+\}|\\(?:nonumber|notag)(?![A-Za-z])")
CODE_LANGUAGE = re.compile(
    r"[ \t]*+(?:\[((?:[^\]{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\])?(?:\{([A-Za-z+#]+)\})?[ \t]*\n"
)
LANGUAGE = re.compile(r"language=\{?([A-Za-z+#]+)")


def markdown_formula(formula: str, *, is_display: bool) -> str:
    """Return a formula between dollars, without labels; "" for an empty formula."""
    inner = (LABEL.sub("", formula) if "\\" in formula else formula).strip()
    if "\\ensuremath" in inner:
        inner = ENSURED.sub(r"\1", inner)
    if not inner:
        return ""
    return f"\n\n$$\n{inner}\n$$\n\n" if is_display else f"${SPACES.sub(' ', inner)}$"


def restore_space(latex: str, position: int) -> int:
    """Return the position before the space that TeX removes after a command, because authors usually mean it."""
    return position - 1 if latex[position - 1 : position] in (" ", "\t") else position


def join_pieces(pieces: Iterator[str]) -> str:
    """Join pieces of text. Spaces at the end of a piece and at the beginning of the next become one space."""
    parts, is_spaced = list[str](), False
    for piece in pieces:
        if part := piece.lstrip(" ") if is_spaced else piece:
            parts.append(part)
            is_spaced = part[-1] in " \n"
    return "".join(parts)


def without_removed(text: str) -> str:
    """Remove the marks of removed commands, with the spaces and parentheses around them."""
    if REMOVED not in text:
        return text
    return REMOVED_WITH_SPACE.sub("", REMOVED_IN_BRACKETS.sub("", text))


def plain_text(text: str) -> str:
    """Return the text between commands, with ligatures as characters and with spaces for single line ends."""
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


def end_of_formula(latex: str, mark: str, position: int) -> int | None:
    """Return where a formula between dollars ends; None if the dollars or the paragraph end before it does."""
    while (end := latex.find(mark, position)) >= 0:
        if latex[end - 1] != "\\" or latex[end - 2] == "\\":
            return None if EMPTY_LINE.search(latex, position, end) else end
        position = end + 1
    return None


def end_of_environment(latex: str, name: str, position: int) -> tuple[int, int]:
    """Return where the content of an environment ends, and where the environment ends.

    The environment may contain environments of the same name. An environment without an end extends to the end of
    the LaTeX.
    """
    begin, end, depth, search = f"\\begin{{{name}}}", f"\\end{{{name}}}", 1, position
    while (start_of_end := latex.find(end, search)) >= 0:
        depth += latex.count(begin, search, start_of_end) - 1
        search = start_of_end + len(end)
        if depth == 0:
            return start_of_end, search
    return len(latex), len(latex)


def skip_options(latex: str, position: int) -> int:
    """Return the position after optional arguments."""
    match = OPTIONS.match(latex, position)
    return match.end() if match else position


def fenced_code(inside: str) -> str:
    """Return the code of an environment between fences, with the language that the options name."""
    match = CODE_LANGUAGE.match(inside)
    named = LANGUAGE.search(match[1] or "") if match else None
    language = (named[1] if named else (match[2] or "") if match else "").lower()
    start = inside.find("\n") + 1 if match and not match[1] else match.end() if match else 0
    return f"\n\n{fence_code(inside[start:].strip(chr(10)), language)}\n\n"
