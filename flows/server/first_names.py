"""What runs of deployments are called before they begin: by their recipe, not by two words of Prefect's."""

from collections.abc import Mapping
from typing import Any


def first_name(parameters: Mapping[str, Any] | None) -> str | None:
    """Return what a run is called until it knows its corpus, or None where it has no recipe."""
    recipe = (parameters or {}).get("recipe")
    return f"{str(recipe).rpartition('/')[2]} (scheduled)" if recipe else None


def name_runs_by_recipe() -> None:
    """Have the server that this process is about to be name runs so, be they asked for or scheduled."""
    from prefect.server.database import orm_models
    from prefect.server.models import deployments
    from sqlalchemy import event

    def asked_for(_: Any, __: Any, run: Any) -> None:
        if run.deployment_id and (name := first_name(run.parameters)):
            run.name = name

    insert: Any = deployments._insert_scheduled_flow_runs

    async def scheduled(session: Any, runs: list[dict[str, Any]]) -> Any:
        for run in runs:
            if name := first_name(run.get("parameters")):
                run["name"] = name
        return await insert(session=session, runs=runs)

    event.listen(orm_models.FlowRun, "before_insert", asked_for)
    deployments._insert_scheduled_flow_runs = scheduled
