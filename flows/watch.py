"""The flow that looks whether a recipe's sources have changed, and says so when they have."""

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
from zyda_flows.flows.server.run_states import completed
from zyda_flows.tasks.planning.watching import SourceChanges, detect_changes
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.words import counted

NOT_OVER = (StateType.SCHEDULED, StateType.PENDING, StateType.RUNNING, StateType.PAUSED)
CHANGED = "zyda.sources.changed"


@flow(name="watch", flow_run_name=name_by_corpus("watch"), persist_result=False)
def watch(recipe: str, storage: str | None = None, sample: Sample | None = None) -> SourceChanges | None:
    """List the sources; emit an event when they changed and the listing has come to rest.

    A listing has come to rest when two looks, one schedule's interval apart, find the same. The
    deployment of `build` waits for the event and builds what is new. Where that build failed, the next
    look asks for it again.

    Args:
        recipe: The recipe's YAML file, as the machine that runs the flow sees it.
        storage: Where the corpus goes, instead of where the recipe says: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a corpus of its own.
    """
    corpus_recipe = load_recipe(recipe, storage=storage, sample=sample)
    with look_lock(corpus_recipe) as is_only:
        if not is_only:  # of two looks in one moment the second would find the listing at rest
            return told(None, f"{corpus_recipe.corpus}: another run is looking at its sources")
        sight = detect_changes(corpus_recipe)
    show_changes(corpus_recipe, sight)
    if not sight.changes:
        found = "nothing has changed since the last build"
    elif not sight.is_settled:
        found = "files have changed since the last look; waiting for them to settle"
    elif sight.is_to_announce or (sight.is_unanswered and not is_under_way(recipe, storage, sample)):
        ask_for_a_build(corpus_recipe, sight, {"recipe": recipe, "storage": storage, "sample": sample})
        found = f"{counted(len(sight.changes), 'source')} changed; asked for a build"
    else:
        found = "a build has been asked for already"
    return told(sight, f"{corpus_recipe.corpus}: {found}")


def told(sight: SourceChanges | None, finding: str) -> Any:
    """Write what a look found into the log, and return the state of its run, which says the same."""
    get_run_logger().info("%s", finding)
    return completed(sight, finding)


def show_changes(recipe: Recipe, sight: SourceChanges) -> None:
    """Put the changed files of each source into the dashboard."""
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
    create_table_artifact(rows, artifact_key(recipe, "changes"), "Files that the last build did not see so")


def ask_for_a_build(recipe: Recipe, sight: SourceChanges, parameters: dict[str, Any]) -> None:
    """Emit the event for which the deployment of `build` waits."""
    changes = [change.model_dump() for change in sight.changes]
    emit_event(
        CHANGED,
        resource={"prefect.resource.id": f"zyda.corpus.{recipe.corpus}"},
        payload={**parameters, "changes": changes},
    )


def is_under_way(recipe: str, storage: str | None, sample: float | None) -> bool:
    """Say whether a build of this corpus runs or waits to run, on this Prefect server."""
    with get_client(sync_client=True) as client:
        runs = runs_in(client, *NOT_OVER, flows=["build"])
    parameters = {"recipe": recipe, "storage": storage, "sample": sample}
    return any({"storage": None, "sample": None, **run.parameters} == parameters for run in runs)
