"""The flow that lists a recipe's sources, and emits an event when they have changed."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events import emit_event
from prefect.logging import get_run_logger

from zyda_flows.flows.build import Sample
from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.server.exclusion import look_lock
from zyda_flows.flows.server.liveness import runs_in
from zyda_flows.flows.server.run_names import name_by_corpus
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.planning.watching import SourceChanges, detect_changes
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.words import counted

NOT_OVER = (StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED)
CHANGED = "zyda.sources.changed"


@flow(name="watch", flow_run_name=name_by_corpus("watch"), persist_result=False)
def watch(recipe: str, storage: str | None = None, sample: Sample | None = None) -> SourceChanges | None:
    """List the sources; emit an event if they have changed and the listing is stable.

    A listing is stable if two runs of this flow, an interval of the schedule apart, return the same files. The
    deployment of `build` waits for the event and builds the changed files. If that build fails, the next run
    emits the event again.

    Args:
        recipe: The recipe's YAML file, as a path on the machine that runs the flow.
        storage: The folder of the corpus, instead of the recipe's `storage`: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a separate corpus.
    """
    corpus_recipe = load_recipe(recipe, storage=storage, sample=sample)
    with look_lock(corpus_recipe) as is_only:
        if not is_only:  # of two runs at the same time, the second would see a stable listing
            return logged(None, f"{corpus_recipe.corpus}: another run is listing its sources")
        sight = detect_changes(corpus_recipe)
    show_changes(corpus_recipe, sight)
    if not sight.changes:
        finding = "nothing has changed since the last build"
    elif not sight.is_settled:
        finding = "files have changed since the last run; waiting until two runs list the same files"
    elif sight.is_to_announce or (sight.is_unanswered and not is_under_way(recipe, storage, sample)):
        request_build(corpus_recipe, sight, {"recipe": recipe, "storage": storage, "sample": sample})
        finding = f"{counted(len(sight.changes), 'source')} changed; requested a build"
    else:
        finding = "a build has already been requested"
    return logged(sight, f"{corpus_recipe.corpus}: {finding}")


def logged(sight: SourceChanges | None, finding: str) -> Any:
    """Log a finding, and return a completed state with the same message."""
    get_run_logger().info("%s", finding)
    return completed_state(sight, finding)


def show_changes(recipe: Recipe, sight: SourceChanges) -> None:
    """Show the numbers of changed files of each source in the dashboard."""
    rows = [
        {
            "source": change.source,
            "added": len(change.added),
            "changed": len(change.changed),
            "removed": len(change.removed),
            "for example": (*change.added, *change.changed, *change.removed)[0],
        }
        for change in sight.changes
    ]
    create_table_artifact(rows, artifact_key(recipe, "changes"), "Files that changed since the last build")


def request_build(recipe: Recipe, sight: SourceChanges, parameters: dict[str, Any]) -> None:
    """Emit the event that triggers the deployment of `build`."""
    changes = [change.model_dump() for change in sight.changes]
    emit_event(
        CHANGED,
        resource={"prefect.resource.id": f"zyda.corpus.{recipe.corpus}"},
        payload={**parameters, "changes": changes},
    )


def is_under_way(recipe: str, storage: str | None, sample: float | None) -> bool:
    """Return whether a build of this corpus is running or scheduled on this Prefect server."""
    with get_client(sync_client=True) as client:
        runs = runs_in(client, *NOT_OVER, flows=["build"])
    parameters = {"recipe": recipe, "storage": storage, "sample": sample}
    return any({"storage": None, "sample": None, **run.parameters} == parameters for run in runs)
