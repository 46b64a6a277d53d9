"""What is printed to, and how tables, sizes, times and values are."""

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
    """Return a console as wide as the terminal, or wide enough where the output is a file."""
    from zyda_flows.flows.command.inert_console import InertConsole  # late

    terminal = InertConsole(highlight=False, **options)
    return terminal if terminal.is_terminal else InertConsole(highlight=False, width=PIPE_WIDTH, **options)


def table_of(*columns: str, words: Collection[str], title: str | None = None) -> "Table":
    """Return a table whose cells break where there is no room. words: the columns that are no numbers."""
    from rich.table import Table  # late

    table = Table(title=title, title_justify="left", padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in words else "right", overflow="fold")
    return table


def say_if_compiling(err: "Console") -> None:
    """Tell who waits for it where kernels have not been compiled on this machine."""
    from zyda_flows.textkernels.compiled import are_compiled  # late

    if not are_compiled():
        err.print("this machine compiles its kernels first, once: that takes about a minute")


def say(line: str) -> None:
    """Print a line as it is, however long."""
    typer.echo(inert(line))


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask whether to go on. Raises Denied where nobody can answer, and Abort where the answer is no."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise Denied("nobody is there to confirm it, and nothing was changed: add --yes to remove it")
    typer.confirm(question, abort=True, err=True)


def as_time(seconds: float) -> str:
    """Write a duration as people say it."""
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{round(seconds)} seconds" if round(seconds) > 1 else "1 second"


def as_size(size: int) -> str:
    """Write a number of bytes as people read it."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} bytes"


def in_short(value: object) -> str:
    """Write a value of a column as people read it."""
    if isinstance(value, list):
        return " and ".join(map(str, value)) or "nothing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def in_threads(
    function: Callable[[Any], Any], items: Sequence[Any], *, shown: bool = True, **_: object
) -> list[Any]:
    """Call a function on every item, some at once, with a bar on a terminal where it is to be shown."""
    from concurrent.futures import ThreadPoolExecutor  # late

    from rich.progress import track  # late

    stderr = console(stderr=True)
    threads = ThreadPoolExecutor(FILES_AT_ONCE)
    try:
        results = threads.map(function, items)
        return list(
            track(
                results, "looking into files", total=len(items), console=stderr, transient=True,
                disable=not (shown and stderr.is_terminal),
            )
        )  # fmt: skip
    finally:
        threads.shutdown(cancel_futures=True)
