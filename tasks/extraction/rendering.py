"""Write Markdown from the reduced HTML of resiliparse and from the pieces that are marked in it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from zyda_flows.tasks.extraction.code_blocks import fence_code
from zyda_flows.tasks.extraction.marks import (
    SIGN,
    Piece,
    opening,
    with_pieces,
    without_left_over,
    without_line_marks,
)

TOKEN = re.compile(f"(</?(?:h[1-6]|p|[uo]l|li|pre)>|<br>|{SIGN}o[0-9]+;|{SIGN}n-?[0-9]+;)")
MARKDOWN_SIGN = re.compile("#{1,6} |```[^`]*$")  # a heading or a fence, which is escaped in a paragraph
PARAGRAPH, LINE = 2, 1  # line ends before a paragraph and before a line
MAX_INDENT = 80  # spaces before a line of nested lists


def markdown(html: str, pieces: Sequence[Piece]) -> str:
    """Write reduced HTML as Markdown."""
    page = Page(pieces)
    for k, token in enumerate(TOKEN.split(with_pieces(html, opening))):
        if k % 2:
            page.add_mark(token)
        elif token:
            page.add_text(token)
    page.end_line(0)
    return without_left_over("".join(page.written).strip("\n"))


def plain(text: str) -> str:
    if "&" not in text:
        return text
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")


@dataclass
class Page:
    """The Markdown that is written, the current line, and the margin and bullet before it."""

    pieces: Sequence[Piece]
    written: list[str] = field(default_factory=list)
    line: list[str] = field(default_factory=list)
    margin: int = 0
    heading: str = ""
    numbers: list[int] = field(
        default_factory=list
    )  # of the next item of each open list, 0 in unordered lists
    widths: list[int] = field(default_factory=list)  # of the bullets of items
    bullet: str = ""
    code: list[str] | None = None

    def add_mark(self, token: str) -> None:
        if token[:2] == f"{SIGN}n":
            self.set_number(int(token[2:-1]))
        elif token[0] == SIGN:
            self.add_piece(self.pieces[int(token[2:-1])])
        elif token in {"<pre>", "</pre>"}:
            self.add_code(is_end=token[1] == "/")
        elif self.code is None:
            self.add_tag(token)

    def add_piece(self, piece: Piece) -> None:
        if piece.is_block and not "".join(self.code or []).strip():
            self.code = None  # resiliparse opens an empty <pre> between two blocks in a list
        if not piece.is_block or self.code is not None:
            (self.line if self.code is None else self.code).append(piece.text)
            return
        self.end_line(PARAGRAPH)
        for line in piece.text.split("\n"):
            self.write(line, LINE)
        self.margin = PARAGRAPH

    def add_text(self, text: str) -> None:
        text = plain(text)
        if self.code is not None:
            self.code.append(text)
            return
        first, *rest = text.replace("\t\t", "\n").split("\n")
        self.line.append(first)
        for k, line in enumerate(rest):
            if self.line or line:
                self.end_line(LINE)
            is_empty = k + 1 < len(rest) and (not line or line.isspace())
            if is_empty:
                self.margin = PARAGRAPH
            else:
                self.line.append(line)

    def add_code(self, *, is_end: bool) -> None:
        if not is_end:
            self.end_line(PARAGRAPH)
            self.code = []
            return
        code, self.code = "".join(self.code or []), None
        if code.strip():
            self.add_piece(Piece(fence_code(code.strip("\n"), ""), is_block=True))

    def add_tag(self, tag: str) -> None:
        name, is_end = tag.strip("</>"), tag[1] == "/"
        if name == "br":
            self.end_line(LINE)
        elif name == "li":
            self.end_line(LINE)
            self.margin = min(self.margin, LINE)
            self.end_item() if is_end else self.begin_item()
        elif name in {"ul", "ol"}:
            self.end_line(LINE if len(self.numbers) > is_end else PARAGRAPH)
            if not is_end:
                self.numbers.append(int(name == "ol"))
            elif self.numbers:
                self.numbers.pop()
        else:
            self.end_line(PARAGRAPH)
            if name != "p":
                self.heading = "" if is_end else "#" * int(name[1]) + " "

    def begin_item(self) -> None:
        self.bullet = "- "
        if self.numbers and self.numbers[-1]:
            self.bullet = f"{self.numbers[-1]}. "
            self.numbers[-1] += 1
        self.widths.append(len(self.bullet))

    def set_number(self, number: int) -> None:
        """Set the number of the item that begins here."""
        if self.bullet and self.numbers:
            self.bullet, self.numbers[-1] = f"{number}. ", number + 1
            self.widths[-1] = len(self.bullet)

    def end_item(self) -> None:
        self.bullet = ""
        if self.widths:
            self.widths.pop()

    def end_line(self, margin: int) -> None:
        if self.line:
            text = "".join(self.line).strip()
            self.line.clear()
            if text and (text := without_line_marks(text)):
                is_sign = not self.heading and text[0] in "#`" and MARKDOWN_SIGN.match(text)
                self.write(f"\\{text}" if is_sign else self.heading + text, 0)
        if margin > self.margin:
            self.margin = margin

    def write(self, text: str, margin: int) -> None:
        """Write a line after the pending margin, with the pending bullet and the indentation of its item."""
        margin = max(margin, self.margin)
        if self.widths:
            indent = " " * min(MAX_INDENT, sum(self.widths[: -1 if self.bullet else None]))
            text = f"{indent}{self.bullet}{text}" if text else ""
            if self.bullet and self.widths[1:]:
                margin = min(margin, LINE)
        if self.written:
            self.written.append("\n" * margin)
        self.written.append(text)
        self.margin, self.bullet = 0, ""
