"""A progress bar for each stage, in the terminal of whoever started the build."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tasks.stage.progress import TOPIC
from tasks.stage.spread import WARNINGS
from tasks.workers.events import follow


class Bars:
    """One bar for each stage, over the shards of all its sources."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.ids: dict[str, TaskID] = {}
        self.counts: dict[str, dict[str, tuple[int, int]]] = {}

    def __call__(self, report: dict[str, Any]) -> None:
        """Move the bar of a stage to where a report of one of its sources says."""
        stage = report["stage"]
        if not report["total"]:
            return
        counts = self.counts.setdefault(stage, {})
        counts[str(report["source"])] = report["done"], report["total"]
        done, total = (sum(numbers) for numbers in zip(*counts.values(), strict=True))
        if stage not in self.ids:
            self.ids[stage] = self.bars.add_task(stage, total=total)
        self.bars.update(self.ids[stage], completed=done, total=total)


@contextmanager
def pass_on_warnings() -> Iterator[None]:
    """Write into the flow run's log what the workers warn of."""
    context = FlowRunContext.get()
    if context is not None:
        log = get_run_logger()
        follow(context.task_runner, WARNINGS, lambda text: log.warning("%s", text))
    yield


@contextmanager
def progress_bars() -> Iterator[None]:
    """Show bars while the flow runs, where its standard error is a terminal."""
    context = FlowRunContext.get()
    columns = (
        TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TextColumn("shards"),
        TimeElapsedColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        if context is not None:
            follow(context.task_runner, TOPIC, Bars(bars))
        yield
