"""Change how a Prefect server stores runs, by hooks of SQLAlchemy and Prefect's own database configuration."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

# Messages of states for which Prefect has none; its dashboard would show "None".
USUAL = {
    "SCHEDULED": "It waits for its time.",
    "PENDING": "It is about to begin.",
    "RUNNING": "It is running; its artifacts show its progress.",
    "COMPLETED": "It ended well.",
}


def first_name(parameters: Mapping[str, Any] | None) -> str | None:
    """Return the name of a run until its corpus is known, or None if it has no recipe."""
    recipe = (parameters or {}).get("recipe")
    return f"{str(recipe).rpartition('/')[2]} (scheduled)" if recipe else None


def change_stored_runs() -> None:
    """Make this process store runs named by their recipe, without job variables, and states with a message.

    Prefect adds the variables `env` of a run to the variables of its work pool, even if the pool's template does
    not contain them. So a run could set the environment of the process that runs it.
    """
    from prefect.server.database import orm_models
    from sqlalchemy import event
    from sqlalchemy.orm import Session

    def change_run(_: Any, __: Any, run: Any) -> None:
        run.job_variables = {}
        if run.deployment_id and (name := first_name(run.parameters)):
            run.name = name

    def change_inserted(state: Any) -> None:
        """Change the runs that Prefect inserts by statements: scheduled runs, and runs with an idempotency key."""
        if not state.is_insert or state.bind_mapper is not orm_models.FlowRun.__mapper__:
            return
        if isinstance(state.parameters, list):
            for run in state.parameters:
                run["job_variables"] = {}
                if name := first_name(run.get("parameters")):
                    run["name"] = name
        else:
            state.statement = state.statement.values(job_variables={})

    def change_state(_: Any, __: Any, state: Any) -> None:
        state.message = state.message or USUAL.get(str(state.type.value))

    event.listen(orm_models.FlowRun, "before_insert", change_run)
    event.listen(Session, "do_orm_execute", change_inserted)
    for kind in (orm_models.FlowRunState, orm_models.TaskRunState):
        event.listen(kind, "before_insert", change_state)


def lock_before_reading(stack: ExitStack) -> None:
    """Make SQLite transactions that may write wait for the write lock at their beginning, until `stack` closes.

    A transaction that has read data cannot wait for the lock later: if another transaction has written since, it
    fails at once, and so does its request.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration
    from prefect.server.database.dependencies import temporary_database_config
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL

    class LockFirst(AioSqliteConfiguration):
        def begin_transaction(self, session: Any, with_for_update: bool = False) -> Any:
            return super().begin_transaction(session, with_for_update=True)

    url = PREFECT_API_DATABASE_CONNECTION_URL.value()
    if url.startswith("sqlite"):
        stack.enter_context(temporary_database_config(LockFirst(connection_url=url)))
