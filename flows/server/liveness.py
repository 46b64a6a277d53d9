"""Which runs really run: a run whose process is gone says so to nobody, and would run for ever.

While a run lives it holds a slot of a concurrency limit of its own, by a lease that it renews. Where
the lease is lost, or the process is seen to be gone on this machine, the run is marked as crashed.
"""

import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count

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
from zyda_flows.tasks.storage.births import birth_of, is_process

OURS = ("build", "watch", "report", "export", "push", "bandings", "mix")
LEASE_SECONDS = 60  # the least that Prefect's server grants
STARTING = 600  # seconds that a run may take to start its cluster and to say that it lives
TAKEN = 600  # seconds after which a run that a worker took and that never began is given up
SECOND_LOOK = 2  # seconds in which a run that has just ended tells the server so
PAGE = 200
DEAD = "The process of this run is gone, with its machine or killed. What it finished is not done again."


class RunHeartbeat(BaseModel):
    """What a run's limit says of it: its process, and what it holds or waits for."""

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
        """Whether the process is gone: by its number where it is one of this machine, else by the lease."""
        if self.host == socket.gethostname() and not is_process(self.pid, self.birth):
            return True
        return not self.is_leased and seconds_since(self.since) > LEASE_SECONDS


@contextmanager
def with_heartbeat(holds: str) -> Iterator[None]:
    """Say that this flow run lives, for as long as the block does.

    holds: the name of the limit that it is going to hold meanwhile, which is free when it is dead.
    """
    me = psutil.Process()
    life = RunHeartbeat(
        run=str(flow_run.id), holds=holds, host=socket.gethostname(), pid=me.pid, birth=birth_of(me)
    )
    with get_client(sync_client=True) as client:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=life.name, limit=1))
        try:
            with concurrency(life.name, lease_duration=LEASE_SECONDS, raise_on_lease_renewal_failure=False):
                yield
        finally:
            delete_limit(client, life.name)


def delete_limit(client: SyncPrefectClient, limit: str) -> None:
    with suppress(ObjectNotFound):
        client.delete_global_concurrency_limit_by_name(limit)


def mark_dead_runs(*, worker_is_new: bool = False) -> list[FlowRun]:
    """Mark the runs whose process is gone as crashed, free what they held, and return them.

    worker_is_new: what the worker of this machine had taken and not begun died with it.
    """
    with get_client(sync_client=True) as client:
        if not (suspects := dead_runs(client, worker_is_new)):
            return []
        time.sleep(SECOND_LOOK)
        suspect_ids = {run.id for run in suspects}
        dead = [run for run in dead_runs(client, worker_is_new) if run.id in suspect_ids]
        for run in dead:
            client.set_flow_run_state(run.id, Crashed(message=DEAD), force=True)
            end_tasks(client, run)
            with suppress(httpx.HTTPError, PrefectException):  # its state is said in any case
                mark_page_as_crashed(client, run.id, DEAD)
        free(client, {str(run.id) for run in dead})
        return dead


def end_tasks(client: SyncPrefectClient, run: FlowRun) -> None:
    """Mark the tasks of a dead run that were under way as crashed, too.

    One that Prefect's server knew of and had not heard the state of yet has none.
    """
    of_run, known = FlowRunFilter(id=FlowRunFilterId(any_=[run.id])), list[TaskRun]()
    while len(page := client.read_task_runs(flow_run_filter=of_run, limit=PAGE, offset=len(known))):
        known += page
    for task_run in known:
        if task_run.state is None or not task_run.state.is_final():
            client.set_task_run_state(task_run.id, Crashed(message=DEAD), force=True)


def free(client: SyncPrefectClient, dead: set[str]) -> None:
    """Delete the limits of dead runs, and those that they held, so that nobody waits for their leases.

    Where another run holds the same limit, or waits for it, which of them has it is not known.
    """
    all_lives = list(heartbeats_in(client))
    limits_wanted = {life.holds for life in all_lives if life.run not in {*dead, str(flow_run.id)}}
    for life in all_lives:
        if life.run in dead:
            delete_limit(client, life.name)
            if life.holds not in limits_wanted:
                delete_limit(client, life.holds)


def dead_runs(client: SyncPrefectClient, worker_is_new: bool) -> list[FlowRun]:
    """Return the runs that say that they run, or are about to, and do not."""
    is_over = {life.run: life.is_over for life in heartbeats_in(client)}
    return [
        run
        for run in runs_in(client, StateType.RUNNING, StateType.CANCELLING, StateType.PENDING)
        if is_over.get(str(run.id), not is_beginning(run, worker_is_new))
    ]


def heartbeats_in(client: SyncPrefectClient) -> Iterator[RunHeartbeat]:
    """Yield what all runs say of themselves."""
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


def runs_in(client: SyncPrefectClient, *states: StateType, flows: Sequence[str] = OURS) -> list[FlowRun]:
    """Return the runs of our flows in these states."""
    return client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[*flows])),
        flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": states}}}),
        limit=PAGE,
    )


def is_beginning(run: FlowRun, worker_is_new: bool) -> bool:
    """Say whether a run that says nothing of itself may be about to, or has just ended."""
    pid = run.infrastructure_pid or ""
    is_gone = not psutil.pid_exists(int(pid)) if pid.isdigit() else run.state_type is StateType.PENDING
    if worker_is_new and is_gone:
        return False
    if run.state_type is StateType.PENDING:
        return seconds_since(run.expected_start_time) < TAKEN
    return run.state is None or seconds_since(run.state.timestamp) < STARTING


def seconds_since(moment: datetime | None) -> float:
    return (datetime.now(UTC) - moment).total_seconds() if moment else 0.0
