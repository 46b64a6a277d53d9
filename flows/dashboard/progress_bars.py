"""The progress of each stage, in the terminal in which the build was started: bars, or a line each minute."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from zyda_flows.flows.dashboard.rows import Row
from zyda_flows.flows.dashboard.state import BuildState
from zyda_flows.flows.reporting.markdown import duration
from zyda_flows.tasks.stage.fan_out import WARNINGS, current_run
from zyda_flows.tasks.workers.events import follow

SECONDS_BETWEEN_LINES = 60.0


class Bars:
    """A bar for each stage that has begun, over all its sources."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.ids: dict[str, TaskID] = {}

    def __call__(self, state: BuildState) -> None:
        """Update the bars to the state of the stages."""
        with state.lock:
            begun = {name: (state.fraction_of(row), size_of(row)) for name, row in state.rows.items()
                     if row.began is not None}  # fmt: skip
        for name, (fraction, size) in begun.items():
            if name not in self.ids:
                self.ids[name] = self.bars.add_task(name, total=1.0, size="")
            self.bars.update(self.ids[name], completed=fraction, size=size)


class ProgressLines:
    """A line at regular intervals, for an output that is not a terminal."""

    seconds_between = SECONDS_BETWEEN_LINES

    def __init__(self, console: Console) -> None:
        self.console, self.last = console, time.monotonic()

    def __call__(self, state: BuildState) -> None:
        """Print the progress of the running stages, at most once in `seconds_between`."""
        if time.monotonic() - self.last < self.seconds_between:
            return
        self.last = time.monotonic()
        with state.lock:
            sizes = [
                f"{name} {size_of(state.rows[name])}".rstrip()
                for name in state.now_at()
                if name in state.rows and state.fraction_of(state.rows[name]) < 1
            ]
            left = state.seconds_left()
        rest = "" if left is None else f"; about {duration(left)} left"
        where = ", ".join(sizes) or "between two stages"
        self.console.print(
            f"{duration(state.seconds)}: {where}{rest}",
            highlight=False,
            soft_wrap=True,
        )


def size_of(row: Row) -> str:
    """Return the numbers of finished and of known shards of a stage: "3/8 shards", or "" if none is known."""
    cells = row.cells.values()
    done, known = sum(cell.done for cell in cells), sum(cell.total for cell in cells)
    return f"{known if row.is_over else done:,}/{known:,} shards" if known else ""


@contextmanager
def pass_on_warnings() -> Iterator[None]:
    """Write the warnings of the workers to the log of the flow run."""
    context = FlowRunContext.get()
    if context is not None:
        log = get_run_logger()
        follow(context.task_runner, WARNINGS, current_run(), lambda text: log.warning("%s", text))
    yield


@contextmanager
def progress_bars(state: BuildState) -> Iterator[None]:
    """Show the progress while the block runs: bars if standard error is a terminal, else a line each minute."""
    columns = (
        TextColumn("{task.description:10}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[size]}"),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        state.followers.append(Bars(bars) if console.is_terminal else ProgressLines(console))
        try:
            yield
        finally:
            state.followers.clear()
