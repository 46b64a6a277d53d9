"""List the active flow runs of a Prefect server, and the results of the last runs."""

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
from zyda_flows.flows.server.signals import EndedBySignal
from zyda_flows.tasks.errors import ADVICE, first_line
from zyda_flows.tasks.recipe.fields import Recipe

ACTIVE = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING, StateType.PAUSED)
ENDED = (StateType.COMPLETED, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED)
INTERRUPTED = f"{EndedBySignal.__name__}: {EndedBySignal(signal.SIGINT)}"  # part of the message of a state
READ, SHOWN = 100, 8  # ended runs


@contextmanager
def server_client() -> Iterator[SyncPrefectClient | None]:
    """Yield a client of the configured server, or of a server on this machine, or None.

    Raises NoServer if the configured server does not answer.
    """
    api = configured_server() or next((api for api in running_servers() if is_healthy(api)), None)
    if api is None:
        yield None
        return
    try:
        with use_api(api), get_client(sync_client=True) as client:
            yield client
    except (httpx.HTTPError, ValidationError) as error:
        raise NoServer(f"{api.url}: the Prefect server does not answer: {first_line(error)}") from error


def active_runs(client: SyncPrefectClient) -> list[str]:
    """Return a line for each run that has not ended."""
    dead = {run.id for run in dead_runs(client, worker_is_new=False)}
    return [run_line(run, is_dead=run.id in dead) for run in runs_in(client, *ACTIVE)]


def run_line(run: FlowRun, *, is_dead: bool = False) -> str:
    """Return the state of a run, the time since its start, and its name."""
    moment = run.start_time or (run.state and run.state.timestamp) or run.created
    since = as_time(seconds_since(moment))
    note = "; its process has ended" if is_dead else ""
    return f"{run.state_name or '':10} for {since:14} {run.name}{note}"


def ended_runs(client: SyncPrefectClient) -> list[str]:
    """Return a line for each of the last runs: the final state, time, name, and error."""
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
    """Return the last ended run of each name, the newest first."""
    runs = client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[*flow_names()])),
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": ENDED}}}),
        sort=FlowRunSort.END_TIME_DESC,
        limit=READ,
    )
    newest = dict[tuple[str, str], FlowRun]()
    for run in runs:
        newest.setdefault((run.name, str(run.parameters.get("storage"))), run)
    return [*newest.values()][:SHOWN]


def builds_of(client: SyncPrefectClient, recipe: Recipe) -> list[FlowRun]:
    """Return the builds of a corpus that run, or wait for another build."""
    limit = lock_name(recipe)
    ours = {life.run for life in heartbeats_in(client) if life.holds == limit and not life.is_over}
    return [run for run in runs_in(client, *ACTIVE, flows=["build"]) if str(run.id) in ours]
