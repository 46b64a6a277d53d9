"""Where our servers listen: on the loopback address, each on a port of its own."""

import socket

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port on which nobody listens at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Say whether a server can listen on a port; connections of one that is gone are no hindrance."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
