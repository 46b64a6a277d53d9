"""Report the progress of a stage to the process that started the build."""

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
    """Count the finished shards of a stage and source in a flow run, and their documents."""

    def __init__(self, run: str, stage: str, source: str | None, total: int) -> None:
        self.run = run
        self.stage = stage
        self.source = source
        self.total = total
        self.done = 0
        self.seen = Counts()
        self.spent = Spent()
        self.number = uuid4().hex  # tells several fan-outs of a stage apart
        self.reported = time.monotonic()
        self.tell_followers()

    @property
    def name(self) -> str:
        return f"{self.stage} {self.source}" if self.source else self.stage

    def count(self, result: Result, spent: Spent) -> Result:
        """Count a finished shard and the resources that it used, and return its result."""
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
    """Report the finished part of a shard that takes long, from its worker."""

    def __init__(self, stage: str, source: str | None, shard: str) -> None:
        self.report = {"stage": stage, "source": source, "shard": shard}
        self.reported = time.monotonic()

    def __call__(self, part: float) -> None:
        """Report the finished part of the shard, from 0 to 1, if the last report is old enough."""
        if (now := time.monotonic()) - self.reported > SECONDS_BETWEEN_REPORTS:
            self.reported = now
            log_event(TOPIC, RUN.get(), self.report | {"part": part})


def ignore_progress(_: float) -> None:
    """Do nothing with the finished part of a shard."""


# Called with the finished part of the current shard.
REPORT_PART: ContextVar[Callable[[float], None]] = ContextVar("inside", default=ignore_progress)


@contextmanager
def reporting_progress(stage: str, source: str | None, shard: str) -> Iterator[None]:
    """Set REPORT_PART within a block, so that the code in it can report the finished part of a shard."""
    token = REPORT_PART.set(ShardProgress(stage, source, shard))
    try:
        yield
    finally:
        REPORT_PART.reset(token)


def documents_in(result: object) -> Counts:
    """Return the documents that a stage read for a result: those of its artifact, or its attribute `seen`."""
    if isinstance(result, Artifact):
        return result.counts + result.removed
    seen = getattr(result, "seen", None)
    return seen if isinstance(seen, Counts) else Counts()
