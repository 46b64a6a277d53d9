"""The process of a Prefect server that we start."""

import os
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from flows.server.local_server import NoServer, clients_of, start_server, wait_until_healthy
from flows.server.login import Api

SOMEWHERE = Api(url="http://127.0.0.1:1/api")

FORM = """
import gc, threading, time, weakref
from flows.server import prefect_server

prefect_server.SECONDS = 0.05
prefect_server.collect_elsewhere()
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
    """Answers as a healthy server does, and keeps what it is told."""

    told = list[str]()

    def do_GET(self):
        self.told.append(str(self.headers.get("Authorization")))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_another_users_server_on_the_port_is_not_taken_for_ours(tmp_path, monkeypatch):
    """Its port is on the command line, and whoever listens there first would get the login."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        process, api = start_server(other.server_address[1], tmp_path / "log")
        with pytest.raises(NoServer, match="did not start"):
            wait_until_healthy(process, api.url, tmp_path / "log")
        process.wait()
        other.shutdown()
    assert set(Healthy.told) <= {"None"}


def test_garbage_is_collected_in_a_thread_that_nobody_waits_for():
    said = subprocess.run([sys.executable, "-c", FORM], capture_output=True, text=True, check=True)
    assert said.stdout == "False garbage\n"


def test_file_of_one_authority_is_written_again_where_it_is_not_as_it_was(tmp_path):
    path = Path(clients_of(SOMEWHERE, tmp_path)["PREFECT_API_SSL_CERT_FILE"])
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole.replace(b"A", b"B", 1)):
        path.write_bytes(damaged)
        clients_of(SOMEWHERE, tmp_path)
        assert path.read_bytes() == whole
    ssl.create_default_context(cafile=str(path))


def test_no_click_is_lost_while_many_write(server):
    """Before, a transaction that had read could not wait for the lock: it failed, and the dashboard said 503."""
    login = os.environ["PREFECT_API_AUTH_STRING"]
    options = {"base_url": server, "auth": tuple(login.split(":", 1)), "timeout": 300}
    with httpx.Client(**options) as client:
        flow = client.post("/flows/", json={"name": "clicked"}).json()["id"]
        deployment = {"name": "clicked", "flow_id": flow, "enforce_parameter_schema": False}
        path = f"/deployments/{client.post('/deployments/', json=deployment).json()['id']}/create_flow_run"

    def click(number):
        with httpx.Client(**options) as client:
            return client.post(path, json={"tags": [f"click {number}"]}).status_code

    with ThreadPoolExecutor(16) as clicks:
        assert [*clicks.map(click, range(64))] == [HTTPStatus.CREATED] * 64
