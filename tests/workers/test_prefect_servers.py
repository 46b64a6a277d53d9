"""Builds of several Prefect servers on the same Dask workers: each reports to its own server."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from patience import wait_for
from prefect import flow, tags
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    LogFilter,
    LogFilterFlowRunId,
    TaskRunFilter,
    TaskRunFilterFlowRunId,
)
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger

from zyda_flows.flows.server.local_server import start_server, wait_until_healthy
from zyda_flows.flows.server.login import Api, use_api
from zyda_flows.tasks.errors import LostWorkers
from zyda_flows.tasks.stage import runner
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.runner import BuildTaskRunner, server_fault
from zyda_flows.tasks.stage.senders import ApiServer
from zyda_flows.tasks.workers.ports import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def started(tmp_path):
    """Yield a function that starts a server and ends the server before it.

    like: an Api whose ports the server uses; free ports for None.
    """
    processes = []

    def end():
        while processes:
            process = processes.pop()
            process.kill()
            process.wait()

    def start(like=None):
        end()
        ports = [urlsplit(url).port for url in (like.dashboard, like.url)] if like else [free_port()] * 2
        process, api = start_server(ports[0], tmp_path / "log", api_port=ports[1] if like else None)
        processes.append(process)
        wait_until_healthy(process, api, tmp_path / "log")
        return api

    yield start
    end()


@pytest.fixture
def own(server, monkeypatch, tmp_path):
    """Return the Api of the server of the tests. Other servers keep their history in another home."""
    from prefect.settings import get_current_settings

    api = get_current_settings().api
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    return Api(url=api.url, login=api.auth_string.get_secret_value(), certificate=api.ssl_cert_file)


def run_on(api, cluster, name, seconds=0):
    """Run a flow of two tasks with a server, and return the id of its run."""

    @task(task_run_name="heard", **ONCE_A_BUILD)
    def heard(number):
        import time

        import distributed

        distributed.secede()  # like stages, so that tasks of several servers run in a process
        get_run_logger().info("%s %s", name, number)
        time.sleep(seconds)

    @flow(name="heard", task_runner=BuildTaskRunner(address=cluster.scheduler_address), persist_result=False)
    def two_tasks():
        for future in [heard.submit(1), heard.submit(2)]:
            future.result()
        return FlowRunContext.get().flow_run.id

    with use_api(api), tags("zyda", "build"):
        return two_tasks()


def reported(api, run):
    """Return the states and tags of the task runs of a flow run, and the log lines of the task runs."""
    with use_api(api), get_client(sync_client=True) as client:
        task_runs = client.read_task_runs(
            task_run_filter=TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[run]))
        )
        lines = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run])))
    states = [(task_run.state_name, task_run.tags) for task_run in task_runs]
    return sorted(states), sorted(line.message for line in lines if line.task_run_id)


def expect_reported(api, run, name):
    expected = [("Completed", [])] * 2, ["Finished in state Completed()"] * 2 + [f"{name} 1", f"{name} 2"]
    wait_for(lambda: reported(api, run) == expected, every=0.5)


def test_each_build_reports_to_its_own_server(own, cluster, started):
    """Before, workers reported only to the server of the first build, and a second build failed after 81 s."""
    expect_reported(own, run_on(own, cluster, "first"), "first")
    other = started()
    expect_reported(other, run_on(other, cluster, "second"), "second")
    restarted = started(like=other)
    assert (restarted.url, restarted.certificate) == (other.url, other.certificate)
    assert restarted.login != other.login
    expect_reported(restarted, run_on(restarted, cluster, "third"), "third")
    with ThreadPoolExecutor(2) as threads:  # two users at the same time
        first_user = threads.submit(run_on, own, cluster, "fourth", 5)
        second_user = threads.submit(run_on, restarted, cluster, "fifth", 5)
    expect_reported(own, first_user.result(), "fourth")
    expect_reported(restarted, second_user.result(), "fifth")
    senders = cluster_senders(cluster)
    assert all(len(worker_senders) <= 4 for worker_senders in senders), (
        senders
    )  # senders of events and of log lines for two servers


def cluster_senders(cluster):
    """Return the names of Prefect's senders of each worker."""
    import distributed

    def names():
        from prefect._internal.concurrency.services import _QueueServiceBase

        return [type(service).__name__ for service in _QueueServiceBase._instances.values()]

    with distributed.Client(cluster) as client:
        return [*client.run(names).values()]


def test_workers_without_access_to_the_server_end_the_build(own, cluster, monkeypatch):
    dead_server = ApiServer(f"https://127.0.0.1:{free_port()}/api", None, own.certificate)
    monkeypatch.setattr(runner, "server_of_run", lambda: dead_server)
    with pytest.raises(LostWorkers) as raised:
        run_on(own, cluster, "never")
    (line,) = raised.value.faults
    assert (
        f"a worker of the Dask cluster at {cluster.scheduler_address} cannot use the Prefect server" in line
    )
    assert "Connection refused" in line
    assert "set PREFECT_API_URL to a server that the workers can use" in line


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, ""),
        ({"login": "zyda:guessed"}, "it refuses the login"),
        ({"login": None}, "it refuses the login"),
        ({"certificate": "/nowhere/certificate.pem"}, "No such file"),
        ({"certificate": None}, "CERTIFICATE_VERIFY_FAILED"),
        ({"url": "https://127.0.0.1:1/api"}, "Connection refused"),
    ],
)
def test_server_fault_returns_the_cause(own, changed, fault):
    message = server_fault(ApiServer(own.url, own.login, own.certificate)._replace(**changed))
    assert fault in message
    assert bool(fault) == bool(message)
