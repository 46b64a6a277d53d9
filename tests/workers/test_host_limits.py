"""Requests to one host: no more at once than it is to get, from all workers together."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import distributed
import pytest

from zyda_flows.tasks.workers import host_limits

MOST = 2


class Counting(BaseHTTPRequestHandler):
    lock, now, most, served = threading.Lock(), 0, 0, 0

    def do_GET(self):
        kind = type(self)
        with self.lock:
            kind.now += 1
            kind.served += 1
            kind.most = max(kind.most, kind.now)
        time.sleep(0.05)
        with self.lock:
            kind.now -= 1
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def host():
    Counting.now = Counting.most = Counting.served = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def ask(host, _):
    with host_limits.place_at(host):
        urlopen(host).close()


def test_host_gets_no_more_requests_at_once_than_it_is_to(host, monkeypatch):
    monkeypatch.setenv(host_limits.SETTING, str(MOST))
    options = {"n_workers": 2, "threads_per_worker": 4, "dashboard_address": ":0", "processes": False}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        client.gather([client.submit(ask, host, i, pure=False) for i in range(24)])
    assert (Counting.most, Counting.served) == (MOST, 24)


def test_off_a_worker_nobody_is_held_up(host):
    ask(host, 0)


@pytest.mark.parametrize(("said", "most"), [("", 32), ("5", 5), ("0", 1), ("many", 32)])
def test_number_of_places_is_a_setting(monkeypatch, said, most):
    monkeypatch.setenv(host_limits.SETTING, said)
    assert host_limits.most_requests() == most
