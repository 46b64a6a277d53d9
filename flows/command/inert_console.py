"""A console that replaces control characters, and prints tables that are too wide as lists."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table

from zyda_flows.flows.command.inert_text import inert

MOST_OF_WORDS = 16  # characters that a column of words needs; longer words may break
COLUMN_GAP = 2  # characters between columns: a space and a line


class InertConsole(Console):
    """Rich's console, without control characters of texts from documents, paths and recipes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else inert(text), style, control)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; print a table whose numbers do not fit on a line of the terminal as a list."""
        for printed in objects:
            if isinstance(printed, Table) and width_of(printed) > self.width:
                for line in as_list(printed):
                    super().print(line, soft_wrap=True)
                return
        super().print(*objects, **options)


def width_of(table: Table) -> int:
    """Return the characters that a table needs to keep numbers and words of the head on a line."""
    return 1 + sum(needed(column) + COLUMN_GAP for column in table.columns)


def needed(column: Column) -> int:
    is_number, lines = column.justify == "right", str(column.header).splitlines()
    words = [word for cell in column.cells for word in ([str(cell)] if is_number else str(cell).split())]
    heads = lines if column.no_wrap else str(column.header).split()
    longest = max((len(word) for word in words), default=0)
    return max([longest if is_number else min(longest, MOST_OF_WORDS), *map(len, heads)])


def as_list(table: Table) -> Iterator[str]:
    """Yield a table as lines: the first cell of each row, followed by its other cells with their names."""
    if table.title:
        yield f"[italic]{table.title}[/]"
    first, *others = [(" ".join(str(column.header).split()), [*column.cells]) for column in table.columns]
    for place, cell in enumerate(first[1]):
        yield f"[bold]{cell}[/]"
        yield from (f"  {name}: {cells[place]}" for name, cells in others if name and cells[place])
