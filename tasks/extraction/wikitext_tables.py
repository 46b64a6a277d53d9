"""Write tables of wikitext as Markdown."""

import re
from typing import NamedTuple

from zyda_flows.tasks.extraction.wikitext_lines import BREAK
from zyda_flows.tasks.limits import limits

ATTRIBUTES = re.compile(r"""[\w\s"'=:;#%.,()/!-]*""")
SPAN = re.compile(r"""(col|row)span\s*=[\s"']*([0-9]{1,3})""", re.IGNORECASE)


class TableCell(NamedTuple):
    """A cell: its lines, and the number of columns and rows that it spans."""

    lines: list[str]
    columns: int
    rows: int


def table_of_wikitext(text: str, *, is_layout: bool) -> str:
    """Return a table as Markdown, or as paragraphs if it is a layout, too wide or has a single column.

    text: the content between the braces of the table, in which the cells are Markdown. A cell that spans several
    columns or rows is followed by empty cells.
    """
    caption, rows = _rows(text.replace(BREAK, " "))
    if not rows:
        return f"\n\n{caption}\n\n" if caption else ""
    max_cells = limits().wikitext_padding * sum(map(len, rows)) + 100
    grid = [] if is_layout else _grid(rows, max_cells)
    columns = max(map(len, grid), default=0)
    if columns <= 1 or columns > limits().wikitext_columns or columns * len(grid) > max_cells:
        paragraphs = [caption, *(_text(cell) for row in rows for cell in row)]
        return "\n\n" + "\n\n".join(filter(None, paragraphs)) + "\n\n"
    before = f"\n\n{caption}\n\n" if caption else "\n\n"
    return before + _markdown(grid, columns) + "\n\n"


def _markdown(grid: list[list[str]], columns: int) -> str:
    lines = [f"| {' | '.join(row + [''] * (columns - len(row)))} |" for row in grid]
    lines.insert(1, "|" + " --- |" * columns)
    return "\n".join(lines)


def _rows(text: str) -> tuple[str, list[list[TableCell]]]:
    """Return the caption, and the cells by row without rows that have no text."""
    caption, rows, row = "", list[list[TableCell]](), list[TableCell]()
    for line in map(str.strip, text.split("\n")[1:]):  # after the attributes of the table
        if line.startswith("|-"):
            row = []
        elif line.startswith("|+"):
            caption = " ".join(_cell(line[2:]).lines)
        elif line.startswith(("|", "!")):
            if not row:
                rows.append(row)
            row += _cells(line)
        elif line and row:
            row[-1].lines.append(line)
    return caption, [row for row in rows if any(map(_text, row))]


def _cells(line: str) -> list[TableCell]:
    """Return the cells of a line that begins with `|` or `!`."""
    content = line[1:].replace("!!", "||") if line[0] == "!" else line[1:]
    return [_cell(cell) for cell in content.split("||")]


def _cell(content: str) -> TableCell:
    """Return a cell without its attributes, with its spans."""
    attributes, bar, inner = content.partition("|")
    if not bar or (attributes.strip() and "=" not in attributes) or not ATTRIBUTES.fullmatch(attributes):
        return TableCell([content.strip()], 1, 1)
    spans = {name.lower(): max(1, int(count)) for name, count in SPAN.findall(attributes)}
    return TableCell(
        [inner.strip()], min(limits().wikitext_columns, spans.get("col", 1)), spans.get("row", 1)
    )


def _text(cell: TableCell) -> str:
    return " ".join(" ".join(cell.lines).split())


def _grid(rows: list[list[TableCell]], max_cells: int) -> list[list[str]]:
    """Return the texts of cells by row and column; [] if there are more than `max_cells` with the empty cells."""
    # The number of rows, from the current row on, that a cell of an earlier row spans in a column.
    grid, spanned = list[list[str]](), dict[int, int]()
    size, max_columns = 0, limits().wikitext_columns
    for row in rows:
        texts, below = list[str](), {column: count - 1 for column, count in spanned.items() if count > 1}
        for cell in row:
            while len(texts) in spanned and len(texts) < max_columns:
                texts.append("")
            if cell.rows > 1:
                below |= dict.fromkeys(range(len(texts), len(texts) + cell.columns), cell.rows - 1)
            texts += [_text(cell).replace("|", "\\|"), *[""] * (cell.columns - 1)]
            if len(texts) > max_columns:
                break
        grid.append(texts)
        spanned, size = below, size + len(texts)
        if size > max_cells:
            return []
    return grid
