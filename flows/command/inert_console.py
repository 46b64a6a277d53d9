"""A console that prints texts of whatever origin as texts alone, which no terminal obeys."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from flows.command.inert_text import inert


class InertConsole(Console):
    """Rich's console, which prints texts that come from documents, paths and recipes as texts alone."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else inert(text), style, control)
