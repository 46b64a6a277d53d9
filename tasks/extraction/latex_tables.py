"""Write tables of LaTeX as Markdown."""

import re
from collections.abc import Callable, Iterator

CELL_MARK = re.compile(
    r"\\(?:begin|end)(?![A-Za-z])|\\\\\*?(?:\[[^\[\]\n]{0,100}\])?|\\(?:tabularnewline|cr)(?![A-Za-z])|\\.|[{}&]",
    re.DOTALL,
)
SPANNING = re.compile(r"\\multicolumn\s*+\{\s*+([0-9]{1,9})\s*\}")
RULE_LINE = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|tableline|nodata|startdata|enddata)(?![A-Za-z])"
    r"|\\(?:cline|cmidrule)(?:\[[^\[\]]*+\])?(?:\([^()]*+\))?\s*+\{[^{}]*+\}"
)
# The commands at the ends of the parts of a longtable. Only the first head and the last foot are written.
LONGTABLE_PART = re.compile(r"\\(endfirsthead|endhead|endlastfoot|endfoot)(?![A-Za-z])")
DATA = re.compile(r"\\startdata(?![A-Za-z])(.*?)(?:\\enddata|\Z)", re.DOTALL)
SPACES = re.compile(r"\s+")
Write = Callable[[str], str]  # the text of a piece of LaTeX
Spend = Callable[[int], None]  # counts cells, and raises ValueError if the limit is exceeded


def markdown_table(rows: str, write: Write, spend: Spend) -> str:
    """Return the rows of a table as Markdown, the first row as its head; "" for a table without text.

    Args:
        rows: the LaTeX of the rows.
        write: returns the text of a cell.
        spend: counts cells, and raises ValueError if the limit is exceeded.
    """
    grid = cell_texts(rows, write, spend)
    if not grid:
        return ""
    width = max(map(len, grid))
    spend(width * len(grid))
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in grid]
    return "\n\n" + "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]]) + "\n\n"


def cell_texts(rows: str, write: Write, spend: Spend) -> list[list[str]]:
    """Return the texts of the cells by row, without empty rows."""
    grid = list[list[str]]()
    for cells in rows_in(RULE_LINE.sub("", order_parts(rows))):
        spend(len(cells))
        row = [text for cell in cells for text in spanned_texts(cell, write, spend)]
        if any(row):
            grid.append(row)
    return grid


def order_parts(rows: str) -> str:
    """Return the rows of a longtable with a single head before them and a single foot after them."""
    if "\\end" not in rows:
        return rows
    pieces = LONGTABLE_PART.split(rows)
    if len(pieces) == 1:
        return rows
    parts = dict(zip(pieces[1::2], pieces[::2], strict=False))
    head = parts.get("endfirsthead", parts.get("endhead", ""))
    foot = parts.get("endlastfoot", "") if "endlastfoot" in parts else parts.get("endfoot", "")
    return f"{head}\\\\{pieces[-1]}\\\\{foot}"


def spanned_texts(cell: str, write: Write, spend: Spend) -> list[str]:
    """Return the text of a cell, and an empty text for each further column that the cell spans."""
    match = SPANNING.search(cell)
    text = SPACES.sub(" ", write(cell)).strip().replace("|", "\\|")
    more = int(match[1]) - 1 if match else 0
    spend(max(0, more))
    return [text, *[""] * more]


def rows_in(rows: str) -> Iterator[list[str]]:
    """Yield the LaTeX of the cells of each row. A `&` in braces does not end a cell."""
    row, start, depth = list[str](), 0, 0
    for match in CELL_MARK.finditer(rows):
        mark = match[0]
        depth += {"{": 1, "}": -1, "\\begin": 1, "\\end": -1}.get(mark, 0)
        if depth <= 0 and (mark == "&" or mark.startswith(("\\\\", "\\tabularnewline", "\\cr"))):
            row.append(rows[start : match.start()])
            start = match.end()
            if mark != "&":
                yield row
                row = []
    yield [*row, rows[start:]]
