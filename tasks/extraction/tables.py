"""Tables of data as Markdown; tables that only lay out a page are none."""

import re
from collections.abc import Callable, Iterator

from selectolax.lexbor import LexborNode

from zyda_flows.tasks.extraction.marks import finished
from zyda_flows.tasks.extraction.nodes import children_backwards
from zyda_flows.tasks.limits import limits

LONGEST_CELL = 3000  # characters; what is longer is part of a page
CELL_WITHOUT_HEADER = 150  # characters in the mean, where nothing but its form makes it a table
MOST_LINKED = 0.7  # share of characters in links
MOST_EMPTY = 0.6
LINES = frozenset({"br", "p", "div", "li", "dt", "dd", "ul", "ol", "pre", "blockquote", "tr", "table"})
DROPPED = frozenset({"script", "style", "template", "button", "select", "textarea", "noscript", "svg"})
DATA = re.compile(
    r"(?:^|\s)(?:docutils|wikitable|dataframe|data-?table|infobox|sortable)(?:\s|$)", re.IGNORECASE
)
FENCE = re.compile("`{3,}")
HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)
Resolve = Callable[[str], str]  # puts pieces where their marks are
Rows = list[list[tuple[LexborNode, str]]]


def table_markdown(table: LexborNode, resolved: Resolve) -> str:
    """Write a table as Markdown, or return "" where it is none."""
    if (table.attributes.get("role") or "") in {"presentation", "none"}:
        return ""
    rows = rows_of(table, resolved)
    if not is_data(table, rows):
        return ""
    grid = grid_of(rows)
    if grid is None:
        return ""
    lines = [f"| {' | '.join(row)} |" for row in grid]
    caption = table.css_first("caption")
    title = cell_text(caption, resolved, " ") if caption is not None else ""
    return "\n".join([*([title, ""] if title else []), lines[0], "|" + " --- |" * len(grid[0]), *lines[1:]])


def rows_of(table: LexborNode, resolved: Resolve) -> Rows:
    """Return the cells of each row that has any, with their texts."""
    rows = []
    for row in table.css("tr"):
        cells = [cell for cell in reversed(children_backwards(row)) if cell.tag in {"td", "th"}]
        if cells:
            rows.append([(cell, cell_text(cell, resolved, "<br>")) for cell in cells])
    return rows


def is_data(table: LexborNode, rows: Rows) -> bool:
    """Say whether a table has data: at least two rows and columns, and cells that are no parts of a page."""
    texts = [text for row in rows for _, text in row]
    if len(rows) < 2 or max(map(len, rows)) < 2 or max(map(len, texts)) > LONGEST_CELL or not any(texts):
        return False
    if table.css_first("h1, h2, form, iframe, nav, article") is not None:
        return False
    if DATA.search(table.attributes.get("class") or ""):
        return True
    size = sum(map(len, texts))
    if sum(len(link.text().strip()) for link in table.css("a")) > MOST_LINKED * size:
        return False
    if table.css_first("th, thead, caption") is not None:
        return True
    empty = sum(not text for text in texts)
    return empty <= MOST_EMPTY * len(texts) and size <= CELL_WITHOUT_HEADER * len(texts)


def grid_of(rows: Rows) -> list[list[str]] | None:
    """Return texts by row and column, or None where they are too many.

    All rows are as wide as the widest one. Where a cell spans further places, these are empty.
    """
    taken, grid, places, most_columns = dict[int, int](), list[list[str]](), 0, limits().table_columns
    for row in rows:
        line, column = list[str](), 0
        for cell, text in row:
            while taken.get(column, 0) > 0 and column < most_columns:
                line.append("")
                column += 1
            width = span(cell, "colspan", most_columns - column)
            line.extend([text, *[""] * (width - 1)])
            for k in range(column, column + width):
                taken[k] = span(cell, "rowspan", len(rows)) if k < most_columns else 0
            column += width
        taken = {k: left - 1 for k, left in taken.items() if left > 1}
        grid.append(line)
        places += len(line)
        if places > limits().table_cells:
            return None
    return padded(grid)


def padded(grid: list[list[str]]) -> list[list[str]] | None:
    """Return rows of one width, without empty columns at the end and empty rows; None where cells are too many."""
    width = max((k + 1 for line in grid for k, text in enumerate(line) if text), default=1)
    if width * len(grid) > limits().table_cells:
        return None
    return [[*line[:width], *[""] * (width - len(line))] for line in grid if any(line)] or [[""]]


def span(cell: LexborNode, name: str, most: int) -> int:
    said = (cell.attributes.get(name) or "1").strip()
    return max(1, min(int(said), most)) if said.isascii() and said.isdigit() and len(said) < 6 else 1


def cell_text(cell: LexborNode, resolved: Resolve, line_break: str) -> str:
    """Return the text of a cell on one line of Markdown, in which `line_break` stands for ends of lines."""
    text = resolved("".join(texts_of(cell)))
    return finished(line_break.join(lines_of(text))).replace("|", "\\|")


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a cell: of code as they are, of other text without the white space that browsers drop."""
    fence = ""
    for line in text.split("\n"):
        if fence:
            yield line.rstrip()
            fence = "" if line == fence else fence
        elif line := " ".join(line.split()):
            yield line
            fence = match[0] if (match := FENCE.match(line)) else ""


def texts_of(cell: LexborNode) -> Iterator[str]:
    """Yield the texts in a cell, with ends of lines where elements begin or end one."""
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
