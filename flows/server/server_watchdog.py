"""End a build if its Prefect server has ended."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zyda_flows.flows.server.local_server import LocalServer
from zyda_flows.flows.server.signals import RESUME_ADVICE

LOOK_SECONDS = 1


@contextmanager
def server_watchdog(server: LocalServer) -> Iterator[None]:
    """End the program with a message if the Prefect server ends, because the build could only wait for it."""
    is_over = threading.Event()
    threading.Thread(target=watch_server, args=(server, is_over), daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def watch_server(server: LocalServer, is_over: threading.Event) -> None:
    """Check the server every second. Exit at once, because an ended server cannot receive the state of the run."""
    last_seen = time.monotonic()
    while not is_over.wait(LOOK_SECONDS):
        if server.is_there():
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > server.patience and not is_over.is_set():
            gone = f"the Prefect server at {server.api.dashboard} is gone"
            print(f"zyda: {gone}; {RESUME_ADVICE}", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(1)
