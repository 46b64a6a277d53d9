"""The page of a build in Prefect's dashboard, as an artifact that is updated every few seconds."""

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
from zyda_flows.tasks.tokens.stored import load_tokenizer, token_counter
from zyda_flows.tasks.workers.events import follow

LOOK_SECONDS = 0.5
WRITE_SECONDS = 3.0  # between two writes, for any number of sources and workers
DESCRIPTION = "Progress"
LAST_TRIES = 3


@contextmanager
def live_page(recipe: Recipe, state: BuildState) -> Iterator[None]:
    """Show a page of the build while the block runs, and the outcome afterwards."""
    context = FlowRunContext.get()
    assert context is not None
    runner: Any = context.task_runner
    links = [links_of(recipe, runner)]
    key = artifact_key(recipe, "build")
    created: Any = create_markdown_artifact(page_of(state, links), key=key, description=DESCRIPTION)
    is_over = threading.Event()
    follow(runner, TOPIC, current_run(), state.add_report)
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
    """Return the reason why a build ended early, and the advice to the user, in Markdown."""
    if isinstance(error, ZydaError):
        return f"**{plain(one_line(str(error)))}**\n\nWhat to do: {error.advice} {RESUME_ADVICE}"
    if isinstance(error, Exception):
        return f"**{type(error).__name__}**: the run's log has the rest."
    return RESUME_ADVICE


def keep_written(artifact: UUID, state: BuildState, links: list[str], is_over: threading.Event) -> None:
    """Update the state of the build twice a second, and write its page every few seconds."""
    written, looks = "", 0
    with suppress(ZydaError):  # the build itself raises the same error with more details
        state.token_counter = token_counter(load_tokenizer(state.recipe.tokenizer))
    with get_client(sync_client=True) as client:
        while not is_over.wait(LOOK_SECONDS):
            state.look()
            looks += 1
            is_time = looks % round(WRITE_SECONDS / LOOK_SECONDS) == 1
            if is_time and (page := page_of(state, links)) != written:
                written = page
                with suppress(httpx.HTTPError, PrefectException):  # the next update replaces a lost one
                    client.update_artifact(artifact, ArtifactUpdate(data=page))


def write_last(artifact: UUID, recipe: Recipe, state: BuildState) -> None:
    """Write the last page in up to LAST_TRIES attempts; if all fail, the server keeps an older page."""
    with get_client(sync_client=True) as client:
        for _ in range(LAST_TRIES):
            with suppress(httpx.HTTPError, PrefectException):
                shown = [*corpus_links(client, recipe)] if state.outcome == "complete" else []
                links = " · ".join([link_to_corpus(recipe), *shown])
                client.update_artifact(artifact, ArtifactUpdate(data=page_of(state, [links])))
                return


def corpus_links(client: SyncPrefectClient, recipe: Recipe) -> Iterator[str]:
    """Yield links to the newest accounts and report of a complete corpus."""
    for label, name in (("accounts", "corpus"), ("report", "report")):
        key_filter = ArtifactFilterKey(any_=[artifact_key(recipe, name)])
        for artifact in client.read_artifacts(
            artifact_filter=ArtifactFilter(key=key_filter), sort=ArtifactSort.CREATED_DESC, limit=1
        ):
            yield f"[{label}](/artifacts/artifact/{artifact.id})"


def link_to_corpus(recipe: Recipe) -> str:
    return f"corpus `{recipe.folder.url}/published`"


def links_of(recipe: Recipe, runner: Any) -> str:
    """Return a line with the location of the corpus and a link to Dask's dashboard, if that is known."""
    link = getattr(runner.client, "dashboard_link", "")
    return " · ".join(
        [link_to_corpus(recipe), *([f"[workers, in Dask's dashboard]({link})"] if link else [])]
    )
