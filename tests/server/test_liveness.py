"""Runs that say that they run, and what becomes of them when nobody does."""

import os
import subprocess
import sys

import pytest
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.states import Cancelled, Completed, Pending, Running

from zyda_flows.flows.server import liveness
from zyda_flows.flows.server.liveness import dead_runs


@flow(name="build")
def begun():
    """Stands for a build that a worker has begun."""


@pytest.fixture
def run_of(server):
    """Return what makes a run in a state, begun by a process, which says nothing of itself."""
    made = []

    def run(state, pid):
        with get_client(sync_client=True) as client:
            made.append(client.create_flow_run(begun, state=state).id)
            client.update_flow_run(made[-1], infrastructure_pid=pid)
        return made[-1]

    yield run
    with get_client(sync_client=True) as client:
        for one in made:
            client.set_flow_run_state(one, Cancelled(), force=True)


@pytest.mark.parametrize("state", [Pending, Running])
def test_run_whose_process_ended_with_its_worker_is_dead(run_of, state):
    """It may have been ended between its last sign of life and its last word to the server."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    gone, there = (run_of(state(), str(pid)) for pid in (ended.pid, os.getpid()))
    with get_client(sync_client=True) as client:
        dead = {run.id for run in dead_runs(client, worker_is_new=True)}
        assert dead & {gone, there} == {gone}
        assert not {run.id for run in dead_runs(client, worker_is_new=False)} & {gone, there}


def test_run_that_no_worker_of_this_machine_began_is_given_time(run_of):
    run = run_of(Running(), None)
    with get_client(sync_client=True) as client:
        assert run not in {found.id for found in dead_runs(client, worker_is_new=True)}


@task
def stage():
    """Stands for a stage of the build."""


def test_tasks_of_a_dead_run_are_over_whatever_the_server_has_heard_of_them(run_of, monkeypatch):
    monkeypatch.setattr(liveness, "PAGE", 2)
    run = run_of(Running(), None)
    with get_client(sync_client=True) as client:
        states = [None, Running(), Completed(), Pending(), None]
        made = [client.create_task_run(stage, run, str(i), state=state).id for i, state in enumerate(states)]
        liveness.end_tasks(client, client.read_flow_run(run))
        assert [client.read_task_run(one).state_name for one in made] == [
            "Crashed", "Crashed", "Completed", "Crashed", "Crashed",
        ]  # fmt: skip
