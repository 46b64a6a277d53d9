"""The text of LaTeX as Markdown: sections, paragraphs, lists, tables, code; formulas stay as they are written.

The preamble but for the title, comments, labels, citations and the bibliography are removed. Macros of the author's
are put in their places, in formulas, too. pylatexenc, which parses LaTeX well, does 0.1 MB/s and loses these macros;
this is a pass that expands macros, and one over the tokens of a regular expression.
"""

import re
from collections.abc import Callable, Iterator

from tasks.extraction.code_blocks import fenced
from tasks.extraction.latex_algorithms import Algorithm
from tasks.extraction.latex_expansion import Expanded, Expander
from tasks.extraction.latex_letters import accented, greek, shorthands_of
from tasks.extraction.latex_reader import Reader, group_at
from tasks.extraction.latex_source import without_comments
from tasks.extraction.latex_tables import DATA, cells_of, table_of
from tasks.extraction.latex_units import COMMANDS as QUANTITIES
from tasks.extraction.latex_units import quantity
from tasks.extraction.latex_words import (
    ACCENT_WORDS,
    ACCENTS,
    ARGUMENTS,
    CODE,
    DROPPED,
    HEADINGS,
    LETTERS,
    LISTS,
    MATH,
    OF_ENVIRONMENTS,
    QUOTES,
    STATEMENTS,
    SYMBOLS,
    TABULARS,
    WORDS,
)
from tasks.limits import limits

TOKEN = re.compile(
    r"\\begin\s*+\{(?P<begin>[^{}\n]*+)\}|\\end\s*+\{(?P<end>[^{}\n]*+)\}"
    r"|\\(?P<command>[A-Za-z@]++)\*?[ \t]*+|\\(?P<symbol>[^A-Za-z@])"
    r"|(?P<math>\$\$?)",
    re.DOTALL,
)
QUOTED_TOKEN = re.compile(TOKEN.pattern + r"|(?P<quote>\"(?:-{2,3}[~*]?|[`'<>=~|/\"a-zA-Z-]))", re.DOTALL)
TITLE = re.compile(r"\\title\s*+(?:\[[^\[\]]*+\]\s*+)?+(?=\{)")
ABSTRACT = re.compile(r"\\begin\{abstract\}(.*?)(?:\\end\{abstract\}|\Z)|\\abstract\s*+(?=\{)", re.DOTALL)
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
OPTIONS = re.compile(r"(?:\s*+\[[^\[\]]*+\])+")
OPTION = re.compile(r"\s*+\[[^\[\]]*+\]")
SPACE = re.compile(r"\s*+")
LABEL = re.compile(r"\\(?:label|tag)\s*+\{[^{}]*+\}|\\(?:nonumber|notag)(?![A-Za-z])")
# Lengths behind commands of TeX that set them or leave space: \vskip 1cm, \parindent=0pt.
LENGTH = re.compile(
    r"\s*+=?\s*+[-+]?\s*+(?:[0-9.]+\s*+(?:true)?(?:pt|em|ex|cm|mm|in|bp|pc|sp|dd|cc|mu|fil+)\b"
    r"|[0-9.]*+\\(?:baselineskip|[a-z]*(?:width|height|sep|skip|indent))\b)"
    r"(?:\s*+(?:plus|minus)\s*+[-0-9.]+\s*+(?:pt|em|ex|cm|mm|in|fil+)\b)*+"
)
LENGTHS = re.compile(
    r"(?:.*(?:skip|indent|width|height|sep|margin|size|depth|penalty)|[hvm]?kern|[hv]skip)\Z"
)
CODE_LANGUAGE = re.compile(r"[ \t]*+(?:\[([^\]]{0,2000})\])?(?:\{([A-Za-z+#]+)\})?[ \t]*\n")
LANGUAGE = re.compile(r"language=\{?([A-Za-z+#]+)")
WIDE = {"tabularx", "tabulary", "tabular*", "xltabular"}  # tables whose width is given
ALIGNED = {*MATH} - {"equation", "displaymath", "math", "dmath"}  # formulas whose environment is kept
WHOLE = {*MATH, *CODE, *TABULARS, *LISTS, *DROPPED, "algorithmic"}  # environments that are taken as one
POWER = re.compile(r"[-+\u2212]?[0-9]{1,3}")
MAX_INLINE = 1000  # characters of inline code


def text_of_latex(latex: str) -> str:
    """Return the text of a document, or of a part of one, as Markdown.

    Raises ValueError where it is nested too deep, what begins in it does not end, or its macros or tables grow too
    large.
    """
    found = Expander(without_comments(SIGNS.sub("", latex))).expanded()
    return Writer(found, len(latex)).text(front(found.preamble, found.body) + found.body)


def front(preamble: str, body: str) -> str:
    """Return the title and the abstract, if the preamble has them."""
    title, abstract = TITLE.search(preamble), ABSTRACT.search(preamble)
    heading = group_at(preamble, title.end()) if title else None
    summary = (abstract[1] or group_at(preamble, abstract.end())) if abstract else None
    shown = f"\\title{{{heading}}}\n\n" if heading and "\\title" not in body else ""
    return f"{shown}{summary}\n\n" if summary else shown


Method = Callable[[str, str, int, int], tuple[int, str]]


class Writer(Reader):
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
        self.methods: dict[str | None, Method] = {
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
            start, kind = found.start(), found.lastgroup
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

    def braces(self, latex: str, place: int) -> tuple[int, str] | None:
        """Return where braces that may open at a place end, and what stands in them; None where there are none."""
        start = SPACE.match(latex, place).end()  # type: ignore[union-attr]
        inside = group_at(latex, start)
        if inside is None:
            self.spend(len(latex) - start if latex[start : start + 1] == "{" else 0)
            return None
        self.spend(len(inside))
        return start + len(inside) + 2, inside

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

    def command(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return where a command with its arguments ends, and its text."""
        if name in LETTERS:
            return place, LETTERS[name]
        if name in WORDS:
            return before_space(latex, place), WORDS[name]
        if name in ACCENT_WORDS:
            return accented(latex, place, ACCENT_WORDS[name])
        if method := COMMANDS.get(name):
            return method(self, latex, name, place, depth)
        if name in ARGUMENTS or "cite" in name:
            return self.skipped(latex, place, ARGUMENTS.get(name, 1)), GONE
        if found := LENGTHS.match(name) and LENGTH.match(latex, place):
            return found.end(), " "
        return past_options(latex, place), ""

    def heading(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        place, text = self.argument_text(latex, past_options(latex, place), depth)
        mark = HEADINGS[name]
        return place, f"\n\n{mark}{SPACES.sub(' ', text).strip()}\n\n" if text.strip() else ""

    def item(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        option = OPTION.match(latex, place)
        words = self.inner(option[0].strip()[1:-1], depth) if option else ""
        return (option.end() if option else place), f"{ITEM}{words}{': ' if words else ''}"

    def inline_code(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        place = place if name == "verb" else past_options(latex, place)
        if name == "mintinline":
            place = self.skipped(latex, place, 1)
        if name != "verb" and (group := self.braces(latex, place)):
            return group[0], f"`{group[1]}`"
        end = latex.find(latex[place], place + 1, place + MAX_INLINE) if place < len(latex) else -1
        return (end + 1, f"`{latex[place + 1 : end]}`") if end >= 0 else (place, "")

    def address(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        return self.braces(latex, place) or (place, "")

    def footnote(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        place, text = self.argument_text(latex, past_options(latex, place), depth)
        return place, f" ({text.strip()})"

    def caption(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        return past_options(latex, place), "\n\n"

    def first(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        r"""Return the first of two arguments, of \texorpdfstring for example."""
        place, text = self.argument_text(latex, place, depth)
        return self.skipped(latex, place, 1), text

    def initial(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        r"""Return the arguments of \IEEEPARstart and \lettrine, which are one word."""
        place, text = self.argument_text(latex, past_options(latex, place), depth)
        place, rest = self.argument_text(latex, place, depth)
        return place, text.strip() + rest.strip()

    def formula_in_text(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        place, inside = self.braces(latex, place) or (place, "")
        return place, written(inside, is_display=False)

    def power(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return what is set high, with a sign where it would be another number: 10^6."""
        before = latex[: place - len(name) - 1][-1:]
        place, text = self.argument_text(latex, place, depth)
        return place, f"^{text}" if POWER.fullmatch(text) and (before.isdigit() or before == ")") else text

    def greek(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        place, text = self.argument_text(latex, place, depth)
        return place, greek(text)

    def quantity(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        arguments = list[str]()
        place = past_options(latex, place)
        for _ in QUANTITIES[name]:
            group = self.braces(latex, past_options(latex, place))
            if group is None:
                return place, "".join(arguments)
            place = group[0]
            arguments.append(group[1])
        return place, quantity(name, arguments, self.units)

    def argument_text(self, latex: str, place: int, depth: int) -> tuple[int, str]:
        """Return where an argument in braces ends, and its text."""
        group = self.braces(latex, place)
        return (place, "") if group is None else (group[0], self.inner(group[1], depth))

    def skipped(self, latex: str, place: int, arguments: int) -> int:
        """Return the place behind so many arguments in braces, with the options before them."""
        for _ in range(arguments):
            group = self.braces(latex, past_options(latex, place))
            if group is None:
                return place
            place = group[0]
        return place

    def environment(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return where an environment ends, and its text."""
        bare = name.rstrip("*")
        is_algorithm = bare in {"algorithm", "algorithm2e", "procedure", "function"}
        if bare not in WHOLE and not is_algorithm:
            return self.begun(latex, bare, place, depth)
        end, after = end_of_environment(latex, name, place)
        inside = latex[place:end]
        self.spend(len(inside))
        if bare in CODE:
            return after, code(inside)
        if bare in MATH:
            kept = f"\\begin{{{name}}}{inside}\\end{{{name}}}" if bare in ALIGNED else inside
            return after, written(kept, is_display=bare != "math")
        if bare in DROPPED:
            return after, ""
        if is_algorithm or bare == "algorithmic":
            has_blocks = is_algorithm and "\\begin{algorithmic" not in inside
            return after, self.algorithm(inside, depth, has_blocks=has_blocks, is_inner=not is_algorithm)
        if bare in TABULARS:
            return after, self.table(inside, name, depth)
        return after, self.items(inside, LISTS[bare], depth)

    def begun(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return where the text of an environment begins, and what comes before it: a theorem's kind and name."""
        option = OPTION.match(latex, place)
        place = self.skipped(latex, past_options(latex, place), OF_ENVIRONMENTS.get(name, 0))
        if name not in self.statements:
            return place, "\n\n"
        title = self.inner(self.statements[name], depth)
        said = self.inner(option[0].strip()[1:-1], depth) if option else ""
        return place, f"\n\n{title}{f' ({said})' if said else ''}. "

    def algorithm(self, inside: str, depth: int, *, has_blocks: bool, is_inner: bool) -> str:
        """Return an algorithm with a line for each statement."""
        inside = inside[past_options(inside, 0) :]
        if not has_blocks and not is_inner:
            return f"\n\n{self.inner(inside, depth)}\n\n"
        lines = self.inner(Algorithm(inside, self.budget, has_blocks=has_blocks).lines(), depth).split("\n")
        return "\n\n" + "\n".join(line.strip() for line in lines if line.strip()) + "\n\n"

    def items(self, inside: str, mark: str, depth: int) -> str:
        """Return a list, whose items are indented below their marks."""
        parts = self.inner(inside, depth).split(ITEM)[1:]
        lines = [INNER_LINE.sub("\n  ", LINE_ENDS.sub("\n\n", part.strip())) for part in parts]
        return "\n\n" + "\n".join(f"{mark}{line}" for line in lines) + "\n\n"

    def table(self, inside: str, name: str, depth: int) -> str:
        """Return a table of Markdown, whose first row is its head; in a cell of another, its words."""
        rows = inside[self.skipped(inside, 0, 2 if name in WIDE else 1) :]
        before = after = ""
        if name.startswith("deluxetable"):
            before, rows, after = self.deluxe(rows, depth)
        elif "\\caption" in rows:
            before, rows = self.captions(rows, depth)
        self.in_cells += 1
        try:
            if self.in_cells > 1:
                return " ".join(self.inner(cell, depth).strip() for row in cells_of(rows) for cell in row)
            return (
                before
                + table_of(rows, lambda cell: without_gone(self.inner(cell, depth)), self.spend_cells)
                + after
            )
        finally:
            self.in_cells -= 1

    def spend_cells(self, count: int) -> None:
        """Count cells. Raises ValueError where a document has too many."""
        self.cells -= count
        if self.cells < 0:
            raise ValueError(f"its tables have more than {limits().latex_cells:,} cells")

    def captions(self, rows: str, depth: int) -> tuple[str, str]:
        """Return the captions in a table, which stand before it, and its rows without them."""
        texts, parts, place = list[str](), list[str](), 0
        while (start := rows.find("\\caption", place)) >= 0:
            parts.append(rows[place:start])
            begin = past_options(rows, start + len("\\caption") + (rows[start + 8 : start + 9] == "*"))
            place, text = self.argument_text(rows, begin, depth)
            place = past_options(rows, place) if text else max(place, start + 8)
            texts.append(text.strip())
        return f"\n\n{texts[0] if texts else ''}\n\n", "".join([*parts, rows[place:]])

    def deluxe(self, inside: str, depth: int) -> tuple[str, str, str]:
        """Return the caption, the rows and the notes of a table of AASTeX."""
        data = DATA.search(inside)
        parts = {name: self.braces(inside, found.end()) for name in DELUXE if (found := name.search(inside))}
        caption, head, *notes = [parts.get(name) for name in DELUXE]
        texts = [self.inner(one[1], depth).strip() if one else "" for one in (caption, *notes)]
        rows = f"{head[1] if head else ''}\\\\{data[1] if data else ''}"
        return f"\n\n{texts[0]}\n\n", rows, "\n\n".join(["", *filter(None, texts[1:]), ""])


DELUXE = [
    re.compile(rf"\\{name}\s*+(?=\{{)")
    for name in ("tablecaption", "tablehead", "tablecomments", "tablerefs")
]
Command = Callable[[Writer, str, str, int, int], tuple[int, str]]
COMMANDS: dict[str, Command] = {
    **dict.fromkeys(HEADINGS, Writer.heading),
    **dict.fromkeys(("verb", "lstinline", "mintinline"), Writer.inline_code),
    **dict.fromkeys(("url", "path", "nolinkurl"), Writer.address),
    **dict.fromkeys(("footnote", "footnotetext", "tablenotetext", "blfootnote"), Writer.footnote),
    **dict.fromkeys(("IEEEPARstart", "lettrine", "PARstart"), Writer.initial),
    **dict.fromkeys(("textgreek", "foreigntextgreek"), Writer.greek),
    **dict.fromkeys(("textsuperscript", "up", "ts"), Writer.power),
    **dict.fromkeys(QUANTITIES, Writer.quantity),
    "caption": Writer.caption,
    "ensuremath": Writer.formula_in_text,
    "item": Writer.item,
    "texorpdfstring": Writer.first,
}


def written(formula: str, *, is_display: bool) -> str:
    """Return a formula as it is written, without labels."""
    inner = (LABEL.sub("", formula) if "\\" in formula else formula).strip()
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
    """Return a text without the marks of what is gone, and without the spaces and parentheses around it."""
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
    """Return where what stands in an environment ends, and where the environment does; its like may be in it."""
    begin, end, depth, search = f"\\begin{{{name}}}", f"\\end{{{name}}}", 1, place
    while (found := latex.find(end, search)) >= 0:
        depth += latex.count(begin, search, found) - 1
        search = found + len(end)
        if depth == 0:
            return found, search
    return len(latex), len(latex)


def past_options(latex: str, place: int) -> int:
    """Return the place behind what stands in brackets."""
    found = OPTIONS.match(latex, place)
    return found.end() if found else place


def code(inside: str) -> str:
    """Return code between fences, with the language that its options name."""
    found = CODE_LANGUAGE.match(inside)
    named = LANGUAGE.search(found[1] or "") if found else None
    language = (named[1] if named else (found[2] or "") if found else "").lower()
    start = inside.find("\n") + 1 if found and not found[1] else found.end() if found else 0
    return f"\n\n{fenced(inside[start:].strip(chr(10)), language)}\n\n"
