"""The state of a run: its message says in a sentence what the run does, or has done."""

from typing import Any

from prefect.context import FlowRunContext
from prefect.states import Completed

LONGEST = 1000  # characters of a message
# Of states that Prefect gives none, which its dashboard would show as "None".
USUAL = {
    "SCHEDULED": "It waits for its time.",
    "PENDING": "It is about to begin.",
    "RUNNING": "It is running; its artifacts show its progress.",
    "COMPLETED": "It ended well.",
}


def completed(value: Any, *sentences: str) -> Any:
    """Return the state of a run that ended well; who calls the flow gets `value`. sentences: of its message."""
    if FlowRunContext.get() is None:
        return value
    return Completed(message=" ".join(sentences)[:LONGEST], data=value)


def give_states_messages() -> None:
    """Have the server that this process is about to be store a message with every state of a run."""
    from prefect.server.database import orm_models
    from sqlalchemy import event

    def stored(_: Any, __: Any, state: Any) -> None:
        state.message = state.message or USUAL.get(str(state.type.value))

    for kind in (orm_models.FlowRunState, orm_models.TaskRunState):
        event.listen(kind, "before_insert", stored)
