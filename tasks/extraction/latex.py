"""The text of LaTeX as Markdown: sections, paragraphs, lists, tables, code; formulas stay as they are written.

The preamble but for the title, comments, labels, citations and the bibliography go. Macros of the author's without
arguments are put in their places, in formulas, too. pylatexenc, which parses LaTeX well, does 0.1 MB/s and loses
these macros; this is one pass over the tokens of a regular expression.
"""

import re
import unicodedata
from collections.abc import Iterator

from tasks.extraction.code_blocks import fenced
from tasks.extraction.latex_tables import table_of
from tasks.extraction.latex_words import (
    ACCENT_WORDS,
    ACCENTS,
    ARGUMENTS,
    CITES,
    CODE,
    DEFINITIONS,
    DROPPED,
    HEADINGS,
    LISTS,
    MATH,
    OF_ENVIRONMENTS,
    QUOTES,
    STATEMENTS,
    SYMBOLS,
    TABULARS,
    WORDS,
)

MAX_DEPTH = 200
MAX_EXPANDED = 1 << 22  # characters that macros may add
TOKEN = re.compile(
    r"\\begin\s*\{(?P<begin>[^{}\n]*)\}|\\end\s*\{(?P<end>[^{}\n]*)\}"
    r"|\\(?P<command>[A-Za-z@]+)\*?[ \t]*|\\(?P<symbol>[^A-Za-z@])"
    r"|(?P<open>\{)|(?P<close>\})|(?P<math>\$\$?)|(?P<comment>%[^\n]*\n?[ \t]*)|(?P<tie>~)|(?P<column>&)",
    re.DOTALL,
)
DOCUMENT = re.compile(r"\\begin\s*\{document\}(.*?)(?:\\end\s*\{document\}|\Z)", re.DOTALL)
MACRO = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand|DeclareMathOperator)\*?\s*\{?\s*\\([A-Za-z@]+)\s*\}?\s*(?=\{)"
    r"|\\def\s*\\([A-Za-z@]+)\s*(?=\{)"
)
TITLE = re.compile(r"^[^%\n]*\\title\s*(?:\[[^\[\]]*\])?\s*(?=\{)", re.MULTILINE)
BIBLIOGRAPHY = re.compile(r"\\begin\s*\{thebibliography\}.*?(?:\\end\s*\{thebibliography\}|\Z)", re.DOTALL)


def text_of_latex(latex: str) -> str:
    """Return the text of a document, or of a part of one, as Markdown.

    Raises ValueError where it is nested too deep, or what begins in it does not end.
    """
    found = DOCUMENT.search(latex)
    preamble, body = (latex[: found.start()], found[1]) if found else ("", latex)
    if title := TITLE.search(preamble):
        said = group_at(preamble[: title.end() + LONGEST_MACRO], title.end())
        body = f"\\title{{{said}}}\n\n{body}" if said else body
    return Writer(macros_of(preamble + body), len(latex)).text(BIBLIOGRAPHY.sub("", body))


def macros_of(latex: str) -> dict[str, str]:
    """Return what the author's macros without arguments stand for."""
    macros = dict[str, str]()
    for found in MACRO.finditer(latex):
        body = group_at(latex[found.end() : found.end() + LONGEST_MACRO], 0)
        name = found[1] or found[2]
        if body is not None and "#" not in body and f"\\{name}" not in body:
            macros.setdefault(name, f"\\operatorname{{{body}}}" if "MathOperator" in found[0] else body)
    return macros


LONGEST_MACRO = 1000


def group_at(text: str, start: int) -> str | None:
    """Return what stands in the braces that open at a place; None where they do not close."""
    if text[start : start + 1] != "{":
        return None
    depth = 0
    for found in BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return text[start + 1 : found.start()]
    return None


BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
SPACES = re.compile(r"[ \t]*\n[ \t]*|[ \t]+")
SPACES_AT_END = re.compile(r"[ \t]+\n")
LINE_ENDS = re.compile(r"\n{3,}")
ITEM = "\0"
SIGNS = re.compile("[\0\1]")
HIDDEN, SHOWN = re.compile(r"\\iffalse(?![A-Za-z@])"), re.compile(r"\\fi(?![A-Za-z@])")
GONE = "\1"  # stands where a command was that is no text, a citation say
HOLLOW = re.compile(f" ?(?:\\([ ,;]*{GONE}[ ,;{GONE}]*\\)|\\[[ ,;]*{GONE}[ ,;{GONE}]*\\])")
LEFT_OUT = re.compile(f" ?{GONE}(?: ?(?=[.,;:!?)\n])|(?= )|$)|{GONE}")
OPTIONS = re.compile(r"(?:\s*\[[^\[\]]*\])+")
OPTION = re.compile(r"\s*\[[^\[\]]*\]")
SPACE = re.compile(r"\s*")


class Writer:
    """Writes the Markdown of LaTeX, with the author's macros in their places."""

    def __init__(self, macros: dict[str, str], size: int) -> None:
        self.macros = {name: body.replace("\\xspace", "") for name, body in macros.items()}
        self.budget = 10 * size + 1_000_000  # characters that may be looked through for the ends of things
        names = sorted(macros, key=len, reverse=True)
        self.any_macro = re.compile(rf"\\({'|'.join(map(re.escape, names))})(?![A-Za-z@])") if names else None
        self.added = 0

    def text(self, latex: str) -> str:
        written = joined(self.pieces(without_hidden(SIGNS.sub("", latex)), 0))
        pieces = SPACES_AT_END.sub(
            "\n", without_gone(written.replace(ITEM, "\n- "))
        )  # of lists by other names
        return LINE_ENDS.sub("\n\n", pieces).strip() + "\n" if pieces.strip() else ""

    def spend(self, size: int) -> None:
        """Count characters that were looked through. Raises ValueError for what has no end to its beginnings."""
        self.budget -= size
        if self.budget < 0:
            raise ValueError("its braces and environments do not close")

    def group(self, latex: str, place: int) -> tuple[int, str] | None:
        """Return where braces that may open at a place end, and what stands in them; None where there are none."""
        start = SPACE.match(latex, place).end()  # type: ignore[union-attr]
        inside = group_at(latex, start)
        if inside is None:
            self.spend(len(latex) - start if latex[start : start + 1] == "{" else 0)
            return None
        self.spend(len(inside))
        return start + len(inside) + 2, inside

    def expanded(self, formula: str) -> str:
        """Put macros in their places in a formula, twice at most: macros of macros."""
        if self.any_macro is None:
            return formula
        for _ in range(2):
            before = len(formula)
            formula = self.any_macro.sub(lambda found: self.macros[found[1]], formula)
            self.added += len(formula) - before
            if self.added > MAX_EXPANDED:
                raise ValueError(f"its macros add more than {MAX_EXPANDED:,} characters")
        return formula

    def pieces(self, latex: str, depth: int) -> Iterator[str]:
        """Yield the Markdown of some LaTeX, piece by piece."""
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH}")
        place = 0
        while found := TOKEN.search(latex, place):
            yield plain(latex[place : found.start()])
            place = found.end()
            if found["command"]:
                place, text = self.command(latex, found["command"], place, depth)
                yield text
            elif found["begin"] is not None:
                place, text = self.environment(latex, found["begin"], place, depth)
                yield text
            elif found["end"] is not None:
                yield "\n\n"
            elif found["math"]:
                place, text = self.formula(latex, found["math"], place)
                yield text
            elif found["symbol"]:
                place, text = self.symbol(latex, found["symbol"], place)
                yield text
            elif found["tie"] or found["column"]:
                yield " "
            elif found["comment"] and latex[place : place + 1] == "\n":
                yield "\n\n"  # the line behind a comment is empty: a paragraph ends
        yield plain(latex[place:])

    def inner(self, latex: str, depth: int) -> str:
        return joined(self.pieces(latex, depth + 1))

    def symbol(self, latex: str, symbol: str, place: int) -> tuple[int, str]:
        if symbol in "([":
            end = latex.find("\\)" if symbol == "(" else "\\]", place)
            end = len(latex) if end < 0 else end
            return end + 2, self.written(latex[place:end], is_display=symbol == "[")
        if symbol == "\\":
            return past_options(latex, place), "\n"
        if symbol in ACCENTS:
            return accented(latex, place, ACCENTS[symbol])
        return place, SYMBOLS.get(symbol, symbol if symbol not in ")]" else "")

    def formula(self, latex: str, mark: str, place: int) -> tuple[int, str]:
        """Return a formula between dollars, as it is written."""
        end = end_of_formula(latex, mark, place)
        if end is None:
            return place, mark
        return end + len(mark), self.written(latex[place:end], is_display=mark == "$$")

    def written(self, formula: str, *, is_display: bool) -> str:
        inner = LABEL.sub("", self.expanded(COMMENT.sub("", formula))).strip()
        if not inner:
            return ""
        return f"\n\n$$\n{inner}\n$$\n\n" if is_display else f"${SPACES.sub(' ', inner)}$"

    def command(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return where a command with its arguments ends, and its text."""
        if name in self.macros:
            self.added += len(self.macros[name])
            if self.added > MAX_EXPANDED:
                raise ValueError(f"its macros add more than {MAX_EXPANDED:,} characters")
            return before_space(latex, place), self.inner(self.macros[name], depth)
        if name in WORDS:
            return before_space(latex, place), WORDS[name]
        if name in ACCENT_WORDS:
            return accented(latex, place, ACCENT_WORDS[name])
        if name in HEADINGS:
            return self.heading(latex, HEADINGS[name], place, depth)
        if name in {"verb", "lstinline", "mintinline"}:
            return self.inline_code(latex, name, place)
        if name == "item":
            option = OPTION.match(latex, place)
            words = self.inner(option[0].strip()[1:-1], depth) if option else ""
            return (option.end() if option else place), f"{ITEM}{words}{': ' if words else ''}"
        if name == "url":
            return self.argument(latex, place, raw=True, depth=depth)
        if name in DEFINITIONS:
            found = DEFINED.match(latex, place)
            return self.skipped(latex, found.end() if found else place, 1), GONE
        if CITES.fullmatch(name) or name in ARGUMENTS:
            return self.skipped(latex, place, ARGUMENTS.get(name, 1)), GONE
        if name == "footnote":
            place, text = self.argument(latex, place, raw=False, depth=depth)
            return place, f" ({text.strip()})"
        return past_options(latex, place), "\n\n" if name == "caption" else ""

    def inline_code(self, latex: str, name: str, place: int) -> tuple[int, str]:
        place = place if name == "verb" else past_options(latex, place)
        if name == "mintinline":
            place = self.skipped(latex, place, 1)
        if name != "verb" and (group := self.group(latex, place)):
            return group[0], f"`{group[1]}`"
        end = latex.find(latex[place], place + 1) if place < len(latex) else -1
        return (end + 1, f"`{latex[place + 1 : end]}`") if end >= 0 else (place, "")

    def heading(self, latex: str, mark: str, place: int, depth: int) -> tuple[int, str]:
        place, text = self.argument(latex, past_options(latex, place), raw=False, depth=depth)
        return place, f"\n\n{mark}{SPACES.sub(' ', text).strip()}\n\n" if text.strip() else ""

    def argument(self, latex: str, place: int, *, raw: bool, depth: int) -> tuple[int, str]:
        """Return where an argument in braces ends, and its text."""
        group = self.group(latex, place)
        if group is None:
            return place, ""
        return group[0], group[1] if raw else self.inner(group[1], depth)

    def skipped(self, latex: str, place: int, arguments: int) -> int:
        """Return the place behind so many arguments in braces, with the options before them."""
        for _ in range(arguments):
            group = self.group(latex, past_options(latex, place))
            if group is None:
                return place
            place = group[0]
        return place

    def environment(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return where an environment ends, and its text."""
        bare = name.rstrip("*")
        if bare not in WHOLE:
            return self.begun(latex, bare, place, depth)
        end, after = end_of_environment(latex, name, place)
        inside = latex[place:end]
        self.spend(len(inside))
        if bare in CODE:
            return after, code(inside)
        if bare in MATH:
            is_aligned = bare not in {"equation", "displaymath", "math", "dmath"}
            written = f"\\begin{{{name}}}{inside}\\end{{{name}}}" if is_aligned else inside
            return after, self.written(written, is_display=bare != "math")
        if bare in DROPPED:
            return after, ""
        if bare in TABULARS:
            return after, self.table(inside, 2 if name in WIDE else 1, depth)
        return after, self.items(inside, LISTS[bare], depth)

    def begun(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return where the text of an environment begins, and what comes before it: a theorem's kind and name."""
        option = OPTION.match(latex, place)
        place = self.skipped(latex, past_options(latex, place), OF_ENVIRONMENTS.get(name, 0))
        if name not in STATEMENTS:
            return place, "\n\n"
        said = self.inner(option[0].strip()[1:-1], depth) if option else ""
        return place, f"\n\n{name.capitalize()}{f' ({said})' if said else ''}. "

    def items(self, inside: str, mark: str, depth: int) -> str:
        """Return a list, whose items are indented below their marks."""
        parts = self.inner(inside, depth).split(ITEM)[1:]
        lines = [INNER_LINE.sub("\n  ", LINE_ENDS.sub("\n\n", part.strip())) for part in parts]
        return "\n\n" + "\n".join(f"{mark}{line}" for line in lines) + "\n\n"

    def table(self, inside: str, arguments: int, depth: int) -> str:
        """Return a table of Markdown, whose first row is its head. arguments: in braces, before its rows."""
        start = self.skipped(inside, 0, arguments)
        return table_of(inside[start:], lambda cell: without_gone(self.inner(cell, depth)))


WHOLE = {*MATH, *CODE, *TABULARS, *LISTS, *DROPPED}  # environments that are taken as one
WIDE = {"tabularx", "tabulary", "tabular*"}  # tables whose width is said
COMMENT = re.compile(r"(?<!\\)%[^\n]*\n?[ \t]*")
DEFINED = re.compile(r"\*?\s*\{?\s*\\[A-Za-z@]+\s*\}?(?:\s*\[[^\[\]]*\]|#[0-9])*")
LABEL = re.compile(r"\\(?:label|tag)\s*\{[^{}]*\}|\\(?:nonumber|notag)(?![A-Za-z])")
INNER_LINE = re.compile(r"\n(?=[^\n])")


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


def without_hidden(latex: str) -> str:
    r"""Return LaTeX without what stands between \iffalse and \fi."""
    parts, place = list[str](), 0
    while (start := HIDDEN.search(latex, place)) and (end := SHOWN.search(latex, start.end())):
        parts.append(latex[place : start.start()])
        place = end.end()
    return "".join([*parts, latex[place:]])


def without_gone(text: str) -> str:
    """Return a text without the marks of what is gone, and without the spaces and parentheses around it."""
    return LEFT_OUT.sub("", HOLLOW.sub("", text)) if GONE in text else text


def plain(text: str) -> str:
    """Return text between commands: a line end is a space, but for blank lines."""
    if not text:
        return ""
    paragraphs = re.split(r"\n[ \t]*\n\s*", text)
    joined = "\n\n".join(SPACES.sub(" ", paragraph) for paragraph in paragraphs)
    for old, new in QUOTES:
        joined = joined.replace(old, new)
    return joined


def accented(latex: str, place: int, accent: str) -> tuple[int, str]:
    """Return where an accent with its letter ends, and the letter with it."""
    found = LETTER.match(latex, place)
    if found is None:
        return place, ""
    letter = (found[1] or found[2] or "").replace("\\i", "i").replace("\\j", "j")
    return found.end(), unicodedata.normalize("NFC", letter[:1] + accent + letter[1:])


LETTER = re.compile(r"\s*(?:\{(\\?[A-Za-z]?)\}|(\\[ij](?![A-Za-z])|[A-Za-z]))")


def end_of_formula(latex: str, mark: str, place: int) -> int | None:
    """Return where a formula ends that opens with dollars; None where it does not, or a paragraph ends before."""
    while (end := latex.find(mark, place)) >= 0:
        if latex[end - 1] != "\\" or latex[end - 2] == "\\":
            return None if EMPTY_LINE.search(latex, place, end) else end
        place = end + 1
    return None


EMPTY_LINE = re.compile(r"\n[ \t]*\n")


def end_of_environment(latex: str, name: str, place: int) -> tuple[int, int]:
    """Return where what stands in an environment ends, and where the environment does; its like may be in it."""
    depth = 1
    for found in re.compile(rf"\\(begin|end)\s*\{{{re.escape(name)}\}}").finditer(latex, place):
        depth += 1 if found[1] == "begin" else -1
        if depth == 0:
            return found.start(), found.end()
    return len(latex), len(latex)


def past_options(latex: str, place: int) -> int:
    """Return the place behind what stands in brackets."""
    found = OPTIONS.match(latex, place)
    return found.end() if found else place


def code(inside: str) -> str:
    """Return code between fences, with the language that its options name."""
    found = CODE_LANGUAGE.match(inside)
    language = (found[1] or found[2] or "").lower() if found else ""
    start = inside.find("\n") + 1 if found else 0
    return f"\n\n{fenced(inside[start:].strip(chr(10)), language)}\n\n"


CODE_LANGUAGE = re.compile(
    r"[ \t]*(?:\[[^\]]*?(?:language=\{?([A-Za-z+#]*))?[^\]]*\])?(?:\{([A-Za-z+#]+)\})?[ \t]*\n"
)
