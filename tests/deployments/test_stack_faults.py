"""`zyda up` and its builds after services of the stack were killed."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from disturbances import is_under_way, pids_alive, start_build, task_runs_of
from patience import HANG, wait_for
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    LogFilter,
    LogFilterFlowRunId,
)
from small_corpus import COMMAND, contents, zyda

from zyda_flows.deployments import processes
from zyda_flows.deployments.processes import ServiceProcess
from zyda_flows.deployments.stack import Stack
from zyda_flows.flows.server import sessions
from zyda_flows.flows.server.health import refuses_login
from zyda_flows.flows.server.local_server import start_server
from zyda_flows.flows.server.login import saved_api, use_api
from zyda_flows.flows.watch import is_under_way as is_asked_for
from zyda_flows.tasks.storage.births import birth_of
from zyda_flows.tasks.workers.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.early(1), pytest.mark.xdist_group("stack")]


def parts(stack):
    return Stack.model_validate_json(Path(stack["PREFECT_HOME"], "zyda/stack.json").read_text())


def unset(stack):
    """Return the environment of the stack's owner without PREFECT_API_URL."""
    return {k: v for k, v in stack.items() if k != "PREFECT_API_URL"}


def test_killed_scheduler_fails_the_build_and_up_restarts_the_services(larger, undisturbed, stack):
    before = parts(stack)
    build = start_build(larger.write(), unset(stack))  # it detects the stack
    wait_for(lambda: is_under_way(larger), process=build)
    psutil.Process(before.parts["scheduler"].pid).kill()
    _, errors = build.communicate()
    assert build.returncode == 1
    assert len(errors.splitlines()) == 3, errors
    on_stack, _, end = errors.splitlines()
    assert on_stack == "using the server and the cluster of `zyda up`"
    assert end.startswith("zyda: the Dask cluster is gone: ")
    output = zyda("up", "--workers", "2", env=unset(stack)).stdout
    for name in ("scheduler", "dask-workers", "worker"):
        assert f"starting the {name}\n" in output
    assert "starting the server" not in output
    after = parts(stack)
    assert {name: part.address for name, part in after.parts.items()} == {
        name: part.address for name, part in before.parts.items()
    }
    finished = zyda("build", larger.write(), env=unset(stack))
    assert finished.returncode == 0, finished.stderr
    assert contents(larger.load()) == undisturbed
    with get_client(sync_client=True) as client:
        (last,) = client.read_flow_runs(sort="START_TIME_DESC", limit=1)
    assert sorted(last.tags) == [
        "build",
        "zyda",
    ]  # the tags of runs of the deployment, which searches for builds use


def children_that_stay(pid):
    """Wait until the children of a process no longer change, and return them.

    On a busy machine, workers may not be started yet, and short-lived helpers may still run.
    """
    children = []

    def are_the_same():
        before, children[:] = [*children], psutil.Process(pid).children(recursive=True)
        time.sleep(1)
        return len(children) > 1 and before == children

    wait_for(are_the_same)
    return children


def kill_all(stack):
    """Kill all processes of the stack, like a power failure."""
    family = []
    for part in stack.parts.values():
        process = psutil.Process(part.pid)
        family += [*process.children(recursive=True), process]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    assert not processes.alive_after(HANG, family)


def pages_of(run):
    """Return the contents of the artifacts of a flow run, by their keys without the digest of the corpus."""
    with get_client(sync_client=True) as client:
        run_filter = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
        return {
            artifact.key.rpartition("-")[0]: artifact.data
            for artifact in client.read_artifacts(artifact_filter=run_filter)
            if artifact.key
        }


def test_build_after_a_power_failure_equals_an_undisturbed_build(larger, undisturbed, stack):
    from prefect.deployments import run_deployment

    recipe, path = larger.load(), larger.write()
    before = parts(stack)
    broken = run_deployment("build/build", parameters={"recipe": path}, timeout=0)
    wait_for(lambda: is_under_way(larger))
    assert not recipe.folder.exists("published")
    kill_all(before)
    process = zyda("up", "--workers", "2", env=unset(stack))
    assert process.returncode == 0, process.stderr
    assert "marked the run `build small` as crashed" in process.stdout
    assert parts(stack).ports == before.ports
    with use_api(saved_api(Path(stack["PREFECT_HOME"], "zyda"))):
        assert_restarted_build_is_whole(broken, larger, undisturbed)


def assert_restarted_build_is_whole(broken, larger, undisturbed):
    from prefect.deployments import run_deployment

    recipe, path = larger.load(), larger.write()
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(broken.id).state
        tasks = task_runs_of(client, broken.id)
    assert state.is_crashed()
    assert "process of this run was killed" in state.message
    assert tasks
    assert all(task.state and task.state.is_final() for task in tasks), [
        (task.name, task.state_name) for task in tasks
    ]
    page = pages_of(broken.id)["small-build"]
    assert page.startswith(f"# small: crashed\n\n{state.message}\n\nLast report: ")
    assert not is_asked_for(path, None, None)  # so that the watcher starts another build
    run = run_deployment("build/build", parameters={"recipe": path}, poll_interval=1)
    assert run.state.is_completed(), run.state
    with get_client(sync_client=True) as client:
        logs = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id])))
    assert not [log.message for log in logs if "waiting" in log.message]  # for locks of the dead run
    assert contents(recipe) == undisturbed


def test_children_of_a_killed_service_are_stopped_before_its_restart(stack):
    before, old_login = parts(stack).parts["dask-workers"], saved_api(Path(stack["PREFECT_HOME"], "zyda"))
    children = children_that_stay(before.pid)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):  # a helper that has ended
            child.suspend()  # otherwise they would notice that their parent has ended
    psutil.Process(before.pid).kill()
    psutil.Process(parts(stack).parts["server"].pid).kill()
    output = zyda("up", "--workers", "2", env=unset(stack)).stdout
    assert "stopped remaining processes of the dask-workers, which had died" in output
    assert "starting the dask-workers" in output
    assert not pids_alive() & {child.pid for child in children}
    # While the server was dead, another program could listen on its port and receive the login from waiting clients.
    login = saved_api(Path(stack["PREFECT_HOME"], "zyda"))
    assert (login.url, refuses_login(login), refuses_login(old_login)) == (old_login.url, False, True)


def test_down_stops_the_services_of_an_interrupted_up(terminal):
    environment = terminal()
    starting = subprocess.Popen(
        [*COMMAND, "up", "--workers", "1"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(
        Path(environment["PREFECT_HOME"], "zyda/server.log").exists, process=starting
    )  # before the server answers
    os.killpg(starting.pid, signal.SIGINT)  # to all processes of the terminal, as Ctrl-C does
    _, errors = starting.communicate()
    assert (starting.returncode, len(errors.splitlines())) == (130, 1)
    assert errors.endswith("what has been started runs on; zyda up starts the rest, zyda down ends it\n")
    services = parts(environment).parts
    assert list(services) in (["server"], ["server", "scheduler"])
    assert [part.runs for part in services.values()] == [True] * len(services)
    status = zyda("status", env=environment)
    assert "worker           does not run; zyda up starts it" in status.stdout, status
    assert "stopping the server\n" in zyda("down", env=environment).stdout
    assert not [part for part in services.values() if part.runs]


@pytest.mark.parametrize(
    "start",
    [
        lambda folder: processes.start("part", ["http.server", "0", "--bind", "127.0.0.1"], {}, folder),
        lambda folder: start_server(free_port(), folder / "server.log")[0],
        lambda folder: start_server(free_port(), folder / "server.log", guarded=True)[0],
    ],
    ids=["service", "server", "server of a build"],
)
def test_process_that_ctrl_c_ends_before_its_session_is_started_again(start, tmp_path, monkeypatch):
    started, popen = [], subprocess.Popen

    def begin(command, **options):
        # The signal arrives before Python starts, so Python cannot handle it.
        started.append(popen(command if started else ["sleep", str(HANG)], **options))
        if len(started) == 1:
            started[0].send_signal(signal.SIGINT)
            started[0].communicate()
        return started[-1]

    monkeypatch.setattr(sessions.subprocess, "Popen", begin)
    process = start(tmp_path)
    assert [child.returncode for child in started] == [-signal.SIGINT, None]
    assert process is started[1]
    process.kill()
    process.communicate()


PART = f"import subprocess, time; subprocess.Popen(['sleep', '{HANG}']); time.sleep({HANG})"
PARENT_THAT_DOES_NOT_ASK = f"""
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", {PART!r}], start_new_session=True).pid, flush=True)
time.sleep({HANG})
"""


def test_children_of_an_unreaped_service_are_stopped_without_waiting(monkeypatch):
    monkeypatch.setattr(processes, "STOP_SECONDS", HANG)  # long enough to fail the test if `stop` waits
    with subprocess.Popen([sys.executable, "-c", PARENT_THAT_DOES_NOT_ASK], stdout=subprocess.PIPE) as parent:
        killed = psutil.Process(int(parent.stdout.readline()))
        part = ServiceProcess(name="part", pid=killed.pid, birth=birth_of(killed))
        wait_for(killed.children)
        [child] = killed.children()
        killed.kill()
        wait_for(lambda: not part.runs)
        assert killed.status() == psutil.STATUS_ZOMBIE
        assert processes.stop(part)
        assert child.pid not in pids_alive()
        assert not processes.stop(part)  # no process is left
        parent.kill()
