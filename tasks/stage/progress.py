"""How far a stage is, to whoever follows the build."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from zyda_flows.tasks.spent import TELL, Spent
from zyda_flows.tasks.storage.artifacts import Artifact, Counts
from zyda_flows.tasks.workers.events import RUN, log_event

Result = TypeVar("Result")

TOPIC = "zyda"
SECONDS_BETWEEN_REPORTS = 2.0


class Progress:
    """Counts the finished shards of one stage and source, in a flow run, and the documents in them."""

    def __init__(self, run: str, stage: str, source: str | None, total: int) -> None:
        self.run = run
        self.stage = stage
        self.source = source
        self.total = total
        self.done = 0
        self.seen = Counts()
        self.spent = Spent()
        self.number = uuid4().hex  # a stage may spread its work several times
        self.reported = time.monotonic()
        self.tell_followers()

    @property
    def name(self) -> str:
        return f"{self.stage} {self.source}" if self.source else self.stage

    def count(self, result: Result, spent: Spent) -> Result:
        """Count one more shard, with what it took, and pass its result on."""
        self.done += 1
        self.seen += documents_in(result)
        self.spent += replace(spent, calls=1)
        if tell := TELL.get():
            tell(self.stage, self.source, result, replace(spent, calls=1))
        now = time.monotonic()
        if self.done == self.total or now - self.reported > SECONDS_BETWEEN_REPORTS:
            self.reported = now
            self.tell_followers()
        return result

    def tell_followers(self) -> None:
        report: dict[str, Any] = {"stage": self.stage, "source": self.source}
        report |= {"done": self.done, "total": self.total, "seen": self.seen.model_dump()}
        report |= {"number": self.number, "spent": {**vars(self.spent)}}
        log_event(TOPIC, self.run, report)


class ShardProgress:
    """Tells how far a shard is that takes long, from the worker that is at it."""

    def __init__(self, stage: str, source: str | None, shard: str) -> None:
        self.report = {"stage": stage, "source": source, "shard": shard}
        self.reported = time.monotonic()

    def __call__(self, part: float) -> None:
        """Know that so much of the shard is done, from 0 to 1."""
        if (now := time.monotonic()) - self.reported > SECONDS_BETWEEN_REPORTS:
            self.reported = now
            log_event(TOPIC, RUN.get(), self.report | {"part": part})


def ignore_progress(_: float) -> None:
    """Keep to oneself how far a shard is."""


REPORT_PART: ContextVar[Callable[[float], None]] = ContextVar(
    "inside", default=ignore_progress
)  # of what is done here


@contextmanager
def reporting_progress(stage: str, source: str | None, shard: str) -> Iterator[None]:
    """Let what is called in the block say by REPORT_PART how far it is."""
    token = REPORT_PART.set(ShardProgress(stage, source, shard))
    try:
        yield
    finally:
        REPORT_PART.reset(token)


def documents_in(result: object) -> Counts:
    """Return the documents that a stage looked at for a result: those of its shards, as far as it says so."""
    if isinstance(result, Artifact):
        return result.counts + result.removed
    seen = getattr(result, "seen", None)
    return seen if isinstance(seen, Counts) else Counts()
