"""The limit of simultaneous requests to a host, over all workers."""

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


def request_page(host, _):
    with host_limits.place_at(host):
        urlopen(host).close()


def test_simultaneous_requests_of_all_workers_are_limited(host, monkeypatch):
    monkeypatch.setenv(host_limits.SETTING, str(MOST))
    options = {"n_workers": 2, "threads_per_worker": 4, "dashboard_address": ":0", "processes": False}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        client.gather([client.submit(request_page, host, i, pure=False) for i in range(24)])
    assert (Counting.most, Counting.served) == (MOST, 24)


def test_requests_outside_of_workers_are_not_limited(host):
    request_page(host, 0)


@pytest.mark.parametrize(("value", "most"), [("", 32), ("5", 5), ("0", 1), ("many", 32)])
def test_limit_is_read_from_the_environment(monkeypatch, value, most):
    monkeypatch.setenv(host_limits.SETTING, value)
    assert host_limits.most_requests() == most
