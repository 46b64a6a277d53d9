"""How a build ends because what it stands on is gone."""

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
    """End the program with one line when the Prefect server is gone, without which a build can only wait."""
    is_over = threading.Event()
    threading.Thread(target=watch_server, args=(server, is_over), daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def watch_server(server: LocalServer, is_over: threading.Event) -> None:
    """Look every second; nothing can be told to a server that is gone, so the end is sudden."""
    last_seen = time.monotonic()
    while not is_over.wait(LOOK_SECONDS):
        if server.is_there():
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > server.patience and not is_over.is_set():
            gone = f"the Prefect server at {server.api.dashboard} is gone"
            print(f"zyda: {gone}; {RESUME_ADVICE}", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(1)
