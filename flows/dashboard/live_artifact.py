"""The page of a build in Prefect's dashboard, as an artifact that is written anew every few seconds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any
from uuid import UUID

import httpx
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.sorting import ArtifactSort
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException

from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.dashboard.live_page import page_of
from zyda_flows.flows.dashboard.run_artifacts import RESUME_ADVICE
from zyda_flows.flows.dashboard.state import BuildState
from zyda_flows.flows.reporting.markdown import plain
from zyda_flows.tasks.errors import ZydaError, one_line
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.fan_out import current_run
from zyda_flows.tasks.stage.progress import TOPIC
from zyda_flows.tasks.tokens.stored import counted_by, load_tokenizer
from zyda_flows.tasks.workers.events import follow

LOOK_SECONDS = 0.5
WRITE_SECONDS = 3.0  # between two writes, however many sources and workers there are
DESCRIPTION = "Progress"
LAST_TRIES = 3


@contextmanager
def live_page(recipe: Recipe, state: BuildState) -> Iterator[None]:
    """Show a page of the build while the block runs, and what became of it afterwards."""
    context = FlowRunContext.get()
    assert context is not None
    runner: Any = context.task_runner
    links = [links_of(recipe, runner)]
    key = artifact_key(recipe, "build")
    created: Any = create_markdown_artifact(page_of(state, links), key=key, description=DESCRIPTION)
    is_over = threading.Event()
    follow(runner, TOPIC, current_run(), state.hear)
    writer = threading.Thread(
        target=copy_context().run, args=(keep_written, created, state, links, is_over), daemon=True
    )
    writer.start()
    try:
        yield
    except BaseException as error:
        state.finish("failed" if isinstance(error, Exception) else "interrupted", why_of(error))
        raise
    else:
        state.finish()
    finally:
        is_over.set()
        writer.join()
        write_last(created, recipe, state)


def why_of(error: BaseException) -> str:
    """Say why a build ended early, and what to do."""
    if isinstance(error, ZydaError):
        return f"**{plain(one_line(str(error)))}**\n\nWhat to do: {error.advice} {RESUME_ADVICE}"
    if isinstance(error, Exception):
        return f"**{type(error).__name__}**: the run's log has the rest."
    return RESUME_ADVICE


def keep_written(artifact: UUID, state: BuildState, links: list[str], is_over: threading.Event) -> None:
    """Look at the build twice a second, and write its page every few seconds."""
    written, looks = "", 0
    with suppress(ZydaError):  # of which the build says more
        state.counting = counted_by(load_tokenizer(state.recipe.tokenizer))
    with get_client(sync_client=True) as client:
        while not is_over.wait(LOOK_SECONDS):
            state.look()
            looks += 1
            is_time = looks % round(WRITE_SECONDS / LOOK_SECONDS) == 1
            if is_time and (page := page_of(state, links)) != written:
                written = page
                with suppress(httpx.HTTPError, PrefectException):  # the next page says more
                    client.update_artifact(artifact, ArtifactUpdate(data=page))


def write_last(artifact: UUID, recipe: Recipe, state: BuildState) -> None:
    """Write the last page; a server that does not take it has a page that is older."""
    with get_client(sync_client=True) as client:
        for _ in range(LAST_TRIES):
            with suppress(httpx.HTTPError, PrefectException):
                shown = [*shown_by(client, recipe)] if state.outcome == "complete" else []
                links = " · ".join([link_to_corpus(recipe), *shown])
                client.update_artifact(artifact, ArtifactUpdate(data=page_of(state, [links])))
                return


def shown_by(client: SyncPrefectClient, recipe: Recipe) -> Iterator[str]:
    """Yield links to what shows a corpus that is complete."""
    for label, name in (("accounts", "corpus"), ("report", "report")):
        its_key = ArtifactFilterKey(any_=[artifact_key(recipe, name)])
        for artifact in client.read_artifacts(
            artifact_filter=ArtifactFilter(key=its_key), sort=ArtifactSort.CREATED_DESC, limit=1
        ):
            yield f"[{label}](/artifacts/artifact/{artifact.id})"


def link_to_corpus(recipe: Recipe) -> str:
    return f"corpus `{recipe.folder.url}/published`"


def links_of(recipe: Recipe, runner: Any) -> str:
    """Return the line of where a person would look further while the build runs."""
    link = getattr(runner.client, "dashboard_link", "")
    return " · ".join(
        [link_to_corpus(recipe), *([f"[workers, in Dask's dashboard]({link})"] if link else [])]
    )
