"""The scheduler of the program: closed pages of its dashboard, stopped workers, and short logs."""

import logging
import os
import signal
from contextlib import suppress
from urllib.parse import quote, urlsplit

import dask
import distributed
import httpx
import pytest
from patience import HANG, wait_for

from zyda_flows.tasks.workers import own_scheduler
from zyda_flows.tasks.workers.dask_cluster import close_cluster, open_cluster

pytestmark = pytest.mark.slow

UPGRADE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster():
    """Yield a cluster with a single worker that checks for silent workers each second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask.system, "CPU_COUNT", 1)
        patch.setattr(own_scheduler, "LOOK_SECONDS", 1)
        opened = open_cluster()
        yield opened
        close_cluster(opened, 10)


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as connected:
        connected.wait_for_workers(1)
        yield connected


def answer(cluster, path, **headers):
    return httpx.get(
        f"http://127.0.0.1:{urlsplit(cluster.dashboard_link).port}{path}", headers=headers, timeout=HANG
    )


def increased(number):
    return number + 1


def test_stopped_worker_is_replaced(cluster, client):
    """Before, Dask checked once per timeout, so that a replacement took up to two timeouts."""
    assert cluster.scheduler.periodic_callbacks["worker-ttl"].callback_time == 1000
    cluster.scheduler.worker_ttl = 5  # seconds
    (pid,) = client.run(os.getpid).values()
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: len(client.scheduler_info()["workers"]) == 0, every=0.5)
        wait_for(lambda: len(client.scheduler_info()["workers"]) == 1, every=0.5)
        assert [*client.run(os.getpid).values()] != [pid]
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_schedulers_and_workers_keep_few_messages(cluster, client):
    """Before, each kept its last 1,000 messages with whole tasks, 3 to 4 MB of each build."""
    client.gather(client.map(increased, range(500), pure=False))
    scheduler = cluster.scheduler
    lengths = {
        len(scheduler.transition_log),
        *(len(stream.recent_message_log) for stream in scheduler.stream_comms.values()),
    }
    (worker_lengths,) = client.run(
        lambda dask_worker: [
            len(dask_worker.state.stimulus_log),
            len(dask_worker.batched_stream.recent_message_log),
        ]
    ).values()
    assert 0 < max(*lengths, *worker_lengths) <= 10


def test_dashboard_requests_cause_no_errors_and_no_connections(cluster, client, caplog):
    """Before, a GET of /eventstream logged an error at each step of each task, and a GET of /hardware ran a benchmark."""
    from distributed.dashboard.scheduler import applications

    worker = quote(next(iter(client.scheduler_info()["workers"])), safe="")
    refused = [
        "/eventstream", "/sitemap.json", "/proxy/80/127.0.0.1/x", "/info/main/logs.html", f"/info/logs/{worker}.html",
        "/hardware",
        "/info/logs/tls%3A%2F%2F127.0.0.1%3A9.html", f"/info/call-stacks/{worker}.html", "/info/call-stack/x.html",
    ]  # fmt: skip
    pages = [
        page for page in applications if page != "/hardware" and "profile" not in page
    ]  # profile pages log at each GET
    answered = [
        *pages, "/", "/info", "/info/main/workers.html", f"/info/worker/{worker}.html", "/individual-plots.json",
        "/json/counts.json", "/json/identity.json", "/json/index.html", "/health", "/metrics", "/statics/css/base.css",
        "/info/main/exceptions.html",
    ]  # fmt: skip
    plugins = set(cluster.scheduler.plugins)
    with caplog.at_level(logging.WARNING):
        for path in refused:
            assert answer(cluster, path).status_code == 404, path
            assert answer(cluster, path, **UPGRADE).status_code == 404, path
        for path in answered:
            assert answer(cluster, path).status_code in (200, 301, 302), path
        assert client.gather(client.map(increased, range(50), pure=False)) == [*range(1, 51)]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text
    remaining = {
        type(cluster.scheduler.plugins[name]).__name__ for name in set(cluster.scheduler.plugins) - plugins
    }
    assert "WebsocketPlugin" not in remaining
