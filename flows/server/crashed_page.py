"""Update the page of a build whose process has ended; otherwise the page would show it as running forever."""

import re
from functools import partial
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

# Matches the title of the page of an active run, and the line below it.
ACTIVE_TITLE = re.compile(r"\A(# .*): (?:running|waiting)$\n*(.*)", re.MULTILINE)


def mark_page_as_crashed(client: SyncPrefectClient, run: UUID, why: str) -> None:
    """Mark the page of a dead run as crashed; its last progress remains on the page."""
    artifacts_of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
    for artifact in client.read_artifacts(artifact_filter=artifacts_of_run):
        page = str(artifact.data)
        ended = ACTIVE_TITLE.sub(partial(crashed_text, why), page)
        if ended != page:
            client.update_artifact(artifact.id, ArtifactUpdate(data=ended))


def crashed_text(why: str, matched: re.Match[str]) -> str:
    """Return the new head of the page of a crashed run. matched: its title, and its last report."""
    return f"{matched[1]}: crashed\n\n{why}\n\nLast report: {matched[2]}"
