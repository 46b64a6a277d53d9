"""Write LaTeX's environments as Markdown: lists, tables, algorithms, theorems, code and formulas."""

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
# Tables with two arguments: their width, then the specification of their columns.
TABLES_WITH_WIDTH = {"tabularx", "tabulary", "tabular*", "xltabular", "supertabular*", "xtabular*"}
# Formulas that are only valid within their \begin and \end, which are kept.
ALIGNED = {*MATH} - {"equation", "displaymath", "math", "dmath"}
ALGORITHMS = ("algorithm", "algorithm2e", "procedure", "function")
# Caption, head and notes of a table of AASTeX: the patterns of their commands, in this order.
DELUXE_COMMANDS = [
    re.compile(rf"\\{name}\s*+(?=\{{)")
    for name in ("tablecaption", "tablehead", "tablecomments", "tablerefs")
]


class Environments(Commands):
    """Writes the text of environments.

    The methods for single environments take the content and the name of the environment, and the depth of nesting.
    They return Markdown.

    theorem_titles: the title of each environment for theorems, as LaTeX, by the name of the environment.
    """

    theorem_titles: dict[str, str]
    cells_left = 0  # the number of cells of tables that may still be written
    open_tables = 0  # the number of tables that are being written: more than 1 in a table in a cell

    def environment(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        r"""Convert an environment whose \begin{name} ends at `position`.

        An environment of CONVERTERS is converted to its end. Of other environments only the begin is converted; the
        caller continues with their content.

        Returns: the position at which the caller continues, and Markdown.
        """
        method = CONVERTERS.get(name.rstrip("*"))
        if method is None:
            return self.begin_of_environment(latex, name.rstrip("*"), position, depth)
        end, after = end_of_environment(latex, name, position)
        inside = latex[position:end]
        self.spend(len(inside))
        return after, method(self, inside, name, depth)

    def begin_of_environment(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        """Return the position after the arguments of an environment, and the Markdown that begins its text.

        It is an empty line; for a theorem also its title, with the name in its option in parentheses.
        """
        option = OPTION.match(latex, position)
        position = self.skip_arguments(
            latex, skip_options(latex, position), ENVIRONMENT_ARGUMENTS.get(name, 0)
        )
        if name not in self.theorem_titles:
            return position, "\n\n"
        title = self.inner(self.theorem_titles[name], depth)
        theorem_name = self.inner(option[0].strip()[1:-1], depth) if option else ""
        return position, f"\n\n{title}{f' ({theorem_name})' if theorem_name else ''}. "

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
        """Return an algorithm: the text around an inner `algorithmic`, otherwise the statements of algorithm2e."""
        if "\\begin{algorithmic" not in inside:
            return self.algorithm_lines(inside, depth, has_blocks=True)
        return f"\n\n{self.inner(inside[skip_options(inside, 0) :], depth)}\n\n"

    def algorithmic(self, inside: str, name: str, depth: int) -> str:
        return self.algorithm_lines(inside, depth, has_blocks=False)

    def algorithm_lines(self, inside: str, depth: int, *, has_blocks: bool) -> str:
        """Return an algorithm, a line for each statement. has_blocks: its blocks are in braces (algorithm2e)."""
        algorithm = Algorithm(inside[skip_options(inside, 0) :], self.budget, has_blocks=has_blocks)
        lines = self.inner(algorithm.lines(), depth).split("\n")
        return "\n\n" + "\n".join(line.strip() for line in lines if line.strip()) + "\n\n"

    def items(self, inside: str, name: str, depth: int) -> str:
        """Return a list, with the lines of an item indented below its mark, without text before the first item."""
        mark = LISTS[name.rstrip("*")]
        parts = self.inner(inside, depth).split(ITEM)[1:]
        lines = [INNER_LINE.sub("\n  ", LINE_ENDS.sub("\n\n", part.strip())) for part in parts]
        return "\n\n" + "\n".join(f"{mark}{line}" for line in lines) + "\n\n"

    def table(self, inside: str, name: str, depth: int) -> str:
        """Return a table with its caption before it and its notes after it; the first row is its head.

        Of a table in a cell only the texts of its cells are returned, separated by spaces.

        Raises ValueError if the tables of the document have too many cells.
        """
        rows = inside[self.skip_arguments(inside, 0, 2 if name in TABLES_WITH_WIDTH else 1) :]
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
        """Subtract `count` from the cells that may still be written. Raises ValueError if too few are left."""
        self.cells_left -= count
        if self.cells_left < 0:
            raise ValueError(f"the tables have more than {limits().latex_cells:,} cells")

    def captions(self, rows: str, depth: int) -> tuple[str, str]:
        """Return the first caption of a table as a paragraph, and the rows without any caption."""
        texts, parts, position = list[str](), list[str](), 0
        while (start := rows.find("\\caption", position)) >= 0:
            parts.append(rows[position:start])
            begin = skip_options(rows, start + len("\\caption") + (rows[start + 8 : start + 9] == "*"))
            position, text = self.argument_text(rows, begin, depth)
            position = skip_options(rows, position) if text else max(position, start + 8)
            texts.append(text.strip())
        return f"\n\n{texts[0] if texts else ''}\n\n", "".join([*parts, rows[position:]])

    def deluxe(self, inside: str, depth: int) -> tuple[str, str, str]:
        """Split a table of AASTeX: its caption as a paragraph, its rows, and its comments and references below it.

        The head is the first row.
        """
        data = DATA.search(inside)
        parts = {
            pattern: self.braces(inside, match.end())
            for pattern in DELUXE_COMMANDS
            if (match := pattern.search(inside))
        }
        caption, head, *notes = [parts.get(pattern) for pattern in DELUXE_COMMANDS]
        texts = [self.inner(group[1], depth).strip() if group else "" for group in (caption, *notes)]
        rows = f"{head[1] if head else ''}\\\\{data[1] if data else ''}"
        return f"\n\n{texts[0]}\n\n", rows, "\n\n".join(["", *filter(None, texts[1:]), ""])


# The methods for environments that are converted with their content as a whole, by name without a final `*`.
CONVERTERS: dict[str, Callable[[Environments, str, str, int], str]] = {
    **dict.fromkeys(CODE, Environments.code_block),
    **dict.fromkeys(MATH, Environments.display_formula),
    **dict.fromkeys(DROPPED, Environments.nothing),
    **dict.fromkeys(ALGORITHMS, Environments.algorithm),
    **dict.fromkeys(TABULARS, Environments.table),
    **dict.fromkeys(LISTS, Environments.items),
    "algorithmic": Environments.algorithmic,
    "tabbing": Environments.tabbing,
}
