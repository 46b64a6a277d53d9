"""The progress of a build, from the reports of its workers and the receipts of finished stages."""

import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any

from prefect.exceptions import UnfinishedRun
from prefect.futures import PrefectFuture

from zyda_flows.flows.dashboard.rows import Cell, Row, weights_of
from zyda_flows.flows.dashboard.time_left import (
    EACH_MB,
    EACH_SHARD,
    END,
    LEAST_FRACTION,
    ONCE,
    START,
    USUAL,
    Clockwork,
    WorkPart,
)
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.quality.cost import CORES, seconds_of
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.results import flat_receipts
from zyda_flows.tasks.storage.artifacts import Receipt
from zyda_flows.textkernels.compiled import are_compiled

UNSIZED = 0.05  # the largest fraction of a build that is shown before the size of the build is known
STARTING, ENDING = "start", "end"  # of a build: before its first stage, and after its last


class BuildState:
    """The progress of a build. Several threads update and read it, under `lock`."""

    def __init__(self, recipe: Recipe, clock: Callable[[], float] = time.monotonic) -> None:
        self.recipe = recipe
        self.clock = clock
        self.started = clock()
        self.ended: float | None = None
        self.why = ""
        self.outcome = ""  # empty while the build runs, then `complete`, `failed` or `interrupted`
        self.waits_for = ""
        self.token_counter = ""  # the tokenizer that counts tokens, and its approximate speed
        self.spent = dict[
            str, tuple[str, Spent]
        ]()  # the costs so far of each call of `fan_out`, with its stage
        self.limits = dict[str, float]()  # the time of `time.time` until which a host limits requests
        self.clockwork = Clockwork()
        self.farthest = 0.0
        self.is_compiled = are_compiled()
        self.lock = threading.RLock()
        # A second lock, because fetching a result needs the thread that receives reports, and that thread waits
        # for `lock`.
        self.looking = threading.Lock()
        self.followers = list[Callable[[BuildState], None]]()
        self.rows = dict[str, Row]()
        self.begin()

    def begin(self) -> None:
        """Begin at the first stage, also after damage has restarted the build."""
        with self.lock:
            if self.waits_for:
                self.waits_for, self.started = "", self.clock()
            self.rows = {
                step.name: Row(step, {source: Cell() for source in step.sources or (None,)})
                for step in pipeline.visible_steps(self.recipe)
            }
            self.clockwork, self.farthest = Clockwork(), 0.0

    def wait(self, why: str) -> None:
        """Record why the build cannot begin yet."""
        with self.lock:
            self.waits_for = why

    def add_report(self, report: dict[str, Any]) -> None:
        """Record a report of a stage's task, as sent by `tasks.stage.progress.Progress.send_report`."""
        with self.lock:
            if "spent" in report:
                self.spent[report["report_id"]] = (report["stage"], Spent(**report["spent"]))
                if "done" not in report:
                    return
            if "host" in report:
                self.limits[report["host"]] = max(report["until"], self.limits.get(report["host"], 0.0))
                return
            row = self.rows.get(report["stage"])
            if row is None or row.is_over:  # the report is about a part of a stage, or it is late
                return
            source = report["source"] if row.step.sources else None
            if source not in row.cells:
                return
            cell = row.cells[source]
            if "fraction" in report:
                cell.shard_fractions[report["shard"]] = report["fraction"]
                return
            row.began = self.clock() if row.began is None else row.began
            cell.count(report)
        self.notify_followers()

    def spending(self) -> dict[str, Spent]:
        """Return the costs of each stage in this run."""
        by_stage = dict[str, Spent]()
        with self.lock:
            for stage, spent in self.spent.values():
                by_stage[stage] = by_stage.get(stage, Spent()) + spent
        return by_stage

    def hosts_waited_for(self) -> dict[str, float]:
        """Return the hosts that limit requests now, with the seconds until the next request."""
        now = time.time()
        return {host: until - now for host, until in self.limits.items() if until > now}

    def wait_for(self, stage: str, future: PrefectFuture[Any]) -> None:
        """Add a task of a stage, whose receipts `look` collects when the task is over."""
        with self.lock:
            if row := self.rows.get(stage):
                row.futures.append(future)
                row.ended = None

    def look(self) -> None:
        """Collect the receipts of tasks that are over."""
        is_new = False
        with self.looking:
            with self.lock:
                waiting = [(row, future) for row in self.rows.values() for future in row.futures]
            for row, future in waiting:
                if is_over(future):
                    is_new, result = True, result_of(future)
                    with self.lock:
                        row.futures.remove(future)
                        self.take(row, result)
            with self.lock:
                self.note_time()
        if is_new:
            self.notify_followers()

    def take(self, row: Row, result: Any) -> None:
        """Record the result or the exception of a task of a stage."""
        if isinstance(result, UnfinishedRun):  # an earlier task has failed
            row.is_held_up = True
            return
        results = result if isinstance(result, list) else [result]
        for receipt in flat_receipts([item for item in results if isinstance(item, Receipt)]):
            cell = row.cells.setdefault(receipt.source, Cell())
            cell.receipt = receipt
        now = self.clock()
        row.began = now if row.began is None else row.began
        row.has_failed |= isinstance(result, BaseException)
        if not (row.futures or row.has_failed or row.is_held_up):
            row.ended = now

    def note_time(self) -> None:
        """Update the time that the stages have taken, and the finished fraction of each stage."""
        parts, now, weights = self.clockwork.parts, self.clock(), self.weights
        self.clockwork.spend(now)
        start = parts.setdefault(STARTING, WorkPart(START))
        start.update(0.0, float(self.has_begun), 1.0, is_on=not self.has_begun)
        for name, row in self.rows.items():
            part = parts.setdefault(
                name, WorkPart(ONCE.get(name.rstrip("0123456789"), USUAL))
            )  # without the number of the round
            part.waves = sum(cell.total for cell in row.cells.values()) / CORES
            done, made = self.fraction_of(row), row.fraction_made_now(weights)
            at_something = any(cell.total and not cell.receipt for cell in row.cells.values())
            part.update(
                self.cost_by_size(row), 1 - (1 - done) / made if made else 1.0, made,
                is_on=at_something and not row.is_over,
            )  # fmt: skip
        parts.setdefault(ENDING, WorkPart(END)).update(0.0, 0.0, 1.0, is_on=self.is_at_end)
        self.farthest = max(self.farthest, min(self.clockwork.fraction(), 1.0 if self.is_sized else UNSIZED))

    def fraction_of(self, row: Row) -> float:
        """Return the finished fraction of a stage."""
        return row.fraction(self.weights, partial(self.entering, row))

    def entering(self, row: Row, source: str | None) -> int | None:
        """Return the bytes of a source that a stage reads, or None if no earlier stage has a receipt."""
        before = takewhile(lambda other: other is not row, self.rows.values())
        receipts = [cell.receipt for other in before if (cell := other.cells.get(source)) and cell.receipt]
        return receipts[-1].out.bytes if receipts else None

    def cost_by_size(self, row: Row) -> float:
        """Return the usual seconds of a stage for the text and the shards of its sources."""
        cells = self.rows["ingest"].cells
        sources = row.step.sources or self.rows["ingest"].step.sources
        sizes = {source: cells[source].size for source in sources}
        if not isinstance(row.step.subject, Judged) or row.step.work.name != "classify":
            megabytes = sum(size.bytes for size in sizes.values()) / 1e6
            shards = sum(cells[source].total for source in sizes)
            kind = row.step.name.rstrip("0123456789")  # without the number of the round
            return megabytes * EACH_MB.get(kind, 0.0) + shards * EACH_SHARD.get(kind, 0.0)
        return sum(
            seconds_of(judge, sizes[source].documents, sizes[source].tokens)
            for source in sizes
            if (judge := row.step.subject.of(source))
        )

    def finish(self, outcome: str = "complete", why: str = "") -> None:
        """Record the outcome of the build, and the reason if it failed."""
        self.look()
        with self.lock:
            self.outcome, self.why, self.ended = outcome, why, self.clock()
        self.notify_followers()

    def notify_followers(self) -> None:
        for follower in self.followers:
            follower(self)

    @property
    def seconds(self) -> float:
        return (self.ended or self.clock()) - self.started

    @property
    def weights(self) -> dict[str | None, int]:
        """The bytes of text of each source, if they are known or can be estimated."""
        return weights_of(self.rows["ingest"].cells)

    @property
    def fraction(self) -> float:
        """The finished fraction of the build, by time."""
        return 1.0 if self.is_at_end else self.farthest

    def seconds_left(self) -> float | None:
        """Return an estimate of the remaining seconds of the build, or None if it cannot be estimated yet."""
        if self.outcome or self.is_at_end or not self.is_sized or self.farthest < LEAST_FRACTION:
            return None
        return self.clockwork.left()

    @property
    def is_sized(self) -> bool:
        """Whether enough text has been read to estimate the rest."""
        return self.fraction_of(self.rows["ingest"]) >= LEAST_FRACTION

    @property
    def has_begun(self) -> bool:
        return any(row.began is not None for row in self.rows.values())

    @property
    def is_at_end(self) -> bool:
        """Whether all stages are over, and only the card, the accounts and the report remain."""
        return all(row.is_over for row in self.rows.values())

    def seconds_left_of(self, row: Row) -> float | None:
        """Return an estimate of the remaining seconds of a stage, or None if it cannot be estimated yet."""
        part = self.clockwork.parts.get(row.step.name)
        return part.left(self.clockwork.pace) if part and part.done else None

    def now_at(self) -> list[str]:
        """Return the names of the running stages."""
        if self.is_at_end:
            return ["card, accounts and report"]
        return [name for name, row in self.rows.items() if row.began is not None and not row.is_over]

    def lines_of(self, source: str) -> list[tuple[str, Receipt]]:
        """Return the names and receipts of the stages that have finished a source, in the order of the stages."""
        return [
            (name, cell.receipt)
            for name, row in self.rows.items()
            if row.step.sources and (cell := row.cells.get(source)) and cell.receipt
        ]


def is_over(future: PrefectFuture[Any]) -> bool:
    wrapped = getattr(future, "wrapped_future", None)
    return bool(wrapped is not None and wrapped.done())


def result_of(future: PrefectFuture[Any]) -> Any:
    """Return the result or the exception of a task that is over; the flow itself reports the exception."""
    try:
        return future.result(raise_on_failure=False)
    except Exception as error:  # noqa: BLE001 (an exception of Prefect or of the task)
        return error
