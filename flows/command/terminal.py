"""What is printed to, and how times are."""

from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

PIPE_WIDTH = 120
ENDS_OF_LINES_AND_TABS = "\n\t"
# What a terminal would obey: the control characters, of which some have pictures, and those that turn texts round.
PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in ENDS_OF_LINES_AND_TABS} | {
    0x7F: 0x2421
}
OBEYED = [*range(0x80, 0xA0), 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
INERT = PICTURES | dict.fromkeys(OBEYED, 0xFFFD)


def inert(text: str) -> str:
    """Write a text of whatever origin so that no terminal does what it says, and any can be given it."""
    return text.translate(INERT).encode("utf-8", "replace").decode()


class InertConsole(Console):
    """Rich's console, which prints texts that come from documents, paths and recipes as texts alone."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else inert(text), style, control)


def console(**options: Any) -> Console:
    """Return a console as wide as the terminal, or wide enough where the output is a file."""
    terminal = InertConsole(highlight=False, **options)
    return terminal if terminal.is_terminal else InertConsole(highlight=False, width=PIPE_WIDTH, **options)


def say(line: str) -> None:
    """Print a line as it is, however long."""
    typer.echo(inert(line))


def as_time(seconds: float) -> str:
    """Write a duration as people say it."""
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{round(seconds)} seconds" if round(seconds) > 1 else "1 second"
