"""Runs that say that they run, and what becomes of them when nobody does."""

import os
import subprocess
import sys

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.states import Cancelled, Pending, Running

from flows.server.liveness import dead_runs


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
