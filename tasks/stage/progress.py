"""How far a stage is: to Prefect's dashboard and log, and to whoever follows the build."""

import time
from typing import Any, TypeVar

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.context import TaskRunContext

from tasks.workers.events import tell

Result = TypeVar("Result")

TOPIC = "zyda"
SECONDS_BETWEEN_REPORTS = 2.0


class Progress:
    """Counts the finished shards of one stage and source."""

    def __init__(self, stage: str, source: str | None, total: int) -> None:
        self.stage = stage
        self.source = source
        self.total = total
        self.done = 0
        self.artifact: Any = None
        self.reported = time.monotonic()
        self.tell_followers()

    @property
    def name(self) -> str:
        return f"{self.stage} {self.source}" if self.source else self.stage

    def count(self, result: Result) -> Result:
        """Count one more shard, and pass its result on."""
        self.done += 1
        now = time.monotonic()
        if self.done == self.total or now - self.reported > SECONDS_BETWEEN_REPORTS:
            self.reported = now
            self.tell_followers()
            self.tell_dashboard()
        return result

    def tell_followers(self) -> None:
        report = {"stage": self.stage, "source": self.source, "done": self.done, "total": self.total}
        tell(TOPIC, report)

    def tell_dashboard(self) -> None:
        if TaskRunContext.get() is None:
            return
        percent = 100 * self.done / self.total
        if self.artifact is not None:
            update_progress_artifact(self.artifact, progress=percent)
        elif self.done < self.total:  # a stage that is over at its first report needs no bar
            self.artifact = create_progress_artifact(
                progress=percent, description=f"{self.name}: {self.total} shards"
            )
