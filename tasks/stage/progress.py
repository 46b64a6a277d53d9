"""Report the progress of a stage to the process that started the build."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from zyda_flows.tasks.spent import ON_RESULT, Spent
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.workers.events import RUN, log_event

Result = TypeVar("Result")

TOPIC = "zyda"
SECONDS_BETWEEN_REPORTS = 2.0


class Progress:
    """Count the finished tasks of a stage and source in a flow run, their documents and the resources they used.

    Followers are the processes that show the progress. They get a report when counting begins, then at most once in
    SECONDS_BETWEEN_REPORTS, and always after the last task.
    """

    def __init__(self, run: str, stage: str, source: str | None, total: int, planned: int = 0) -> None:
        self.run = run
        self.stage = stage
        self.source = source
        self.total = total
        self.planned = planned  # tasks of the whole stage, about; 0 for those of this fan-out
        self.done = 0
        self.documents_read = Counts()
        self.spent = Spent()
        self.report_id = uuid4().hex  # distinguishes several fan-outs of a stage
        self.last_report_at = time.monotonic()
        self.send_report()

    @property
    def name(self) -> str:
        return f"{self.stage} {self.source}" if self.source else self.stage

    def count(self, result: Result, spent: Spent) -> Result:
        """Count a finished task and the resources that it used, and return its result unchanged."""
        self.done += 1
        self.documents_read += count_documents_read(result)
        self.spent += replace(spent, calls=1)
        if on_result := ON_RESULT.get():
            on_result(self.stage, self.source, result, replace(spent, calls=1))
        now = time.monotonic()
        if self.done == self.total or now - self.last_report_at > SECONDS_BETWEEN_REPORTS:
            self.last_report_at = now
            self.send_report()
        return result

    def send_report(self) -> None:
        """Send the counts to the followers of the run."""
        report: dict[str, Any] = {"stage": self.stage, "source": self.source}
        report |= {"done": self.done, "total": self.total, "planned": self.planned}
        report |= {"documents_read": self.documents_read.model_dump()}
        report |= {"report_id": self.report_id, "spent": {**vars(self.spent)}}
        log_event(TOPIC, self.run, report)


class ShardProgress:
    """Report the finished fraction of a shard that takes long, from its worker."""

    def __init__(self, stage: str, source: str | None, shard: str) -> None:
        self.report = {"stage": stage, "source": source, "shard": shard}
        self.last_report_at = time.monotonic()

    def __call__(self, fraction: float) -> None:
        """Report the finished fraction of the shard, from 0 to 1, at most once in SECONDS_BETWEEN_REPORTS."""
        if (now := time.monotonic()) - self.last_report_at > SECONDS_BETWEEN_REPORTS:
            self.last_report_at = now
            log_event(TOPIC, RUN.get(), self.report | {"fraction": fraction})


def ignore_progress(_: float) -> None:
    """Do nothing; used outside of `reporting_progress`."""


# The function to call with the finished fraction of the current shard.
REPORT_SHARD_FRACTION: ContextVar[Callable[[float], None]] = ContextVar(
    "report_shard_fraction", default=ignore_progress
)


@contextmanager
def reporting_progress(stage: str, source: str | None, shard: str) -> Iterator[None]:
    """Set REPORT_SHARD_FRACTION within a block, so that code in it can report the finished fraction of a shard."""
    token = REPORT_SHARD_FRACTION.set(ShardProgress(stage, source, shard))
    try:
        yield
    finally:
        REPORT_SHARD_FRACTION.reset(token)


def count_documents_read(result: object) -> Counts:
    """Return the documents that a task has read, kept and removed: of its artifact, or its `documents_read`.

    All counts are 0 if the result has no counts of documents.
    """
    if isinstance(result, Artifact):
        return result.counts + result.removed
    documents_read = getattr(result, "documents_read", None)
    return documents_read if isinstance(documents_read, Counts) else Counts()
