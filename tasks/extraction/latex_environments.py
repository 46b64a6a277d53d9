"""Write the text of LaTeX's environments: lists, tables, algorithms, theorems, code and formulas."""

import re
from collections.abc import Callable

from zyda_flows.tasks.extraction.latex_algorithms import Algorithm
from zyda_flows.tasks.extraction.latex_commands import Commands
from zyda_flows.tasks.extraction.latex_tables import DATA, markdown_table, rows_in
from zyda_flows.tasks.extraction.latex_text import (
    INNER_LINE,
    ITEM,
    LINE_ENDS,
    OPTION,
    end_of_environment,
    fenced_code,
    markdown_formula,
    skip_options,
    without_removed,
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
# Tables whose first argument is their width.
WIDE = {"tabularx", "tabulary", "tabular*", "xltabular", "supertabular*", "xtabular*"}
ALIGNED = {*MATH} - {"equation", "displaymath", "math", "dmath"}  # formulas whose environment is kept
ALGORITHMS = ("algorithm", "algorithm2e", "procedure", "function")
DELUXE = [
    re.compile(rf"\\{name}\s*+(?=\{{)")
    for name in ("tablecaption", "tablehead", "tablecomments", "tablerefs")
]


class Environments(Commands):
    """Writes the text of environments. statements: titles of theorems, by environment.

    The methods for single environments take the content and the name of the environment, and the depth of nesting.
    """

    statements: dict[str, str]
    cells = 0  # the number of cells of tables that may still be written
    open_tables = 0  # the number of tables that are being written

    def environment(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return where an environment ends, or where its text begins; and its text or introduction."""
        method = WHOLE.get(name.rstrip("*"))
        if method is None:
            return self.introduction(latex, name.rstrip("*"), place, depth)
        end, after = end_of_environment(latex, name, place)
        inside = latex[place:end]
        self.spend(len(inside))
        return after, method(self, inside, name, depth)

    def introduction(self, latex: str, name: str, place: int, depth: int) -> tuple[int, str]:
        """Return where the text of an environment begins, and its introduction: the kind and name of a theorem."""
        option = OPTION.match(latex, place)
        place = self.skip_arguments(latex, skip_options(latex, place), ENVIRONMENT_ARGUMENTS.get(name, 0))
        if name not in self.statements:
            return place, "\n\n"
        title = self.inner(self.statements[name], depth)
        theorem_name = self.inner(option[0].strip()[1:-1], depth) if option else ""
        return place, f"\n\n{title}{f' ({theorem_name})' if theorem_name else ''}. "

    def code_block(self, inside: str, name: str, depth: int) -> str:
        return fenced_code(inside)

    def display_formula(self, inside: str, name: str, depth: int) -> str:
        bare = name.rstrip("*")
        formula = f"\\begin{{{name}}}{inside}\\end{{{name}}}" if bare in ALIGNED else inside
        return markdown_formula(formula, is_display=bare != "math")

    def nothing(self, inside: str, name: str, depth: int) -> str:
        return ""

    def tabbing(self, inside: str, name: str, depth: int) -> str:
        return f"\n\n{self.inner(TABS.sub(' ', inside), depth)}\n\n"

    def algorithm(self, inside: str, name: str, depth: int) -> str:
        """Return an algorithm of algorithm2e, or the text around an inner `algorithmic`."""
        if "\\begin{algorithmic" not in inside:
            return self.statement_lines(inside, depth, has_blocks=True)
        return f"\n\n{self.inner(inside[skip_options(inside, 0) :], depth)}\n\n"

    def algorithmic(self, inside: str, name: str, depth: int) -> str:
        return self.statement_lines(inside, depth, has_blocks=False)

    def statement_lines(self, inside: str, depth: int, *, has_blocks: bool) -> str:
        """Return an algorithm with a line for each statement."""
        algorithm = Algorithm(inside[skip_options(inside, 0) :], self.budget, has_blocks=has_blocks)
        lines = self.inner(algorithm.lines(), depth).split("\n")
        return "\n\n" + "\n".join(line.strip() for line in lines if line.strip()) + "\n\n"

    def items(self, inside: str, name: str, depth: int) -> str:
        """Return a list, with the lines of an item indented below its mark."""
        mark = LISTS[name.rstrip("*")]
        parts = self.inner(inside, depth).split(ITEM)[1:]
        lines = [INNER_LINE.sub("\n  ", LINE_ENDS.sub("\n\n", part.strip())) for part in parts]
        return "\n\n" + "\n".join(f"{mark}{line}" for line in lines) + "\n\n"

    def table(self, inside: str, name: str, depth: int) -> str:
        """Return a table of Markdown with the first row as its head; of a table in a cell, only its words."""
        rows = inside[self.skip_arguments(inside, 0, 2 if name in WIDE else 1) :]
        before = after = ""
        if name.startswith("deluxetable"):
            before, rows, after = self.deluxe(rows, depth)
        elif "\\caption" in rows:
            before, rows = self.captions(rows, depth)
        self.open_tables += 1
        try:
            if self.open_tables > 1:
                return " ".join(self.inner(cell, depth).strip() for row in rows_in(rows) for cell in row)
            grid = markdown_table(
                rows, lambda cell: without_removed(self.inner(cell, depth)), self.spend_cells
            )
            return before + grid + after
        finally:
            self.open_tables -= 1

    def spend_cells(self, count: int) -> None:
        """Count cells. Raises ValueError if the tables of the document have too many."""
        self.cells -= count
        if self.cells < 0:
            raise ValueError(f"the tables have more than {limits().latex_cells:,} cells")

    def captions(self, rows: str, depth: int) -> tuple[str, str]:
        """Return the first caption in a table, which is written before the table, and the rows without captions."""
        texts, parts, place = list[str](), list[str](), 0
        while (start := rows.find("\\caption", place)) >= 0:
            parts.append(rows[place:start])
            begin = skip_options(rows, start + len("\\caption") + (rows[start + 8 : start + 9] == "*"))
            place, text = self.argument_text(rows, begin, depth)
            place = skip_options(rows, place) if text else max(place, start + 8)
            texts.append(text.strip())
        return f"\n\n{texts[0] if texts else ''}\n\n", "".join([*parts, rows[place:]])

    def deluxe(self, inside: str, depth: int) -> tuple[str, str, str]:
        """Return the caption, the rows and the notes of a table of AASTeX."""
        data = DATA.search(inside)
        parts = {name: self.braces(inside, match.end()) for name in DELUXE if (match := name.search(inside))}
        caption, head, *notes = [parts.get(name) for name in DELUXE]
        texts = [self.inner(group[1], depth).strip() if group else "" for group in (caption, *notes)]
        rows = f"{head[1] if head else ''}\\\\{data[1] if data else ''}"
        return f"\n\n{texts[0]}\n\n", rows, "\n\n".join(["", *filter(None, texts[1:]), ""])


# Environments that are written with their content as a whole.
WHOLE: dict[str, Callable[[Environments, str, str, int], str]] = {
    **dict.fromkeys(CODE, Environments.code_block),
    **dict.fromkeys(MATH, Environments.display_formula),
    **dict.fromkeys(DROPPED, Environments.nothing),
    **dict.fromkeys(ALGORITHMS, Environments.algorithm),
    **dict.fromkeys(TABULARS, Environments.table),
    **dict.fromkeys(LISTS, Environments.items),
    "algorithmic": Environments.algorithmic,
    "tabbing": Environments.tabbing,
}
