"""Where the stages say what a person should know: the run's log, whichever process they are in."""

import logging
import sys
from typing import Any

WARNINGS = "zyda-warnings"  # the topic on Dask's event log by which a worker's warnings reach the flow


def run_log() -> Any:
    """Return the log of the Prefect run that is here, which the dashboard shows, or a plain one."""
    if "prefect" in sys.modules:
        from prefect.context import FlowRunContext, TaskRunContext
        from prefect.logging import get_run_logger

        if TaskRunContext.get() or FlowRunContext.get():
            return get_run_logger()
    return logging.getLogger("zyda")


def warn(text: str) -> None:
    """Warn in the log of the run, also from a shard's work on a worker, which has no run of its own."""
    if "distributed" in sys.modules:
        from distributed.worker import get_worker, thread_state

        if hasattr(thread_state, "execution_state"):
            get_worker().log_event(WARNINGS, text)
            return
    run_log().warning("%s", text)
