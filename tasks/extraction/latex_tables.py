"""Tables of LaTeX as Markdown."""

import re
from collections.abc import Callable, Iterator

# A table in a cell, as some write it to break a line there.
NESTED = re.compile(
    r"\\begin\s*\{tabular\}(?:\[[^\[\]]*\])?\s*\{(?:[^{}]|\{[^{}]*\})*\}(.*?)\\end\s*\{tabular\}", re.DOTALL
)
MAX_CELL = 20_000  # characters of one in which others are looked for
CELL_MARK = re.compile(
    r"\\(?:begin|end)(?![A-Za-z])|\\\\(?:\[[^\]]*\])?|\\tabularnewline(?![A-Za-z])|\\.|[{}&]", re.DOTALL
)
SPANNING = re.compile(r"\\multicolumn\s*\{\s*([0-9]{1,2})\s*\}")
RULE_LINE = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|endhead|endfirsthead)(?![A-Za-z])"
    r"|\\(?:cline|cmidrule)(?:\[[^\[\]]*\])?(?:\([^()]*\))?\s*\{[^{}]*\}"
)
SPACES = re.compile(r"\s+")
Write = Callable[[str], str]  # the text of a piece of LaTeX


def table_of(rows: str, write: Write) -> str:
    """Return the rows of a table as Markdown, the first of them as its head; "" where nothing is in them."""
    grid = [
        [text for cell in row for text in texts_of(cell, write)] for row in cells_of(RULE_LINE.sub("", rows))
    ]
    grid = [row for row in grid if any(row)]
    if not grid:
        return ""
    width = max(map(len, grid))
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in grid]
    return "\n\n" + "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]]) + "\n\n"


def texts_of(cell: str, write: Write) -> list[str]:
    """Return the text of a cell, and empty ones for the columns that it spans further."""
    if len(cell) <= MAX_CELL:
        cell = NESTED.sub(lambda found: found[1].replace("\\\\", " ").replace("&", " "), cell)
    found = SPANNING.search(cell)
    text = SPACES.sub(" ", write(cell)).strip().replace("|", "\\|")
    return [text, *[""] * (int(found[1]) - 1 if found else 0)]


def cells_of(rows: str) -> Iterator[list[str]]:
    """Yield the cells of each row; what stands in braces is within one."""
    row, start, depth = list[str](), 0, 0
    for found in CELL_MARK.finditer(rows):
        mark = found[0]
        depth += {"{": 1, "}": -1, "\\begin": 1, "\\end": -1}.get(mark, 0)
        if depth == 0 and (mark == "&" or mark.startswith(("\\\\", "\\tabularnewline"))):
            row.append(rows[start : found.start()])
            start = found.end()
            if mark != "&":
                yield row
                row = []
    yield [*row, rows[start:]]
