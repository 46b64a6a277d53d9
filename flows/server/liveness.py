"""Liveness: which runs are alive, and marking the runs of dead processes as crashed.

Prefect's server does not notice the end of a process. While a run lives, it holds a slot of a concurrency limit, by
a lease that it renews. A run is dead if its process on this machine has ended, or if its lease has expired.

Prefect 3.8 has heartbeats of flow runs, too: an event every PREFECT_FLOWS_HEARTBEAT_FREQUENCY seconds, and an
automation that marks a run as crashed if the next event is late. They cannot replace this module:
- An event has no process. On this machine `zyda up` and the next build must not wait for a late heartbeat, which
  takes two of at least 30 seconds: the lock of a dead run is released at once.
- Only a server that runs evaluates automations. The server of a build ends with the build.
- An automation changes the state of the flow run alone. The states of its tasks, its concurrency limit and its page
  would remain unchanged.
"""

import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from uuid import UUID

import httpx
import psutil  # type: ignore[import-untyped]
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterId,
)
from prefect.client.schemas.objects import FlowRun, StateType, TaskRun
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.runtime import flow_run
from prefect.states import Crashed
from pydantic import BaseModel

from zyda_flows.flows.server.crashed_page import mark_page_as_crashed
from zyda_flows.flows.server.deployed import expect_deployed, flow_names
from zyda_flows.tasks.storage.births import birth_of, is_process

LEASE_SECONDS = 60  # the minimum of Prefect's server
START_SECONDS = 600  # within which a running run creates its heartbeat: its cluster starts before
PENDING_SECONDS = 600  # after which a run that a worker has taken and not started is dead
CONFIRM_SECONDS = 2  # between two looks: a run that has just ended reports its end meanwhile
PAGE = 200
DEAD = "The process of this run was killed, or its machine stopped. Finished work is not repeated."


class RunHeartbeat(BaseModel):
    """The content of the name of a run's concurrency limit, and the state of that limit.

    holds: the limit that the run holds or waits for. birth: identifies the process if its number is used again.
    """

    run: str
    holds: str
    host: str
    pid: int
    birth: str
    is_leased: bool = False
    since: datetime | None = None

    @property
    def name(self) -> str:
        return f"zyda run {self.run} of {self.holds} on {self.host} pid {self.pid} born {self.birth}"

    @property
    def is_over(self) -> bool:
        """Whether the run is dead: its process on this machine has ended, or its lease has expired."""
        if self.host == socket.gethostname() and not is_process(self.pid, self.birth):
            return True
        return not self.is_leased and seconds_since(self.since) > LEASE_SECONDS


@contextmanager
def with_heartbeat(holds: str) -> Iterator[None]:
    """Hold the heartbeat of this flow run while the block runs. Raises TypeError if its flow has no deployment.

    holds: the name of the limit that the block will hold, which is released if the run is dead.
    """
    expect_deployed(str(flow_run.flow_name))
    process = psutil.Process()
    heartbeat = RunHeartbeat(
        run=str(flow_run.id),
        holds=holds,
        host=socket.gethostname(),
        pid=process.pid,
        birth=birth_of(process),
    )
    with get_client(sync_client=True) as client:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=heartbeat.name, limit=1))
        try:
            with concurrency(
                heartbeat.name, lease_duration=LEASE_SECONDS, raise_on_lease_renewal_failure=False
            ):
                yield
        finally:
            delete_limit(client, heartbeat.name)


def delete_limit(client: SyncPrefectClient, limit: str) -> None:
    """Delete a concurrency limit, if it exists."""
    with suppress(ObjectNotFound):
        client.delete_global_concurrency_limit_by_name(limit)


def mark_dead_runs(*, worker_is_new: bool = False) -> list[FlowRun]:
    """Mark dead runs as crashed, release their limits, and return the runs.

    worker_is_new: the worker of this machine starts again; runs that it had taken and not started are dead.
    """
    with get_client(sync_client=True) as client:
        if not (suspects := dead_runs(client, worker_is_new)):
            return []
        time.sleep(CONFIRM_SECONDS)
        suspect_ids = {run.id for run in suspects}
        dead = [run for run in dead_runs(client, worker_is_new) if run.id in suspect_ids]
        for run in dead:
            client.set_flow_run_state(run.id, Crashed(message=DEAD), force=True)
            end_tasks(client, run)
            with suppress(httpx.HTTPError, PrefectException):  # the state of the run is set in any case
                mark_page_as_crashed(client, run.id, DEAD)
        release_limits(client, {str(run.id) for run in dead})
        return dead


def end_tasks(client: SyncPrefectClient, run: FlowRun) -> None:
    """Mark the unfinished tasks of a dead run as crashed. A task without a state is unfinished."""
    tasks_of_run, task_runs = FlowRunFilter(id=FlowRunFilterId(any_=[run.id])), list[TaskRun]()
    while page := client.read_task_runs(flow_run_filter=tasks_of_run, limit=PAGE, offset=len(task_runs)):
        task_runs += page
    for task_run in task_runs:
        if task_run.state is None or not task_run.state.is_final():
            client.set_task_run_state(task_run.id, Crashed(message=DEAD), force=True)


def release_limits(client: SyncPrefectClient, dead: set[str]) -> None:
    """Delete the heartbeats of dead runs and the limits that they held, so that no run waits for their leases.

    A limit that a living run holds or waits for is kept: the server does not tell which run has its slot.
    """
    heartbeats = list(heartbeats_in(client))
    limits_in_use = {
        heartbeat.holds for heartbeat in heartbeats if heartbeat.run not in {*dead, str(flow_run.id)}
    }
    for heartbeat in heartbeats:
        if heartbeat.run in dead:
            delete_limit(client, heartbeat.name)
            if heartbeat.holds not in limits_in_use:
                delete_limit(client, heartbeat.holds)


def dead_runs(client: SyncPrefectClient, worker_is_new: bool) -> list[FlowRun]:
    """Return the unfinished runs that are dead."""
    is_over = {heartbeat.run: heartbeat.is_over for heartbeat in heartbeats_in(client)}
    return [
        run
        for run in runs_in(client, StateType.RUNNING, StateType.CANCELLING, StateType.PENDING)
        if is_over.get(str(run.id), not may_be_starting(run, worker_is_new))
    ]


def heartbeats_in(client: SyncPrefectClient) -> Iterator[RunHeartbeat]:
    """Yield the heartbeats of all runs."""
    for offset in count(0, PAGE):
        limits = client.read_global_concurrency_limits(limit=PAGE, offset=offset)
        for limit in limits:
            if match := re.fullmatch(r"zyda run (\S+) of (\S+) on (\S+) pid (\d+) born (\S+)", limit.name):
                run, holds, host, pid, birth = match.groups()
                yield RunHeartbeat(
                    run=run, holds=holds, host=host, pid=int(pid), birth=birth,
                    is_leased=limit.active_slots > 0, since=limit.created,
                )  # fmt: skip
        if len(limits) < PAGE:
            return


def runs_in(
    client: SyncPrefectClient, *states: StateType, flows: Sequence[str] | None = None
) -> list[FlowRun]:
    """Return all runs in these states. flows: the names of their flows; by default, of all deployments."""
    flow_filter = FlowFilter(name=FlowFilterName(any_=[*(flows or flow_names())]))
    run_filter = FlowRunFilter.model_validate({"state": {"type": {"any_": states}}})
    runs = dict[UUID, FlowRun]()  # by id: runs that end between two pages move the others to earlier pages
    for offset in count(0, PAGE):
        page = client.read_flow_runs(
            flow_filter=flow_filter, flow_run_filter=run_filter, limit=PAGE, offset=offset
        )
        runs |= {run.id: run for run in page}
        if len(page) < PAGE:
            break
    return [*runs.values()]


def may_be_starting(run: FlowRun, worker_is_new: bool) -> bool:
    """Return whether a run without a heartbeat may be starting, or may have just ended."""
    pid = run.infrastructure_pid or ""
    has_ended = not psutil.pid_exists(int(pid)) if pid.isdigit() else run.state_type is StateType.PENDING
    if worker_is_new and has_ended:
        return False
    if run.state_type is StateType.PENDING:
        return seconds_since(run.expected_start_time) < PENDING_SECONDS
    return run.state is None or seconds_since(run.state.timestamp) < START_SECONDS


def seconds_since(moment: datetime | None) -> float:
    """Return the seconds since a moment; 0 if it is unknown."""
    return (datetime.now(UTC) - moment).total_seconds() if moment else 0.0
