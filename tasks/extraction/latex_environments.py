"""The text of LaTeX's environments: lists, tables, algorithms, theorems, code and formulas."""

import re

from zyda_flows.tasks.extraction.latex_algorithms import Algorithm
from zyda_flows.tasks.extraction.latex_commands import Commands
from zyda_flows.tasks.extraction.latex_tables import DATA, cells_of, table_of
from zyda_flows.tasks.extraction.latex_text import (
    INNER_LINE,
    ITEM,
    LINE_ENDS,
    OPTION,
    code,
    end_of_environment,
    past_options,
    without_gone,
    written,
)
from zyda_flows.tasks.extraction.latex_words import (
    CODE,
    DROPPED,
    ENVIRONMENT_ARGUMENTS,
    LISTS,
    MATH,
    TABULARS,
)
from zyda_flows.tasks.limits import limits

TABS = re.compile(r"^[^\n]*\\kill|\\[=><+-]", re.MULTILINE)
WIDE = {
    "tabularx",
    "tabulary",
    "tabular*",
    "xltabular",
    "supertabular*",
    "xtabular*",
}  # tables whose width is given
ALIGNED = {*MATH} - {"equation", "displaymath", "math", "dmath"}  # formulas whose environment is kept
WHOLE = {
    *MATH,
    *CODE,
    *TABULARS,
    *LISTS,
    *DROPPED,
    "algorithmic",
    "tabbing",
}  # environments that are taken as one
DELUXE = [
    re.compile(rf"\\{name}\s*+(?=\{{)")
    for name in ("tablecaption", "tablehead", "tablecomments", "tablerefs")
]


class Environments(Commands):
    """Writes the text of environments. statements: titles of theorems, by environment."""

    statements: dict[str, str]
    cells = 0  # of tables that may still be written
    in_cells = 0  # tables that are being written

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
        if bare == "tabbing":
            return after, f"\n\n{self.inner(TABS.sub(' ', inside), depth)}\n\n"
        if bare in TABULARS:
            return after, self.table(inside, name, depth)
        return after, self.items(inside, LISTS[bare], depth)

    def begun(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return the start of the text of an environment, and its introduction: the kind and name of a theorem."""
        option = OPTION.match(latex, place)
        place = self.skipped(latex, past_options(latex, place), ENVIRONMENT_ARGUMENTS.get(name, 0))
        if name not in self.statements:
            return place, "\n\n"
        title = self.inner(self.statements[name], depth)
        shown = self.inner(option[0].strip()[1:-1], depth) if option else ""
        return place, f"\n\n{title}{f' ({shown})' if shown else ''}. "

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
        parts = {name: self.braces(inside, match.end()) for name in DELUXE if (match := name.search(inside))}
        caption, head, *notes = [parts.get(name) for name in DELUXE]
        texts = [self.inner(one[1], depth).strip() if one else "" for one in (caption, *notes)]
        rows = f"{head[1] if head else ''}\\\\{data[1] if data else ''}"
        return f"\n\n{texts[0]}\n\n", rows, "\n\n".join(["", *filter(None, texts[1:]), ""])
