"""The process of the Prefect server that the program starts."""

import asyncio
import base64
import os
import sqlite3
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import httpx
import pytest
from browser import new_page, taken_over
from patience import HANG, wait_for
from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterId,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.context import FlowRunContext
from prefect.events.clients import get_events_subscriber
from prefect.logging import get_run_logger
from prefect.settings import (
    PREFECT_SERVER_REGISTER_BLOCKS_ON_START,
    PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED,
    temporary_settings,
)

from zyda_flows.flows.server.health import is_healthy, refuses_login
from zyda_flows.flows.server.local_server import (
    NoServer,
    flush_logs_and_events,
    retention,
    start_server,
    wait_until_healthy,
    without_block_types,
)
from zyda_flows.flows.server.login import Api, use_api
from zyda_flows.tasks.workers.ports import free_port
from zyda_flows.tasks.workers.tls import server_key_pair

FORM = """
import gc, threading, time, weakref
from zyda_flows.flows.server import prefect_server

prefect_server.SECONDS = 0.05
prefect_server.collect_garbage_in_a_thread()
class Ring: pass
ring, where = Ring(), []
ring.itself = ring
weakref.finalize(ring, lambda: where.append(threading.current_thread().name))
del ring
many = [[] for _ in range(100_000)]  # which would start a collection here
while not where:
    time.sleep(0.05)
print(gc.isenabled(), *where)
"""


class Healthy(BaseHTTPRequestHandler):
    """Answer like a healthy server, and record the received logins."""

    told = list[str]()

    def do_GET(self):
        self.told.append(str(self.headers.get("Authorization")))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.slow
def test_server_of_another_user_on_the_port_is_rejected(stranger, tmp_path, monkeypatch):
    """The port is on the command line, so another user could listen there first to receive the login."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    port = free_port()
    stranger(port, is_tls=False)
    process, api = start_server(port, tmp_path / "log")
    with pytest.raises(NoServer, match="did not start"):
        wait_until_healthy(process, api, tmp_path / "log")
    process.wait()
    assert Healthy.told == []


def test_garbage_is_collected_in_a_background_thread():
    process = subprocess.run([sys.executable, "-c", FORM], capture_output=True, text=True, check=True)
    assert process.stdout == "False garbage\n"


def test_damaged_certificate_or_key_is_replaced_and_a_valid_pair_is_kept(tmp_path):
    pair, other = server_key_pair(tmp_path), server_key_pair(tmp_path / "other")
    pair.ensure()
    other.ensure()
    for path in (pair.certificate, pair.key):
        valid = path.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600
        for damaged in (b"", valid[:100], valid.replace(b"A", b"B", 1), other.key.read_bytes()):
            path.write_bytes(damaged)
            pair.ensure()
            ssl.create_default_context(cafile=pair.certificate)
            replaced = path.read_bytes()
            assert replaced not in (valid, damaged)
            pair.ensure()
            assert path.read_bytes() == replaced


@pytest.fixture
def stranger(tmp_path):
    """Yield a function that listens on a port like another user of the machine. `Healthy.told` has the received logins."""

    def listen(port, is_tls):
        server = ThreadingHTTPServer(("127.0.0.1", port), Healthy)
        if is_tls:
            other = server_key_pair(tmp_path / "of a stranger")
            other.ensure()
            server.socket = other.server_context().wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)

    Healthy.told, servers = [], []
    yield listen
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("is_tls", [True, False])
def test_program_on_the_port_of_a_dead_server_gets_no_login_and_is_rejected(stranger, tmp_path, is_tls):
    """Before, the worker of `zyda up` executed runs that such a server returned."""
    process, api = start_server(free_port(), tmp_path / "zyda/log")
    wait_until_healthy(process, api, tmp_path / "zyda/log")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")} | api.clients
    environment["PREFECT_HOME"] = str(tmp_path)
    command = [sys.executable, "-m", "prefect", "work-pool", "ls"]
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0
    process.kill()
    process.wait()
    stranger(urlsplit(api.url).port, is_tls)
    stranger(urlsplit(api.dashboard).port, is_tls=False)
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "SSL" in refused.stdout + refused.stderr
    assert not is_healthy(api)

    async def listen_for_events():
        async with get_events_subscriber():
            pass

    with use_api(api), pytest.raises(ssl.SSLError):
        asyncio.run(listen_for_events())
    assert Healthy.told == []


@pytest.mark.slow
def test_login_in_an_open_tab_is_invalid_after_the_end_of_its_server(browser, tmp_path, monkeypatch):
    user_login = "admin:of all my servers"
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", user_login)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    process, api = start_server(free_port(), tmp_path / "log")
    try:
        wait_until_healthy(process, api, tmp_path / "log")
        assert refuses_login(api.model_copy(update={"login": user_login}))
        page = new_page(browser)
        page.goto(api.link)
        page.wait_for_url("**/runs")
        stored_login = page.evaluate("localStorage.getItem('prefect-password')")
        assert stored_login == api.token
        assert api.token not in page.url
        assert page.context.cookies() == []
    finally:
        process.kill()
        process.wait()
    with taken_over(urlsplit(api.dashboard).port) as received:
        page.wait_for_function(
            "login => fetch('/api/flow_runs/filter', {method: 'POST', headers: {Authorization: login}})",
            arg=f"Basic {stored_login}",
        )  # like the repeated requests of the dashboard
        assert any(stored_login in request for request in received)
        assert not any(base64.b64encode(user_login.encode()).decode() in request for request in received)
    ports = urlsplit(api.dashboard).port, urlsplit(api.url).port
    process, new_api = start_server(ports[0], tmp_path / "log", api_port=ports[1])
    try:
        wait_until_healthy(process, new_api, tmp_path / "log")
        assert refuses_login(api)
        assert not refuses_login(new_api)
    finally:
        process.kill()
        process.wait()


def test_link_of_another_server_does_not_contain_the_login():
    api = Api(url="https://prefect.example/api", login="admin:lasting")
    assert api.link == api.dashboard == "https://prefect.example"


def test_old_runs_are_deleted_with_their_logs_and_artifacts(server, prefect_home, request):
    """Before, each build added a megabyte to Prefect's database permanently."""
    if request.config.getoption("postgres"):
        pytest.skip("changes times in SQLite")

    @flow(persist_result=False)
    def noted():
        get_run_logger().warning("noted")
        return create_markdown_artifact("noted"), FlowRunContext.get().flow_run.id

    ended = {days: noted() for days in (100, 80)}
    flush_logs_and_events()
    with sqlite3.connect(prefect_home / "prefect.db", timeout=HANG) as database:
        for days, (_, run) in ended.items():
            database.execute(
                "UPDATE flow_run SET end_time = datetime('now', ?) WHERE replace(id, '-', '') = ?",
                (f"-{days} days", run.hex),
            )
    with get_client(sync_client=True) as client:

        def remaining():
            runs = FlowRunFilter(id=FlowRunFilterId(any_=[run for _, run in ended.values()]))
            artifacts = ArtifactFilter(id=ArtifactFilterId(any_=[artifact for artifact, _ in ended.values()]))
            logs = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run for _, run in ended.values()]))
            return (
                {record.id for record in client.read_flow_runs(flow_run_filter=runs)},
                {record.id for record in client.read_artifacts(artifact_filter=artifacts)},
                {record.flow_run_id for record in client.read_logs(logs)},
            )

        kept = ended[80]
        wait_for(lambda: remaining() == ({kept[1]}, {kept[0]}, {kept[1]}), every=1)


def test_retention_of_the_user_overrides_the_default():
    assert retention() == {"PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs"}
    with temporary_settings({PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED: "events"}):
        assert retention() == {}


def test_registration_of_block_types_by_the_user_overrides_the_default():
    assert without_block_types()["PREFECT_SERVER_REGISTER_BLOCKS_ON_START"] == "false"
    with temporary_settings({PREFECT_SERVER_REGISTER_BLOCKS_ON_START: True}):
        assert without_block_types() == {}


def test_simultaneous_requests_all_succeed(server):
    """Before, a transaction that had read could not wait for the lock: it failed, and the dashboard returned 503."""
    login = os.environ["PREFECT_API_AUTH_STRING"]
    tls = ssl.create_default_context(cafile=os.environ["PREFECT_API_SSL_CERT_FILE"])
    options = {"base_url": server, "auth": tuple(login.split(":", 1)), "timeout": 300, "verify": tls}
    with httpx.Client(**options) as client:
        flow = client.post("/flows/", json={"name": "clicked"}).json()["id"]
        deployment = {"name": "clicked", "flow_id": flow, "enforce_parameter_schema": False}
        path = f"/deployments/{client.post('/deployments/', json=deployment).json()['id']}/create_flow_run"

    def click(number):
        with httpx.Client(**options) as client:
            return client.post(path, json={"tags": [f"click {number}"]}).status_code

    with ThreadPoolExecutor(16) as clicks:
        assert [*clicks.map(click, range(64))] == [HTTPStatus.CREATED] * 64
