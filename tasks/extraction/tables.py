"""Write tables of data as Markdown. Tables for the layout of a page are not tables of data."""

import re
from collections.abc import Callable, Iterator

from selectolax.lexbor import LexborNode

from zyda_flows.tasks.extraction.marks import without_line_marks
from zyda_flows.tasks.extraction.nodes import attribute, children_backwards
from zyda_flows.tasks.limits import limits

MAX_CELL = 3000  # characters; a longer cell is a part of the layout
MAX_MEAN_CELL = 150  # characters in the mean, in a table without header and caption
MAX_LINKED = 0.7  # share of characters in links
MAX_EMPTY = 0.6  # share of empty cells in a table without header and caption
LINES = frozenset({"br", "p", "div", "li", "dt", "dd", "ul", "ol", "pre", "blockquote", "tr", "table"})
DROPPED = frozenset({"script", "style", "template", "button", "select", "textarea", "noscript", "svg"})
DATA = re.compile(
    r"(?:^|\s)(?:docutils|wikitable|dataframe|data-?table|infobox|sortable)(?:\s|$)", re.IGNORECASE
)
LAYOUT = "h1, h2, form, iframe, nav, article"  # elements that are only in tables for the layout
FENCE = re.compile("`{3,}")
HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)
Resolve = Callable[[str], str]  # replaces marks by their pieces
Rows = list[list[tuple[LexborNode, str]]]


def table_markdown(table: LexborNode, resolved: Resolve) -> str:
    """Return a table as Markdown, or "" if it is not a table of data or too large."""
    if attribute(table, "role") in {"presentation", "none"}:
        return ""
    rows = rows_of(table, resolved)
    if not is_data(table, rows):
        return ""
    grid = spanned_grid(rows)
    if grid is None:
        return ""
    lines = [f"| {' | '.join(row)} |" for row in grid]
    caption = table.css_first("caption")
    title = cell_text(caption, resolved, " ") if caption is not None else ""
    return "\n".join([*([title, ""] if title else []), lines[0], "|" + " --- |" * len(grid[0]), *lines[1:]])


def rows_of(table: LexborNode, resolved: Resolve) -> Rows:
    """Return the cells of each row with their texts, without rows that have no cells."""
    rows = []
    for row in table.css("tr"):
        cells = [cell for cell in reversed(children_backwards(row)) if cell.tag in {"td", "th"}]
        if cells:
            rows.append([(cell, cell_text(cell, resolved, "<br>")) for cell in cells])
    return rows


def is_data(table: LexborNode, rows: Rows) -> bool:
    """Return whether a table has data: two or more rows and columns, and no cells of a layout."""
    texts = [text for row in rows for _, text in row]
    # A table with one cell in each row has one column.
    if len(rows) < 2 or len(texts) == len(rows):
        return False
    size = sum(map(len, texts))
    if size == 0 or max(map(len, texts)) > MAX_CELL or table.css_first(LAYOUT) is not None:
        return False
    if DATA.search(attribute(table, "class")):
        return True
    if linked_characters(table) > MAX_LINKED * size:
        return False
    return table.css_first("th, thead, caption") is not None or has_form_of_data(texts)


def has_form_of_data(texts: list[str]) -> bool:
    """Return whether most cells have a text and the texts are short."""
    return texts.count("") <= MAX_EMPTY * len(texts) and sum(map(len, texts)) <= MAX_MEAN_CELL * len(texts)


def linked_characters(table: LexborNode) -> int:
    return sum(len(link.text().strip()) for link in table.css("a"))


def spanned_grid(rows: Rows) -> list[list[str]] | None:
    """Return texts by row and column, or None if there are too many.

    All rows are as wide as the widest row. The further places that a cell spans are empty.
    """
    # The rows, from the current one on, that cells of earlier rows span in a column.
    spanned, grid, size, max_columns = dict[int, int](), list[list[str]](), 0, limits().table_columns
    for row in rows:
        line, column = list[str](), 0
        for cell, text in row:
            while spanned.get(column, 0) > 0 and column < max_columns:
                line.append("")
                column += 1
            width = span(cell, "colspan", max_columns - column)
            line.extend([text, *[""] * (width - 1)])
            for k in range(column, column + width):
                spanned[k] = span(cell, "rowspan", len(rows)) if k < max_columns else 0
            column += width
        spanned = {k: count - 1 for k, count in spanned.items() if count > 1}
        grid.append(line)
        size += len(line)
        if size > limits().table_cells:
            return None
    return rectangle(grid)


def rectangle(grid: list[list[str]]) -> list[list[str]] | None:
    """Return rows of equal width, without empty rows and last columns; None if there are too many cells."""
    width = max((k + 1 for line in grid for k, text in enumerate(line) if text), default=1)
    if width * len(grid) > limits().table_cells:
        return None
    return [[*line[:width], *[""] * (width - len(line))] for line in grid if any(line)] or [[""]]


def span(cell: LexborNode, name: str, max_span: int) -> int:
    """Return the number of rows or columns in an attribute of a cell, from 1 to `max_span`; 1 if it is invalid."""
    value = attribute(cell, name).strip()
    return max(1, min(int(value), max_span)) if value.isascii() and value.isdigit() and len(value) < 6 else 1


def cell_text(cell: LexborNode, resolved: Resolve, line_break: str) -> str:
    """Return the text of a cell as one line of Markdown, with `line_break` for line ends."""
    text = resolved("".join(texts_in(cell)))
    return without_line_marks(line_break.join(lines_in(text))).replace("|", "\\|")


def lines_in(text: str) -> Iterator[str]:
    """Yield the lines of a cell: code unchanged, other text without the white space that browsers remove."""
    fence = ""
    for line in text.split("\n"):
        if fence:
            yield line.rstrip()
            fence = "" if line == fence else fence
        elif line := " ".join(line.split()):
            yield line
            fence = match[0] if (match := FENCE.match(line)) else ""


def texts_in(cell: LexborNode) -> Iterator[str]:
    """Yield the texts in a cell, with line ends before and after elements that are displayed on separate lines."""
    pending: list[LexborNode | str] = list(children_backwards(cell))
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif node.is_text_node:
            yield (node.text_content or "").replace("\n", " ")
        elif node.is_element_node and node.tag not in DROPPED and not is_hidden(node):
            if node.tag in LINES:
                yield "\n"
                pending.append("\n")
            pending.extend(children_backwards(node))


def is_hidden(node: LexborNode) -> bool:
    attributes = node.attributes
    return bool(attributes) and ("hidden" in attributes or bool(HIDDEN.search(attributes.get("style") or "")))
