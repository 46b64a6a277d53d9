"""Show the progress of copying or reading: a bar on a terminal, otherwise a line per minute."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zyda_flows.flows.command.terminal import as_size, console

SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def bar_or_lines(verb: str, size: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds bytes to the progress. verb: past participle for the lines. size: all bytes."""
    from rich.progress import (  # late
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    err = console(stderr=True, soft_wrap=True)
    columns = (
        TextColumn(verb), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    done, last = 0, time.monotonic()
    with Progress(*columns, console=err, disable=not err.is_terminal) as bars:
        bar = bars.add_task(verb, total=size)

        def advance(more: int) -> None:
            nonlocal done, last
            done += more
            bars.advance(bar, more)
            if not err.is_terminal and time.monotonic() - last > SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                err.print(f"{as_size(done)} of {as_size(size)} {verb}", highlight=False)

        yield advance
