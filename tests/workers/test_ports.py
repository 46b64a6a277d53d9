"""Free ports are not those that the system gives to connections, and differ between processes with equal seeds."""

import random
import socket
from pathlib import Path

import pytest

from zyda_flows.tasks.workers import ports

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_free_port_is_outside_the_range_of_connections():
    first, last = map(int, EPHEMERAL.read_text().split()) if EPHEMERAL.exists() else (49_152, 65_535)
    for _ in range(20):
        port = ports.free_port()
        assert not first <= port <= last
        with socket.socket() as server:
            server.bind((ports.LOOPBACK, port))


def test_free_ports_do_not_depend_on_a_seed():
    found = set()
    for _ in range(3):
        random.seed(1)
        found.add(ports.free_port())
    assert len(found) > 1


def test_used_ports_are_not_chosen(monkeypatch):
    with socket.socket() as server:
        port = ports.free_port()
        server.bind((ports.LOOPBACK, port))
        server.listen()
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        with pytest.raises(OSError, match=f"all ports from {port} to {port} of 127.0.0.1 are in use"):
            ports.free_port()
    assert ports.free_port() == port
