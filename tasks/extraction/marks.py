"""Mark elements of a page, so that their Markdown can replace them after the extraction of the main content.

A mark begins with U+FDD0, which is not a character and is first removed from the page. A piece is the Markdown of
an element. Its marks are put before and after the text of the element, so that the extractor judges the element by
its text. If any of the text is in the main content, the piece replaces it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from zyda_flows.tasks.extraction.nesting import Bytes, referenced_characters

SIGN = "\ufdd0"
OPEN, CLOSE, CODE, NO_CODE = f"{SIGN}o", f"{SIGN}c", f"{SIGN}`", f"{SIGN}'"
ESCAPED = re.compile(r"&#(?:x0*fdd0(?![0-9a-f])|0*64976(?![0-9]));?", re.IGNORECASE)
MARK = re.compile(f"{SIGN}([oc])([0-9]+);")
INLINE_CODE = re.compile(f"{CODE}([^{SIGN}]*){NO_CODE}")
LEFT_OVER = re.compile(f"{SIGN}(?:[oc][0-9]+;|n-?[0-9]+;|[`'])?")
BACKTICKS = re.compile("`+")
TAG = re.compile("<[^<>]*>")


@dataclass(frozen=True)
class Piece:
    """Markdown of an element: a block, or part of a line."""

    text: str
    is_block: bool


def without_marks(html: str, data: Bytes) -> str:
    """Return a page in which U+FDD0 and references to it are replaced by U+FFFD. data: the page in UTF-8."""
    if referenced_characters(data)[ord(SIGN)]:
        html = ESCAPED.sub("\ufffd", html)
    return html.replace(SIGN, "\ufffd")


def opening(number: int) -> str:
    return f"{OPEN}{number};"


def closing(number: int) -> str:
    return f"{CLOSE}{number};"


def with_pieces(text: str, put: Callable[[int], str]) -> str:
    """Return a text in which pieces replace the marked elements of which some text is left.

    put: returns the replacement of a piece by its number.
    """
    if OPEN not in text:
        return text
    marks = list(MARK.finditer(text))
    ends = {mark[2]: mark for mark in marks if mark[1] == "c"}
    parts, place = list[str](), 0
    for mark in marks:
        end = ends.get(mark[2])
        if mark[1] == "c" or mark.start() < place or not end or end.start() < mark.end():
            continue
        parts.append(text[place : mark.start()])
        if MARK.sub("", TAG.sub("", text[mark.end() : end.start()])).strip():
            parts.append(put(int(mark[2])))
        place = end.end()
    return "".join([*parts, text[place:]])


def without_line_marks(text: str) -> str:
    """Return a line with its inline code in backticks and without marks."""
    if SIGN not in text:
        return text
    return LEFT_OVER.sub("", INLINE_CODE.sub(in_backticks, MARK.sub("", text)))


def without_left_over(text: str) -> str:
    """Return a text without single marks, which a parser leaves if it divides an element."""
    return LEFT_OVER.sub("", text) if SIGN in text else text


def in_backticks(match: re.Match[str]) -> str:
    code = match[1].strip()
    if not code:
        return match[1]
    if "`" not in code:
        return f"`{code}`"
    fence = "`" * (max(map(len, BACKTICKS.findall(code))) + 1)
    return f"{fence} {code} {fence}"
