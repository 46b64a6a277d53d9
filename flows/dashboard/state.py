"""How far a build is: what its workers report, and the receipts of what has been finished."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prefect.exceptions import UnfinishedRun
from prefect.futures import PrefectFuture

from tasks import pipeline
from tasks.pipeline import Step
from tasks.recipe.fields import Recipe
from tasks.stage.task import opened
from tasks.storage.artifacts import Counts, Receipt

# Of a build's time, as `python -m benchmarks.end_to_end` divides it between stages; what is not named costs nearly
# nothing. A model takes whatever it takes, and is left out of what is said of the time that is left.
SHARES = {"prepare": 1, "ingest": 66, "publish": 33}
SMALLEST = 0.2
UNKNOWN = ("classify",)
SECONDS_BETWEEN_PACES, LEAST_SECONDS, LONGEST_PACE = 1.0, 5.0, 120.0


@dataclass
class Cell:
    """A stage of a source, or of all: shards and what has been read of them, until its receipt is there."""

    done: int = 0
    total: int = 0
    seen: Counts = field(default_factory=Counts)
    receipt: Receipt | None = None

    @property
    def fraction(self) -> float:
        if self.receipt:
            return 1.0
        return self.done / self.total if self.total else 0.0


@dataclass
class Row:
    """A stage over all its sources."""

    step: Step
    cells: dict[str | None, Cell]
    began: float | None = None
    ended: float | None = None
    has_failed: bool = False
    is_held_up: bool = False  # by what a stage before it raised
    futures: list[PrefectFuture[Any]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.ended is not None

    @property
    def receipts(self) -> list[Receipt]:
        return [cell.receipt for cell in self.cells.values() if cell.receipt]

    @property
    def seen(self) -> Counts:
        """Documents, tokens and bytes that the stage has looked at, in this build or before."""
        return sum((entered(cell) for cell in self.cells.values()), Counts())

    @property
    def looked_at_now(self) -> Counts:
        """Those of the sources at which it looked in this build."""
        return sum((entered(cell) for cell in self.cells.values() if cell.total), Counts())

    def fraction(self, weights: dict[str | None, int]) -> float:
        """Return how much of the stage is done, by the size of the sources; of which it is not known, the mean."""
        if self.is_over:
            return 1.0
        usual = max(1.0, sum(weights.values()) / max(1, len(weights)))
        of_cells = [(weights.get(source, usual), cell.fraction) for source, cell in self.cells.items()]
        return sum(weight * part for weight, part in of_cells) / max(1, sum(weight for weight, _ in of_cells))

    def seconds(self, now: float) -> float:
        return 0.0 if self.began is None else (self.ended or now) - self.began


def entered(cell: Cell) -> Counts:
    if not cell.receipt:
        return cell.seen
    return cell.receipt.out + cell.receipt.removed


class Pace(NamedTuple):
    """How far the build and its stages were at a moment."""

    at: float
    whole: float
    stages: dict[str, float]


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
        self.paces = deque[Pace]()
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
                for step in pipeline.of_build(self.recipe)
            }
            self.paces.clear()

    def wait(self, why: str) -> None:
        """Know that the build cannot begin yet."""
        with self.lock:
            self.waits_for = why

    def hear(self, report: dict[str, Any]) -> None:
        """Take what a stage's task says of itself: `tasks.stage.progress.Progress.tell_followers`."""
        with self.lock:
            row = self.rows.get(report["stage"])
            if row is None or row.is_over:  # of a part of a stage, or one that came late
                return
            source = report["source"] if row.step.sources else None
            if source not in row.cells:
                return
            cell = row.cells[source]
            row.began = self.clock() if row.began is None else row.began
            cell.done, cell.total = report["done"], report["total"]
            cell.seen = Counts(**report["seen"])
        self.tell()

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
                self.note_pace()
        if is_new:
            self.tell()

    def take(self, row: Row, result: Any) -> None:
        """Know what one of a stage's tasks returned or raised."""
        if isinstance(result, UnfinishedRun):  # what it was waiting for has failed
            row.is_held_up = True
            return
        found = result if isinstance(result, list) else [result]
        for receipt in opened([one for one in found if isinstance(one, Receipt)]):
            cell = row.cells.setdefault(receipt.source, Cell())
            if not cell.total and row.step.name in SHARES:  # made before: nobody's pace
                self.paces.clear()
            cell.receipt = receipt
        now = self.clock()
        row.began = now if row.began is None else row.began
        row.has_failed |= isinstance(result, BaseException)
        if not (row.futures or row.has_failed or row.is_held_up):
            row.ended = now

    def note_pace(self) -> None:
        """Note how far the build is, and forget how far it was long ago."""
        now, weights = self.clock(), self.weights
        if not self.paces or now - self.paces[-1].at >= SECONDS_BETWEEN_PACES:
            stages = {name: row.fraction(weights) for name, row in self.rows.items()}
            self.paces.append(Pace(now, self.fraction, stages))
        while now - self.paces[0].at > LONGEST_PACE:
            self.paces.popleft()

    def left_of(self, fraction: float, before: Callable[[Pace], float], since: float = 0.0) -> float | None:
        """Return the seconds that are left at the pace of the last minutes, or None where nobody can say."""
        if not self.paces:
            return None
        then = self.paces[0]
        seconds, done = self.clock() - max(then.at, since), fraction - before(then)
        if seconds < LEAST_SECONDS or done <= 0:
            return None
        return seconds * (1 - fraction) / done

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
        """The bytes of text of each source, 1 at least, where ingest has finished all, else its shards so far."""
        cells = self.rows["ingest"].cells
        if all(cell.receipt for cell in cells.values()):
            return {source: max(1, cell.receipt.out.bytes) for source, cell in cells.items() if cell.receipt}
        return {source: cell.total for source, cell in cells.items() if cell.total}

    @property
    def fraction(self) -> float:
        """How much of the build is done, by what stages usually cost."""
        weights = self.weights
        shares = [
            (SHARES.get(name, SMALLEST), row.fraction(weights))
            for name, row in self.rows.items()
            if name not in UNKNOWN
        ]
        return sum(share * part for share, part in shares) / sum(share for share, _ in shares)

    def seconds_left(self) -> float | None:
        """Return about how long the build goes on, without its models, or None where nobody can say yet."""
        if self.outcome or self.fraction < 0.02 or self.is_at_end:
            return None
        return self.left_of(self.fraction, lambda pace: pace.whole)

    @property
    def is_at_end(self) -> bool:
        """Whether all stages are over, and what is left is to put it in place and to show it."""
        return all(row.is_over for row in self.rows.values())

    def seconds_left_of(self, row: Row) -> float | None:
        """Return about how long a stage goes on, or None where nobody can say yet."""
        fraction, name = row.fraction(self.weights), row.step.name
        return self.left_of(fraction, lambda pace: pace.stages.get(name, 0.0), row.began or 0.0)

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
