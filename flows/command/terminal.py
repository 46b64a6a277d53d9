"""Print to the terminal, and format tables, sizes, times and values."""

import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import typer

from zyda_flows.flows.command.inert_text import inert
from zyda_flows.tasks.errors import Denied

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FILES_AT_ONCE = 16
PIPE_WIDTH = 120
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def console(**options: Any) -> "Console":
    """Return a console with the width of the terminal, or PIPE_WIDTH if the output is no terminal."""
    from zyda_flows.flows.command.inert_console import InertConsole  # late

    terminal = InertConsole(highlight=False, **options)
    return terminal if terminal.is_terminal else InertConsole(highlight=False, width=PIPE_WIDTH, **options)


def table_of(*columns: str, words: Collection[str], title: str | None = None) -> "Table":
    """Return a table whose cells wrap. words: the columns that are not numbers, and are aligned to the left."""
    from rich.table import Table  # late

    table = Table(title=title, title_justify="left", padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in words else "right", overflow="fold")
    return table


def say_if_compiling(err: "Console") -> None:
    """Print a note if kernels have to be compiled on this machine first."""
    from zyda_flows.textkernels.compiled import are_compiled  # late

    if not are_compiled():
        err.print("compiling kernels for this machine, only once: about a minute")


def say(line: str) -> None:
    """Print a line without wrapping."""
    typer.echo(inert(line))


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask for a confirmation. Raises Denied if there is no terminal, and Abort if the answer is no."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise Denied(
            "standard input is not a terminal, so you cannot confirm; nothing was changed: add --yes to remove"
        )
    typer.confirm(question, abort=True, err=True)


def as_time(seconds: float) -> str:
    """Return a duration with one rounded unit, for example `3 hours`."""
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{round(seconds)} seconds" if round(seconds) > 1 else "1 second"


def as_size(size: int) -> str:
    """Return a number of bytes with a unit, for example `1.5 MiB`."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} bytes"


def in_short(value: object) -> str:
    """Return a value of a column as a short text."""
    if isinstance(value, list):
        return " and ".join(map(str, value)) or "nothing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def in_threads(
    function: Callable[[Any], Any], items: Sequence[Any], *, shown: bool = True, **_: object
) -> list[Any]:
    """Call a function on all items in threads. shown: show a progress bar on a terminal."""
    from concurrent.futures import ThreadPoolExecutor  # late

    from rich.progress import track  # late

    stderr = console(stderr=True)
    threads = ThreadPoolExecutor(FILES_AT_ONCE)
    try:
        results = threads.map(function, items)
        return list(
            track(
                results, "inspecting files", total=len(items), console=stderr, transient=True,
                disable=not (shown and stderr.is_terminal),
            )
        )  # fmt: skip
    finally:
        threads.shutdown(cancel_futures=True)
