"""What a Prefect server knows of the runs of our flows: those under way, and how the last ones ended."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from pydantic import ValidationError

from zyda_flows.flows.command.terminal import as_time
from zyda_flows.flows.reporting.markdown import LOST
from zyda_flows.flows.server.deployed import flow_names
from zyda_flows.flows.server.exclusion import lock_name
from zyda_flows.flows.server.health import is_healthy
from zyda_flows.flows.server.liveness import dead_runs, heartbeats_in, runs_in, seconds_since
from zyda_flows.flows.server.local_server import NoServer, configured_server, running_servers
from zyda_flows.flows.server.login import use_api
from zyda_flows.flows.server.signals import Ended
from zyda_flows.tasks.errors import ADVICE, first_line
from zyda_flows.tasks.recipe.fields import Recipe

UNDER_WAY = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING, StateType.PAUSED)
ENDED = (StateType.COMPLETED, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED)
INTERRUPTED = f"{Ended.__name__}: {Ended(signal.SIGINT)}"  # in the message of a state
LOOKED_AT, SHOWN = 100, 8  # runs that have ended


@contextmanager
def a_server() -> Iterator[SyncPrefectClient | None]:
    """Give a client of the server that is configured, or of one that runs here, or None where none does.

    Raises NoServer where the one that is configured does not answer.
    """
    api = configured_server() or next((api for api in running_servers() if is_healthy(api)), None)
    if api is None:
        yield None
        return
    try:
        with use_api(api), get_client(sync_client=True) as client:
            yield client
    except (httpx.HTTPError, ValidationError) as error:
        raise NoServer(f"{api.url}: the Prefect server gives no answer: {first_line(error)}") from error


def runs_under_way(client: SyncPrefectClient) -> list[str]:
    """Say what each run is at that has not ended."""
    dead = {run.id for run in dead_runs(client, worker_is_new=False)}
    return [in_words(run, is_dead=run.id in dead) for run in runs_in(client, *UNDER_WAY)]


def in_words(run: FlowRun, *, is_dead: bool = False) -> str:
    """Say what a run is at, and since when."""
    moment = run.start_time or (run.state and run.state.timestamp) or run.created
    since = as_time(seconds_since(moment))
    note = "; its process is gone" if is_dead else ""
    return f"{run.state_name or '':10} for {since:14} {run.name}{note}"


def ended_runs(client: SyncPrefectClient) -> list[str]:
    """Say how the last runs ended."""
    return [outcome_line(run) for run in last_runs(client)]


def outcome_line(run: FlowRun) -> str:
    ago = f"{as_time(seconds_since(run.end_time))} ago"
    message = (run.state and run.state.message) or ""
    if INTERRUPTED in message:
        return f"{'Interrupted':11} {ago:17} {run.name}"
    why = (
        f": {message.splitlines()[0].partition(ADVICE)[0]}"
        if message and (run.state_type is not StateType.COMPLETED or message.startswith(LOST))
        else ""
    )
    return f"{run.state_name or '':10} {ago:18} {run.name}{why}"


def last_runs(client: SyncPrefectClient) -> list[FlowRun]:
    """Return the last run of each name that has ended, the newest first."""
    runs = client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[*flow_names()])),
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": ENDED}}}),
        sort=FlowRunSort.END_TIME_DESC,
        limit=LOOKED_AT,
    )
    newest = dict[tuple[str, str], FlowRun]()
    for run in runs:
        newest.setdefault((run.name, str(run.parameters.get("storage"))), run)
    return [*newest.values()][:SHOWN]


def builds_of(client: SyncPrefectClient, recipe: Recipe) -> list[FlowRun]:
    """Return the builds of a corpus that run, or wait until another has ended."""
    limit = lock_name(recipe)
    ours = {life.run for life in heartbeats_in(client) if life.holds == limit and not life.is_over}
    return [run for run in runs_in(client, *UNDER_WAY, flows=["build"]) if str(run.id) in ours]
