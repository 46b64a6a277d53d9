"""Tables of wikitext as Markdown."""

import re
from typing import NamedTuple

from zyda_flows.tasks.extraction.wikitext_lines import BREAK
from zyda_flows.tasks.limits import limits

ATTRIBUTES = re.compile(r"""[\w\s"'=:;#%.,()/!-]*""")
SPAN = re.compile(r"""(col|row)span\s*=[\s"']*([0-9]{1,3})""", re.IGNORECASE)


class Cell(NamedTuple):
    """A cell: its lines, and how many columns and rows it takes."""

    lines: list[str]
    columns: int
    rows: int


def table_of_wikitext(text: str, *, is_layout: bool) -> str:
    """Return a table as Markdown, and one that lays out other tables as its cells.

    text: what is between its braces, in which all but the table itself is Markdown. A cell of several columns or
    rows is followed by empty ones.
    """
    caption, rows = _rows(text.replace(BREAK, " "))
    if not rows:
        return f"\n\n{caption}\n\n" if caption else ""
    most = limits().wikitext_padding * sum(map(len, rows)) + 100  # cells
    grid = [] if is_layout else _grid(rows, most)
    columns = max(map(len, grid), default=0)
    if columns <= 1 or columns > limits().wikitext_columns or columns * len(grid) > most:
        said = [caption, *(_text(cell) for row in rows for cell in row)]
        return "\n\n" + "\n\n".join(filter(None, said)) + "\n\n"
    lines = [f"| {' | '.join(row + [''] * (columns - len(row)))} |" for row in grid]
    lines.insert(1, "|" + " --- |" * columns)
    return "\n\n" + "\n".join([*([caption, ""] if caption else []), *lines]) + "\n\n"


def _rows(text: str) -> tuple[str, list[list[Cell]]]:
    """Return the caption, and the cells of the rows that have any text."""
    caption, rows, row = "", list[list[Cell]](), list[Cell]()
    for line in map(str.strip, text.split("\n")[1:]):  # after the attributes of the table
        if line.startswith("|-"):
            row = []
        elif line.startswith("|+"):
            caption = " ".join(_cell(line[2:]).lines)
        elif line.startswith(("|", "!")):
            if not row:
                rows.append(row)
            whole = line[1:].replace("!!", "||") if line[0] == "!" else line[1:]
            row += [_cell(cell) for cell in whole.split("||")]
        elif line and row:
            row[-1].lines.append(line)
    return caption, [row for row in rows if any(any(cell.lines) for cell in row)]


def _cell(content: str) -> Cell:
    """Return a cell without its attributes, of which spans count."""
    attributes, bar, inner = content.partition("|")
    if not bar or (attributes.strip() and "=" not in attributes) or not ATTRIBUTES.fullmatch(attributes):
        return Cell([content.strip()], 1, 1)
    spans = {name.lower(): max(1, int(count)) for name, count in SPAN.findall(attributes)}
    return Cell([inner.strip()], min(limits().wikitext_columns, spans.get("col", 1)), spans.get("row", 1))


def _text(cell: Cell) -> str:
    return " ".join(" ".join(cell.lines).split())


def _grid(rows: list[list[Cell]], most: int) -> list[list[str]]:
    """Return the texts of cells, each in its column; nothing if they are more than `most` with empty ones."""
    grid, taken = list[list[str]](), dict[int, int]()  # columns that a cell above takes, in how many rows
    size, widest = 0, limits().wikitext_columns
    for row in rows:
        texts, below = list[str](), {column: left - 1 for column, left in taken.items() if left > 1}
        for cell in row:
            while len(texts) in taken and len(texts) < widest:
                texts.append("")
            if cell.rows > 1:
                below |= dict.fromkeys(range(len(texts), len(texts) + cell.columns), cell.rows - 1)
            texts += [_text(cell).replace("|", "\\|"), *[""] * (cell.columns - 1)]
            if len(texts) > widest:
                break
        grid.append(texts)
        taken, size = below, size + len(texts)
        if size > most:
            return []
    return grid
