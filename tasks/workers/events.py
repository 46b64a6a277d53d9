"""Send reports from workers to the process of the flow by Dask's event log, which all builds of a cluster share."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import distributed
from distributed.worker import thread_state

from zyda_flows.tasks.errors import without_causes


def is_on_worker() -> bool:
    """Return whether this thread runs a task of a Dask worker."""
    return hasattr(thread_state, "execution_state")


RUN: ContextVar[str] = ContextVar("run", default="")  # id of the flow run of the current work


@dataclass(frozen=True)
class CallInRun:
    """A function to call on a worker for a flow run. run: id of the flow run."""

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
    """Send a report to the subscribers of a topic of a flow run; outside a worker, do nothing."""
    try:
        worker = distributed.get_worker()
    except ValueError:
        return
    worker.log_event(topic, {"run": run, "report": report})


def follow(runner: Any, topic: str, run: str, handle: Callable[[Any], None]) -> None:
    """Call `handle` with every report on a topic of a run, in this process. runner: Prefect's, on the cluster."""

    def handle_event(event: tuple[Any, Any]) -> None:
        if event[1]["run"] == run:
            handle(event[1]["report"])

    runner.client.subscribe_topic(topic, handle_event)
