"""Extract the text of LaTeX as Markdown: sections, paragraphs, lists, tables, code, and formulas in LaTeX.

Comments, labels, citations, the bibliography and the preamble except for its title are removed. The author's macros
are expanded, also in formulas. A first pass expands macros; a second pass writes the tokens that a regular
expression finds. The parser pylatexenc reads 0.1 MB/s and does not expand macros.
"""

import re
from collections.abc import Callable, Iterator

from zyda_flows.tasks.extraction.latex_definitions import ExpandedDocument
from zyda_flows.tasks.extraction.latex_environments import Environments
from zyda_flows.tasks.extraction.latex_expansion import Expander
from zyda_flows.tasks.extraction.latex_letters import accented, shorthands_of
from zyda_flows.tasks.extraction.latex_reader import group_at
from zyda_flows.tasks.extraction.latex_source import without_comments
from zyda_flows.tasks.extraction.latex_text import (
    ITEM,
    LINE_ENDS,
    MARKS,
    SPACES_AT_END,
    end_of_formula,
    join_pieces,
    markdown_formula,
    plain_text,
    skip_options,
    without_removed,
)
from zyda_flows.tasks.extraction.latex_words import ACCENTS, SYMBOLS, THEOREM_TITLES
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
    """Return the text of LaTeX in UTF-8."""
    return text_of_latex(str(source.data, "utf-8"))


def text_of_latex(latex: str) -> str:
    """Return the text of a document, or of a part of a document, as Markdown.

    Raises:
        ValueError: the document is nested too deep, too many braces or environments do not close, or the macros
            or tables are too large.
    """
    try:
        document = Expander(without_comments(MARKS.sub("", latex))).expanded()
        front = front_matter(document.preamble, document.body)
        return LatexWriter(document, len(latex)).text(front + document.body)
    except RecursionError as error:
        raise ValueError("the document is nested too deep") from error


def front_matter(preamble: str, body: str) -> str:
    """Return the LaTeX of the title and the abstract in a preamble, without a title that the body repeats."""
    title, abstract = TITLE.search(preamble), ABSTRACT.search(preamble)
    heading = group_at(preamble, title.end()) if title else None
    summary = (abstract[1] or group_at(preamble, abstract.end())) if abstract else None
    front = f"\\title{{{heading}}}\n\n" if heading and not TITLE.search(body) else ""
    return f"{front}{summary}\n\n" if summary else front


class LatexWriter(Environments):
    """Writes LaTeX with expanded macros as Markdown."""

    def __init__(self, document: ExpandedDocument, size: int) -> None:
        super().__init__("", 10 * size + 1_000_000)
        self.theorem_titles = THEOREM_TITLES | document.theorem_titles
        self.units = document.units
        self.cells_left = limits().latex_cells
        self.shorthands = shorthands_of(document.preamble)
        self.token = QUOTED_TOKEN if self.shorthands else TOKEN
        self.depth = limits().latex_depth
        self.methods: dict[str, Method] = {
            "command": self.command, "math": self.formula, "begin": self.environment, "symbol": self.symbol,
        }  # fmt: skip

    def text(self, latex: str) -> str:
        """Return the Markdown of a document."""
        # Marks of items that are left belong to environments that are not known as lists.
        markdown = join_pieces(self.pieces(latex, depth=0)).replace(ITEM, "\n- ")
        text = LINE_ENDS.sub("\n\n", SPACES_AT_END.sub("\n", without_removed(markdown))).strip()
        return f"{text}\n" if text else ""

    def pieces(self, latex: str, depth: int) -> Iterator[str]:
        """Yield the Markdown of LaTeX piece by piece. Raises ValueError if it is nested too deep."""
        if depth > self.depth:
            raise ValueError(f"the document is nested deeper than {self.depth} levels")
        position, search = 0, self.token.search
        while token := search(latex, position):
            start, kind = token.start(), token.lastgroup or ""
            if position < start and (text := plain_text(latex[position:start])):
                yield text
            position = token.end()
            if kind == "end":
                yield "\n\n"
            elif kind == "quote":
                yield self.shorthands.get(token["quote"], token["quote"])
            else:
                position, text = self.methods[kind](latex, token[kind], position, depth)
                if text:
                    yield text
        yield plain_text(latex[position:])

    def inner(self, latex: str, depth: int) -> str:
        return join_pieces(self.pieces(latex, depth + 1))

    def symbol(self, latex: str, symbol: str, position: int, depth: int) -> tuple[int, str]:
        if symbol in "([":
            end = latex.find("\\)" if symbol == "(" else "\\]", position)
            end = len(latex) if end < 0 else end
            return end + 2, markdown_formula(latex[position:end], is_display=symbol == "[")
        if symbol == "\\":
            return skip_options(latex, position + (latex[position : position + 1] == "*")), "\n"
        if symbol in ACCENTS:
            return accented(latex, position, ACCENTS[symbol])
        return position, SYMBOLS.get(symbol, symbol if symbol not in ")]" else "")

    def formula(self, latex: str, mark: str, position: int, depth: int) -> tuple[int, str]:
        """Return where a formula between dollars ends, and its Markdown; only the dollars if it does not end."""
        end = end_of_formula(latex, mark, position)
        if end is None:
            return position, mark
        return end + len(mark), markdown_formula(latex[position:end], is_display=mark == "$$")
