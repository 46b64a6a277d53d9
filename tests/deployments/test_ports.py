"""Which ports `zyda up` takes, and what it says of it."""

import socket

from zyda_flows.deployments import local
from zyda_flows.deployments.stack import Stack


def test_port_that_another_program_has_is_said(monkeypatch):
    said = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        monkeypatch.setitem(local.PREFERRED_PORTS, "server", taken)
        stack = Stack()
        port = local.port_for(stack, "server", said.append)
    assert port != taken
    assert said == [f"port {taken} is taken by another program; the server listens on {port}"]
    assert local.port_for(stack, "server", said.append) == port
    assert len(said) == 1
