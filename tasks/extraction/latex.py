"""The text of LaTeX as Markdown: sections, paragraphs, lists, tables, code; formulas stay as they are written.

The preamble but for the title, comments, labels, citations and the bibliography are removed. The author's
macros are put in their places, in formulas, too. pylatexenc, which parses LaTeX well, does 0.1 MB/s and loses these
macros; this is one pass that expands macros, and one over the tokens of a regular expression.
"""

import re
from collections.abc import Callable, Iterator

from zyda_flows.tasks.extraction.latex_definitions import Expanded
from zyda_flows.tasks.extraction.latex_environments import Environments
from zyda_flows.tasks.extraction.latex_expansion import Expander
from zyda_flows.tasks.extraction.latex_letters import accented, shorthands_of
from zyda_flows.tasks.extraction.latex_reader import group_at
from zyda_flows.tasks.extraction.latex_source import without_comments
from zyda_flows.tasks.extraction.latex_text import (
    ITEM,
    LINE_ENDS,
    SIGNS,
    SPACES_AT_END,
    end_of_formula,
    joined,
    past_options,
    plain,
    without_gone,
    written,
)
from zyda_flows.tasks.extraction.latex_words import ACCENTS, STATEMENTS, SYMBOLS
from zyda_flows.tasks.extraction.nesting import Bytes
from zyda_flows.tasks.limits import limits

TOKEN = re.compile(
    r"\\begin\s*+\{(?P<begin>[^{}\n]*+)\}|\\end\s*+\{(?P<end>[^{}\n]*+)\}"
    r"|\\(?P<command>[A-Za-z@]++)\*?[ \t]*+|\\(?P<symbol>[^A-Za-z@])"
    r"|(?P<math>\$\$?)",
    re.DOTALL,
)
QUOTED_TOKEN = re.compile(TOKEN.pattern + r"|(?P<quote>\"(?:---|--[~*]|[`'<>=~|/\"a-zA-Z-]))", re.DOTALL)
TITLE = re.compile(r"\\title\s*+(?:\[[^\[\]]*+\]\s*+)?+(?=\{)")
ABSTRACT = re.compile(r"\\begin\{abstract\}(.*?)(?:\\end\{abstract\}|\Z)|\\abstract\s*+(?=\{)", re.DOTALL)
Method = Callable[[str, str, int, int], tuple[int, str]]


def latex_article(source: Bytes) -> str:
    """Return the text of a source in UTF-8."""
    return text_of_latex(str(source.data, "utf-8"))


def text_of_latex(latex: str) -> str:
    """Return the text of a document, or of a part of one, as Markdown.

    Raises ValueError if it is nested too deep, if its braces and environments do not close, or if its macros or
    tables are too large.
    """
    try:
        found = Expander(without_comments(SIGNS.sub("", latex))).expanded()
        return Writer(found, len(latex)).text(front(found.preamble, found.body) + found.body)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def front(preamble: str, body: str) -> str:
    """Return the title and the abstract, if the preamble has them."""
    title, abstract = TITLE.search(preamble), ABSTRACT.search(preamble)
    heading = group_at(preamble, title.end()) if title else None
    summary = (abstract[1] or group_at(preamble, abstract.end())) if abstract else None
    shown = f"\\title{{{heading}}}\n\n" if heading and not TITLE.search(body) else ""
    return f"{shown}{summary}\n\n" if summary else shown


class Writer(Environments):
    """Writes the Markdown of LaTeX in which the author's macros are in their places."""

    def __init__(self, document: Expanded, size: int) -> None:
        super().__init__("", 10 * size + 1_000_000)
        self.statements = STATEMENTS | document.statements
        self.units = document.units
        self.cells = limits().latex_cells
        self.in_cells = 0  # tables that are being written
        self.shorthands = shorthands_of(document.preamble)
        self.token = QUOTED_TOKEN if self.shorthands else TOKEN
        self.depth = limits().latex_depth
        self.methods: dict[str, Method] = {
            "command": self.command, "math": self.formula, "begin": self.environment, "symbol": self.symbol,
        }  # fmt: skip

    def text(self, latex: str) -> str:
        written = joined(self.pieces(latex, 0)).replace(ITEM, "\n- ")  # of lists by other names
        text = LINE_ENDS.sub("\n\n", SPACES_AT_END.sub("\n", without_gone(written))).strip()
        return f"{text}\n" if text else ""

    def pieces(self, latex: str, depth: int) -> Iterator[str]:
        """Yield the Markdown of some LaTeX, piece by piece."""
        if depth > self.depth:
            raise ValueError(f"it is nested deeper than {self.depth}")
        place, search = 0, self.token.search
        while found := search(latex, place):
            start, kind = found.start(), found.lastgroup or ""
            if place < start and (text := plain(latex[place:start])):
                yield text
            place = found.end()
            if kind == "end":
                yield "\n\n"
            elif kind == "quote":
                yield self.shorthands.get(found["quote"], found["quote"])
            else:
                place, text = self.methods[kind](latex, found[kind], place, depth)
                if text:
                    yield text
        yield plain(latex[place:])

    def inner(self, latex: str, depth: int) -> str:
        return joined(self.pieces(latex, depth + 1))

    def symbol(self, latex: str, symbol: str, place: int, depth: int) -> tuple[int, str]:
        if symbol in "([":
            end = latex.find("\\)" if symbol == "(" else "\\]", place)
            end = len(latex) if end < 0 else end
            return end + 2, written(latex[place:end], is_display=symbol == "[")
        if symbol == "\\":
            return past_options(latex, place + (latex[place : place + 1] == "*")), "\n"
        if symbol in ACCENTS:
            return accented(latex, place, ACCENTS[symbol])
        return place, SYMBOLS.get(symbol, symbol if symbol not in ")]" else "")

    def formula(self, latex: str, mark: str, place: int, depth: int) -> tuple[int, str]:
        """Return a formula between dollars, as it is written."""
        end = end_of_formula(latex, mark, place)
        if end is None:
            return place, mark
        return end + len(mark), written(latex[place:end], is_display=mark == "$$")
