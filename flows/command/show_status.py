"""`zyda status`: what runs, what ran and what is watched; of a corpus, what was built and has changed since.

It only looks: nothing is started, written or announced.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.settings import PREFECT_UI_URL

from deployments.addresses import NOTHING, addresses
from deployments.schedules import watched_by
from deployments.stack import load_stack
from flows.command.terminal import as_time, console
from flows.server.exclusion import limit_of
from flows.server.health import is_healthy
from flows.server.liveness import OURS, dead_runs, heartbeats_in, runs_in, seconds_since
from flows.server.local_server import NoServer, configured_server, servers_of_builds
from flows.server.login import talking_to
from flows.server.signals import Ended
from tasks.accounts.published import (
    MANIFEST,
    PUBLISHED,
    Published,
    corpus_of,
    current_stamps,
    possibly_changed,
)
from tasks.errors import ADVICE, Denied, ZydaError, first_line
from tasks.planning.changes import Change, changes_between
from tasks.planning.last_build import current_digest, current_versions, last_build, recorded_versions
from tasks.recipe.fields import Recipe
from tasks.recipe.loading import load_recipe

UNDER_WAY = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING, StateType.PAUSED)
ENDED = (StateType.COMPLETED, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED)
INTERRUPTED = f"{Ended.__name__}: {Ended(signal.SIGINT)}"  # in the message of a state
LOOKED_AT, SHOWN = 100, 8  # runs that have ended


def print_status(recipe: str | None, storage: str | None, sample: float | None) -> None:
    """Print what there is to say, of this machine or of a corpus. Raises BadRecipe, NoServer."""
    out = console(soft_wrap=True)
    for line in of_machine() if recipe is None else of_corpus(recipe, storage, sample):
        out.print(line, markup=False)


def of_machine() -> Iterator[str]:
    """Say what runs here and on the server, what has ended, and what is watched."""
    parts = addresses(load_stack())
    yield from parts
    with a_server() as client:
        if client is None:
            yield from [] if parts else [NOTHING]
            return
        dashboard = str(PREFECT_UI_URL.value())
        if not any(dashboard in line for line in parts):
            yield f"dashboard        {dashboard}"
        dead = {run.id for run in dead_runs(client, worker_is_new=False)}
        running = [in_words(run, is_dead=run.id in dead) for run in runs_in(client, *UNDER_WAY)]
        yield from titled("under way", running)
        yield from titled("ended", [how_it_ended(run) for run in last_runs(client)])
        yield from titled("watched", [str(watch) for watch in watched_by(client)])


@contextmanager
def a_server() -> Iterator[SyncPrefectClient | None]:
    """Give a client of the server that is configured, or of one that runs here, or None where none does.

    Raises NoServer where the one that is configured does not answer.
    """
    api = configured_server() or next((api for api in servers_of_builds() if is_healthy(api)), None)
    if api is None:
        yield None
        return
    try:
        with talking_to(api), get_client(sync_client=True) as client:
            yield client
    except httpx.HTTPError as error:
        raise NoServer(f"{api.url}: the Prefect server gives no answer: {first_line(error)}") from error


def titled(title: str, lines: list[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines or ["nothing"])]


def in_words(run: FlowRun, *, is_dead: bool = False) -> str:
    """Say what a run is at, and since when."""
    moment = run.start_time or (run.state and run.state.timestamp) or run.created
    since = as_time(seconds_since(moment))
    note = "; its process is gone" if is_dead else ""
    return f"{run.state_name or '':10} for {since:14} {run.name}{note}"


def how_it_ended(run: FlowRun) -> str:
    ago = f"{as_time(seconds_since(run.end_time))} ago"
    message = (run.state and run.state.message) or ""
    if INTERRUPTED in message:
        return f"{'Interrupted':11} {ago:17} {run.name}"
    why = (
        f": {message.splitlines()[0].partition(ADVICE)[0]}"
        if message and run.state_type is not StateType.COMPLETED
        else ""
    )
    return f"{run.state_name or '':10} {ago:18} {run.name}{why}"


def last_runs(client: SyncPrefectClient) -> list[FlowRun]:
    """Return the last run of each name that has ended, the newest first."""
    runs = client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[*OURS])),
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": ENDED}}}),
        sort=FlowRunSort.END_TIME_DESC,
        limit=LOOKED_AT,
    )
    newest = dict[tuple[str, str], FlowRun]()
    for run in runs:
        newest.setdefault((run.name, str(run.parameters.get("storage"))), run)
    return [*newest.values()][:SHOWN]


def of_corpus(recipe: str, storage: str | None, sample: float | None) -> Iterator[str]:
    """Say what was built of a recipe, what has changed since, and whether a build is under way."""
    plan = load_recipe(recipe, storage=storage, sample=sample)
    yield f"corpus {plan.folder.url}/published"
    try:
        _, manifest = corpus_of(plan)
    except Denied as error:
        yield str(error).removeprefix(f"{plan.folder.url}: ")
    else:
        yield what_is_published(plan, manifest)
        yield from what_has_changed(plan, manifest)
    with a_server() as client:
        runs = builds_of(client, plan) if client else []
        yield from (f"running build: {' '.join(in_words(run).split())}" for run in runs)
        if not runs:
            yield f"running builds: none{' on this server' if client else ''}"


def what_is_published(plan: Recipe, manifest: Published) -> str:
    """Say when a corpus was published, and how large it is."""
    counts = manifest.ledger.of(manifest.ledger.stages[-1])
    seconds = plan.folder.written_at(f"{PUBLISHED}/{MANIFEST}")
    when = datetime.fromtimestamp(seconds).astimezone()
    ago = as_time(datetime.now().timestamp() - seconds)
    return (
        f"published on {when:%Y-%m-%d at %H:%M}, {ago} ago: "
        f"{counts.documents:,} documents, {counts.tokens:,} tokens"
    )


def what_has_changed(plan: Recipe, manifest: Published) -> list[str]:
    """Say what a build would have to do, by source and by field of the recipe."""
    built = last_build(plan.folder)
    if built is None:
        return ["what it was built from is not known any more; a build looks at everything again"]
    try:
        changes = changes_between(recorded_versions(plan.folder), current_versions(plan))
    except ZydaError as error:
        return [f"its sources cannot be listed: {first_line(error)}"]
    is_same = built.plan == current_digest(plan)
    lines = [of_source(change) for change in changes] or ["sources: unchanged"]
    lines.append("recipe: unchanged" if is_same else of_recipe(plan, manifest))
    missing, changed = possibly_changed(plan.folder, manifest, current_stamps(plan.folder))
    if missing or changed:
        lines.append(f"published files: {len(missing):,} missing, {len(changed):,} perhaps changed")
    is_complete = is_same and not (changes or missing or changed)
    return [*lines, f"up to date: {'yes' if is_complete else 'no; zyda build makes what is missing'}"]


def of_source(change: Change) -> str:
    kinds = {"added": change.added, "changed": change.changed, "removed": change.removed}
    counts = ", ".join(f"{len(urls):,} {kind}" for kind, urls in kinds.items() if urls)
    example = (*change.added, *change.changed, *change.removed)[0]
    return f"source {change.source}: files {counts}, for example {example}"


def of_recipe(plan: Recipe, manifest: Published) -> str:
    """Say which fields of the recipe are other than those of what is published."""
    before, now = manifest.recipe, plan.as_written
    fields = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if fields:
        return f"recipe: changed in {', '.join(fields)}"
    return "recipe: unchanged, but the tokenizer, a model, a list or this program has changed"


def builds_of(client: SyncPrefectClient, plan: Recipe) -> list[FlowRun]:
    """Return the builds of a corpus that run, or wait until another has ended."""
    limit = limit_of(plan)
    ours = {life.run for life in heartbeats_in(client) if life.holds == limit and not life.is_over}
    return [run for run in runs_in(client, *UNDER_WAY, flows=["build"]) if str(run.id) in ours]
