"""What workers tell the process of the flow, by Dask's event log, which all builds of a cluster share."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import distributed
from distributed.worker import thread_state

from zyda_flows.tasks.errors import without_causes


def is_on_worker() -> bool:
    """Say whether this thread runs a task of a Dask worker."""
    return hasattr(thread_state, "execution_state")


RUN: ContextVar[str] = ContextVar("run", default="")  # the flow run for which something is done here


@dataclass(frozen=True)
class BoundToRun:
    """A function that is called on a worker for a flow run."""

    function: Callable[[Any], Any]
    run: str

    def __call__(self, item: Any) -> Any:
        token = RUN.set(self.run)
        try:
            with without_causes():
                return self.function(item)
        finally:
            RUN.reset(token)


def log_event(topic: str, run: str, report: Any) -> None:
    """Send a report to whoever follows a topic of a flow run; off a worker there is nobody."""
    try:
        worker = distributed.get_worker()
    except ValueError:
        return
    worker.log_event(topic, {"run": run, "report": report})


def follow(runner: Any, topic: str, run: str, handle: Callable[[Any], None]) -> None:
    """Call `handle` with every report of a topic of a run, in this process. runner: Prefect's, on the cluster."""

    def of_this_run(event: tuple[Any, Any]) -> None:
        if event[1]["run"] == run:
            handle(event[1]["report"])

    runner.client.subscribe_topic(topic, of_this_run)
