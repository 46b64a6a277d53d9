"""What workers tell the process of the flow, by Dask's event log."""

from collections.abc import Callable
from typing import Any

import distributed
from distributed.worker import thread_state


def is_on_worker() -> bool:
    """Say whether this thread runs a task of a Dask worker."""
    return hasattr(thread_state, "execution_state")


def tell(topic: str, report: Any) -> None:
    """Send a report to whoever follows a topic; off a worker there is nobody."""
    try:
        worker = distributed.get_worker()
    except ValueError:
        return
    worker.log_event(topic, report)


def follow(runner: Any, topic: str, handle: Callable[[Any], None]) -> None:
    """Call `handle` with every report of a topic, in this process. runner: Prefect's, on the cluster."""
    runner.client.subscribe_topic(topic, lambda event: handle(event[1]))
