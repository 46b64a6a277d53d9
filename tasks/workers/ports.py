"""Choose where servers of this project listen: a free port of the loopback address."""

import socket
from random import SystemRandom  # not the generator that a program may have seeded

LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 30_000)  # below those that systems give to connections


def free_port() -> int:
    """Return a port of the loopback address that is free now.

    A server may bind it seconds later. So it is a random one of PORTS: systems give other ports to connections.
    """
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        if is_free(port):
            return port
    raise OSError(f"all ports from {PORTS[0]} to {PORTS[-1]} of {LOOPBACK} are in use")


def is_free(port: int) -> bool:
    """Return whether a server can listen on a port; remaining connections of an ended server do not matter."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
