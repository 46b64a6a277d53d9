"""How far a build is: what its workers report, and the receipts of what has been finished."""

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
    LEAST,
    ONCE,
    START,
    USUAL,
    Clockwork,
    WorkPart,
)
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.quality.cost import CORES, seconds_of
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.results import flat_receipts
from zyda_flows.tasks.storage.artifacts import Counts, Receipt
from zyda_flows.textkernels.compiled import are_compiled

UNSIZED = 0.05  # of a build, at most, before anything is known of its size
STARTING, ENDING = "start", "end"  # of a build: before its first stage, and after its last


class BuildState:
    """What is known of a build; told by several threads, read by those that show it."""

    def __init__(self, recipe: Recipe, clock: Callable[[], float] = time.monotonic) -> None:
        self.recipe = recipe
        self.clock = clock
        self.started = clock()
        self.ended: float | None = None
        self.why = ""
        self.outcome = ""  # empty while it runs, then `complete`, or what ended it
        self.waits_for = ""
        self.counting = ""  # by what tokens are counted, and about how fast
        self.spent = dict[str, tuple[str, Spent]]()  # so far, each time that a stage spread its work
        self.limits = dict[str, float]()  # until when hosts have asked to wait, in seconds of `time.time`
        self.clockwork = Clockwork()
        self.farthest = 0.0
        self.is_compiled = are_compiled()
        self.lock = threading.RLock()
        # Not that lock: to fetch a result takes the thread in which reports are heard, which waits for that one.
        self.looking = threading.Lock()
        self.followers = list[Callable[[BuildState], None]]()
        self.rows = dict[str, Row]()
        self.begin()

    def begin(self) -> None:
        """Begin at the first stage, also where damage has sent a build back to it."""
        with self.lock:
            if self.waits_for:
                self.waits_for, self.started = "", self.clock()
            self.rows = {
                step.name: Row(step, {source: Cell() for source in step.sources or (None,)})
                for step in pipeline.visible_steps(self.recipe)
            }
            self.clockwork, self.farthest = Clockwork(), 0.0

    def wait(self, why: str) -> None:
        """Know that the build cannot begin yet."""
        with self.lock:
            self.waits_for = why

    def hear(self, report: dict[str, Any]) -> None:
        """Take what a stage's task says of itself: `tasks.stage.progress.Progress.tell_followers`."""
        with self.lock:
            if "spent" in report:
                self.spent[report["number"]] = (report["stage"], Spent(**report["spent"]))
                if "done" not in report:
                    return
            if "host" in report:
                self.limits[report["host"]] = max(report["until"], self.limits.get(report["host"], 0.0))
                return
            row = self.rows.get(report["stage"])
            if row is None or row.is_over:  # of a part of a stage, or one that came late
                return
            source = report["source"] if row.step.sources else None
            if source not in row.cells:
                return
            cell = row.cells[source]
            if "part" in report:
                cell.inside[report["shard"]] = report["part"]
                return
            row.began = self.clock() if row.began is None else row.began
            cell.done, cell.total = report["done"], report["total"]
            cell.seen = Counts(**report["seen"])
        self.tell()

    def spending(self) -> dict[str, Spent]:
        """Return what each stage has taken in this run."""
        by_stage = dict[str, Spent]()
        with self.lock:
            for stage, spent in self.spent.values():
                by_stage[stage] = by_stage.get(stage, Spent()) + spent
        return by_stage

    def hosts_waited_for(self) -> dict[str, float]:
        """Return the hosts that limit requests now, with the seconds that they have asked to wait."""
        now = time.time()
        return {host: until - now for host, until in self.limits.items() if until > now}

    def wait_for(self, stage: str, future: PrefectFuture[Any]) -> None:
        """Know a stage's task, to take the receipts when it is over."""
        with self.lock:
            if row := self.rows.get(stage):
                row.futures.append(future)
                row.ended = None

    def look(self) -> None:
        """Take the receipts of tasks that are over."""
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
            self.tell()

    def take(self, row: Row, result: Any) -> None:
        """Know what one of a stage's tasks returned or raised."""
        if isinstance(result, UnfinishedRun):  # what it was waiting for has failed
            row.is_held_up = True
            return
        results = result if isinstance(result, list) else [result]
        for receipt in flat_receipts([one for one in results if isinstance(one, Receipt)]):
            cell = row.cells.setdefault(receipt.source, Cell())
            cell.receipt = receipt
        now = self.clock()
        row.began = now if row.began is None else row.began
        row.has_failed |= isinstance(result, BaseException)
        if not (row.futures or row.has_failed or row.is_held_up):
            row.ended = now

    def note_time(self) -> None:
        """Know what the stages have cost so far, and how much of each is done."""
        parts, now, weights = self.clockwork.parts, self.clock(), self.weights
        self.clockwork.spend(now)
        start = parts.setdefault(STARTING, WorkPart(START))
        start.know(0.0, float(self.has_begun), 1.0, is_on=not self.has_begun)
        for name, row in self.rows.items():
            part = parts.setdefault(
                name, WorkPart(ONCE.get(name.rstrip("0123456789"), USUAL))
            )  # of whatever round
            part.waves = sum(cell.total for cell in row.cells.values()) / CORES
            done, made = self.fraction_of(row), row.made_now(weights)
            at_something = any(cell.total and not cell.receipt for cell in row.cells.values())
            part.know(
                self.cost_by_size(row), 1 - (1 - done) / made if made else 1.0, made,
                is_on=at_something and not row.is_over,
            )  # fmt: skip
        parts.setdefault(ENDING, WorkPart(END)).know(0.0, 0.0, 1.0, is_on=self.is_at_end)
        self.farthest = max(self.farthest, min(self.clockwork.fraction(), 1.0 if self.is_sized else UNSIZED))

    def fraction_of(self, row: Row) -> float:
        """Return how much of a stage is done."""
        return row.fraction(self.weights, partial(self.entering, row))

    def entering(self, row: Row, source: str | None) -> int | None:
        """Return the bytes of a source that a stage finds left, where the stages before it have said so."""
        before = takewhile(lambda other: other is not row, self.rows.values())
        receipts = [cell.receipt for other in before if (cell := other.cells.get(source)) and cell.receipt]
        return receipts[-1].out.bytes if receipts else None

    def cost_by_size(self, row: Row) -> float:
        """Return what the text and the shards of a stage's sources usually cost: seconds."""
        cells = self.rows["ingest"].cells
        sources = row.step.sources or self.rows["ingest"].step.sources
        sizes = {source: cells[source].size for source in sources}
        if row.step.name != "classify":
            megabytes = sum(size.bytes for size in sizes.values()) / 1e6
            shards = sum(cells[source].total for source in sizes)
            kind = row.step.name.rstrip("0123456789")  # of whatever round
            return megabytes * EACH_MB.get(kind, 0.0) + shards * EACH_SHARD.get(kind, 0.0)
        models = {source: self.recipe.source(source).classify for source in sizes}
        return sum(
            seconds_of(model, sizes[source].documents, sizes[source].tokens)
            for source, model in models.items()
            if model
        )

    def finish(self, outcome: str = "complete", why: str = "") -> None:
        """Know that the build is over, and how."""
        self.look()
        with self.lock:
            self.outcome, self.why, self.ended = outcome, why, self.clock()
        self.tell()

    def tell(self) -> None:
        for follower in self.followers:
            follower(self)

    @property
    def seconds(self) -> float:
        return (self.ended or self.clock()) - self.started

    @property
    def weights(self) -> dict[str | None, int]:
        """The bytes of text of each source, as far as they are known or can be judged."""
        return weights_of(self.rows["ingest"].cells)

    @property
    def fraction(self) -> float:
        """How much of the build is done, by time."""
        return 1.0 if self.is_at_end else self.farthest

    def seconds_left(self) -> float | None:
        """Return about how long the build goes on, or None where nobody can say yet."""
        if self.outcome or self.is_at_end or not self.is_sized or self.farthest < LEAST:
            return None
        return self.clockwork.left()

    @property
    def is_sized(self) -> bool:
        """Whether enough text has been read to judge the rest by."""
        return self.fraction_of(self.rows["ingest"]) >= LEAST

    @property
    def has_begun(self) -> bool:
        return any(row.began is not None for row in self.rows.values())

    @property
    def is_at_end(self) -> bool:
        """Whether all stages are over, and what is left is to put it in place and to show it."""
        return all(row.is_over for row in self.rows.values())

    def seconds_left_of(self, row: Row) -> float | None:
        """Return about how long a stage goes on, or None where nobody can say yet."""
        part = self.clockwork.parts.get(row.step.name)
        return part.left(self.clockwork.pace) if part and part.done else None

    def now_at(self) -> list[str]:
        """Return the stages that are under way."""
        if self.is_at_end:
            return ["card, accounts and report"]
        return [name for name, row in self.rows.items() if row.began is not None and not row.is_over]

    def lines_of(self, source: str) -> list[tuple[str, Receipt]]:
        """Return what stages made of a source, in their order."""
        return [
            (name, cell.receipt)
            for name, row in self.rows.items()
            if row.step.sources and (cell := row.cells.get(source)) and cell.receipt
        ]


def is_over(future: PrefectFuture[Any]) -> bool:
    wrapped = getattr(future, "wrapped_future", None)
    return bool(wrapped is not None and wrapped.done())


def result_of(future: PrefectFuture[Any]) -> Any:
    """Return what a task that is over returned or raised; whoever waits for it says what was wrong."""
    try:
        return future.result(raise_on_failure=False)
    except Exception as error:  # noqa: BLE001 (of Prefect's, or of the task's own)
        return error
