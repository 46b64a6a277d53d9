"""The state of a finished run, whose message describes its result."""

from typing import Any

from prefect.context import FlowRunContext
from prefect.states import Completed

LONGEST = 1000  # characters of a message


def completed_state(value: Any, *sentences: str) -> Any:
    """Return the state of a successful run; the caller of the flow receives `value`. sentences: its message."""
    if FlowRunContext.get() is None:
        return value
    return Completed(message=" ".join(sentences)[:LONGEST], data=value)
