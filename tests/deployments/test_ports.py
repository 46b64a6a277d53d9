"""The choice of ports by `zyda up`, and its messages about taken ports."""

import socket

from zyda_flows.deployments import local
from zyda_flows.deployments.stack import Stack


def test_taken_port_is_replaced_with_a_single_message(monkeypatch):
    messages = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        monkeypatch.setitem(local.PREFERRED_PORTS, "server", taken)
        stack = Stack()
        port = local.port_for(stack, "server", messages.append)
    assert port != taken
    assert messages == [f"port {taken} is taken by another program; the server listens on {port}"]
    assert local.port_for(stack, "server", messages.append) == port
    assert len(messages) == 1
