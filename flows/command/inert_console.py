"""A console that prints texts of whatever origin as texts alone, which no terminal obeys."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table

from zyda_flows.flows.command.inert_text import inert

MOST_OF_WORDS = 16  # characters that a column of words needs; longer ones may break
BESIDE = 2  # characters of a column beside its cells: a space and a line


class InertConsole(Console):
    """Rich's console, which prints texts that come from documents, paths and recipes as texts alone."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else inert(text), style, control)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and write a table whose numbers would break on this terminal as a list, row by row."""
        for one in objects:
            if isinstance(one, Table) and width_of(one) > self.width:
                for line in as_list(one):
                    super().print(line, soft_wrap=True)
                return
        super().print(*objects, **options)


def width_of(table: Table) -> int:
    """Return how many characters a table needs so that no number and no word of its head breaks."""
    return 1 + sum(needed(column) + BESIDE for column in table.columns)


def needed(column: Column) -> int:
    is_number, lines = column.justify == "right", str(column.header).splitlines()
    words = [word for cell in column.cells for word in ([str(cell)] if is_number else str(cell).split())]
    heads = lines if column.no_wrap else str(column.header).split()
    longest = max((len(word) for word in words), default=0)
    return max([longest if is_number else min(longest, MOST_OF_WORDS), *map(len, heads)])


def as_list(table: Table) -> Iterator[str]:
    """Yield the lines of a table written as a list: the first cell of each row, and below it the others by name."""
    if table.title:
        yield f"[italic]{table.title}[/]"
    first, *others = [(" ".join(str(column.header).split()), [*column.cells]) for column in table.columns]
    for place, cell in enumerate(first[1]):
        yield f"[bold]{cell}[/]"
        yield from (f"  {name}: {cells[place]}" for name, cells in others if name and cells[place])
