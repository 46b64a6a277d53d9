"""Signs of life of runs, and the detection of dead runs."""

import os
import subprocess
import sys

import pytest
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.states import Cancelled, Completed, Pending, Running

from zyda_flows.flows.server import liveness
from zyda_flows.flows.server.liveness import dead_runs


@flow(name="build")
def begun():
    """Replaces a build that a worker has started."""


@pytest.fixture
def run_of(server):
    """Yield a function that creates a run in a state, with the id of its process, without signs of life."""
    run_ids = []

    def run(state, pid):
        with get_client(sync_client=True) as client:
            run_ids.append(client.create_flow_run(begun, state=state).id)
            client.update_flow_run(run_ids[-1], infrastructure_pid=pid)
        return run_ids[-1]

    yield run
    with get_client(sync_client=True) as client:
        for run_id in run_ids:
            client.set_flow_run_state(run_id, Cancelled(), force=True)


@pytest.mark.parametrize("state", [Pending, Running])
def test_run_whose_process_ended_with_its_worker_is_dead(run_of, state):
    """The process may have ended before it reported its final state."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    dead_run, living_run = (run_of(state(), str(pid)) for pid in (ended.pid, os.getpid()))
    with get_client(sync_client=True) as client:
        dead = {run.id for run in dead_runs(client, worker_is_new=True)}
        assert dead & {dead_run, living_run} == {dead_run}
        assert not {run.id for run in dead_runs(client, worker_is_new=False)} & {dead_run, living_run}


def test_recent_run_without_a_process_is_not_dead(run_of):
    run = run_of(Running(), None)
    with get_client(sync_client=True) as client:
        assert run not in {dead.id for dead in dead_runs(client, worker_is_new=True)}


@task
def stage():
    """Replaces a stage of the build."""


def test_unfinished_tasks_of_a_dead_run_are_crashed(run_of, monkeypatch):
    monkeypatch.setattr(liveness, "PAGE", 2)
    run = run_of(Running(), None)
    with get_client(sync_client=True) as client:
        states = [None, Running(), Completed(), Pending(), None]
        task_ids = [
            client.create_task_run(stage, run, str(i), state=state).id for i, state in enumerate(states)
        ]
        liveness.end_tasks(client, client.read_flow_run(run))
        assert [client.read_task_run(task_id).state_name for task_id in task_ids] == [
            "Crashed", "Crashed", "Completed", "Crashed", "Crashed",
        ]  # fmt: skip


def test_all_pages_of_unfinished_runs_are_read(run_of, monkeypatch):
    monkeypatch.setattr(liveness, "PAGE", 2)
    begun_runs = {run_of(Running(), None) for _ in range(5)}
    with get_client(sync_client=True) as client:
        assert begun_runs <= {run.id for run in liveness.runs_in(client, StateType.RUNNING)}
