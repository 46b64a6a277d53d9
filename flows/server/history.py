"""Remove the records of a corpus's earlier runs from Prefect, when the corpus forgets documents.

Pages, logs, states and events of these runs may hold values of a removed document: the name of a component, a
licence that no list has, a sentence of an error. A server removes runs, their logs and pages on request. It has no
request that removes events, and a database keeps deleted content in free pages. So both are removed from the
database itself, if that is a file of SQLite on this machine.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterName,
)
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, get_current_settings

from zyda_flows.flows.server.deployed import flow_names
from zyda_flows.flows.server.liveness import PAGE
from zyda_flows.flows.server.local_server import home
from zyda_flows.flows.server.login import configured_api
from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe

# Longer than the time between full garbage collections of the server, which close abandoned cursors.
BUSY_SECONDS = 150
CLEANUP = (
    # Logs and events of deleted runs, which Prefect itself would remove much later.
    "DELETE FROM log WHERE flow_run_id IS NOT NULL AND flow_run_id NOT IN (SELECT id FROM flow_run)",
    "DELETE FROM events WHERE id IN (SELECT event_id FROM event_resources "
    "WHERE resource_id LIKE 'prefect.flow-run.%' AND substr(resource_id, 18) NOT IN (SELECT id FROM flow_run))",
    "DELETE FROM events WHERE event LIKE 'prefect.artifact%' AND json_extract(payload, '$.key') LIKE :keys",
    "DELETE FROM event_resources WHERE event_id NOT IN (SELECT id FROM events)",
    "DELETE FROM artifact_collection WHERE latest_id NOT IN (SELECT id FROM artifact)",
)


def forget_runs(recipe: Recipe, keys: str, before: datetime) -> None:
    """Delete the ended runs of a corpus that began before a moment from the server, with their logs and pages.

    keys: a LIKE pattern for the names of the corpus's pages.
    """
    with get_client(sync_client=True) as client:
        for run in [*earlier_runs(client, recipe, before)]:
            client.delete_flow_run(run.id)
        while artifacts := [
            artifact
            for artifact in client.read_artifacts(
                artifact_filter=ArtifactFilter(key=ArtifactFilterKey(like_=keys)), limit=PAGE, offset=0
            )
            if artifact.created and artifact.created < before
        ]:
            for artifact in artifacts:
                client.delete_artifact(artifact.id)


def earlier_runs(client: SyncPrefectClient, recipe: Recipe, before: datetime) -> Iterator[FlowRun]:
    """Yield the ended runs of a corpus that began before a moment."""
    names = FlowRunFilterName(any_=[f"{flow} {recipe.corpus}" for flow in flow_names()])
    offset = 0
    while page := client.read_flow_runs(flow_run_filter=FlowRunFilter(name=names), limit=PAGE, offset=offset):
        offset += len(page)
        for run in page:
            is_over = run.state is None or run.state.is_final()
            if is_over and run.created and run.created < before and is_of(run, recipe):
                yield run


def is_of(run: FlowRun, recipe: Recipe) -> bool:
    """Return whether a run with the name of a corpus is of that corpus: two corpora may have the same name."""
    parameters = run.parameters
    try:
        other = load_recipe(
            str(parameters["recipe"]), storage=parameters.get("storage"), sample=parameters.get("sample")
        )
    except (ZydaError, KeyError):
        return True
    return other.folder.url == recipe.folder.url


def database() -> Path | None:
    """Return the file of Prefect's database on this machine, if there is one."""
    from sqlalchemy import make_url  # late: it imports much, and builds seldom need it

    url = make_url(PREFECT_API_DATABASE_CONNECTION_URL.value() or "sqlite://")
    path = Path(url.database) if url.drivername.startswith("sqlite") and url.database else None
    return path if path is not None and path.is_file() else None


def wait_for_events() -> None:
    """Wait until the configured server has written the events of deleted runs and pages, which contain these pages.

    Without a configured server, the server of the build has ended.
    """
    if not configured_api(home()):
        return
    persister = get_current_settings().server.services.event_persister
    time.sleep(2 * persister.flush_interval)


def clean_database(path: Path, keys: str) -> None:
    """Remove the remains of deleted runs from a database, and the content of its free pages and of its log.

    Raises sqlite3.OperationalError if other connections use the database for longer than BUSY_SECONDS.
    """
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("BEGIN IMMEDIATE")
        for statement in CLEANUP:
            connection.execute(statement, {"keys": keys} if ":keys" in statement else {})
        connection.execute("COMMIT")
        connection.execute("VACUUM")
        (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise sqlite3.OperationalError("database is locked")


def moment_of(written: str) -> datetime:
    """Parse a time of a certificate; without a zone, it is in UTC."""
    moment = datetime.fromisoformat(written)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
