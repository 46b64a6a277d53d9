"""The state of a run: its message says in a sentence what the run does, or has done."""

from typing import Any

from prefect.context import FlowRunContext
from prefect.states import Completed

LONGEST = 1000  # characters of a message


def completed(value: Any, *sentences: str) -> Any:
    """Return the state of a run that ended well; who calls the flow gets `value`. sentences: of its message."""
    if FlowRunContext.get() is None:
        return value
    return Completed(message=" ".join(sentences)[:LONGEST], data=value)
