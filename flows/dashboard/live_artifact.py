"""The page of a build in Prefect's dashboard, as an artifact that is written anew every few seconds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any
from uuid import UUID

import httpx
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException

from flows.dashboard.live_page import page_of
from flows.dashboard.run_artifacts import KEPT, artifact_key
from flows.dashboard.state import BuildState
from tasks.errors import ZydaError, on_one_line
from tasks.recipe.fields import Recipe
from tasks.stage.progress import TOPIC
from tasks.workers.events import follow

LOOK_SECONDS = 0.5
WRITE_SECONDS = 3.0  # between two writes, however many sources and workers there are
DESCRIPTION = "How far the build is"
LAST_TRIES = 3


@contextmanager
def live_page(recipe: Recipe, state: BuildState) -> Iterator[None]:
    """Show a page of the build while the block runs, and what became of it afterwards."""
    context = FlowRunContext.get()
    assert context is not None
    runner: Any = context.task_runner
    links = list(links_of(recipe, runner))
    key = artifact_key(recipe, "build")
    created: Any = create_markdown_artifact(page_of(state, links), key=key, description=DESCRIPTION)
    is_over = threading.Event()
    follow(runner, TOPIC, state.hear)
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
        write_last(created, page_of(state, links))


def why_of(error: BaseException) -> str:
    """Say why a build ended early, and what to do."""
    if isinstance(error, ZydaError):
        return f"**{on_one_line(str(error))}**\n\nWhat to do: {error.advice} {KEPT}"
    return (
        KEPT
        if not isinstance(error, Exception)
        else f"**{type(error).__name__}**: the run's log has the rest."
    )


def keep_written(artifact: UUID, state: BuildState, links: list[str], is_over: threading.Event) -> None:
    """Look at the build twice a second, and write its page every few seconds."""
    written, looks = "", 0
    with get_client(sync_client=True) as client:
        while not is_over.wait(LOOK_SECONDS):
            state.look()
            looks += 1
            if (
                looks % round(WRITE_SECONDS / LOOK_SECONDS) == 1
                and (page := page_of(state, links)) != written
            ):
                written = page
                with suppress(httpx.HTTPError, PrefectException):  # the next page says more
                    client.update_artifact(artifact, ArtifactUpdate(data=page))


def write_last(artifact: UUID, page: str) -> None:
    """Write the last page; a server that does not take it has a page that is older."""
    with get_client(sync_client=True) as client:
        for _ in range(LAST_TRIES):
            with suppress(httpx.HTTPError, PrefectException):
                client.update_artifact(artifact, ArtifactUpdate(data=page))
                return


def links_of(recipe: Recipe, runner: Any) -> Iterator[str]:
    """Yield the line of where a person would look further."""
    places = [f"corpus `{recipe.folder.url}/published`"]
    if dashboard := getattr(runner.client, "dashboard_link", ""):
        places.append(f"[workers, in Dask's dashboard]({dashboard})")
    for what, key in (("accounts", "corpus"), ("report", "report")):
        places.append(f"[{what}](/artifacts/key/{artifact_key(recipe, key)}), when it is complete")
    yield " · ".join(places)
