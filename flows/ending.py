"""How a build from the terminal ends early: by a signal, or because what it stands on is gone."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from flows.local_server import Server

KEPT = "what is finished is kept; start the build again and it goes on from there"
LOOK_SECONDS = 1


class Ended(BaseException):
    """A signal that ends the build."""


@contextmanager
def ends_in_order() -> Iterator[None]:
    """End the block, and the program, with one line and the usual exit status at Ctrl-C and SIGTERM."""
    received: list[int] = []

    def handle(number: int, _: FrameType | None) -> NoReturn:
        received.append(number)
        be_silent()
        raise Ended(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except BaseException:
        if not received:
            raise
        # What is raised after a signal is only how it looks from within that everything was stopped.
        what = "interrupted" if received[0] == signal.SIGINT else "ended by SIGTERM"
        print(f"zyda: {what}; {KEPT}", file=sys.stderr)  # noqa: T201
        sys.exit(128 + received[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def be_silent() -> None:
    """Leave what libraries say of an end that was asked for unsaid."""
    logging.disable()
    threading.excepthook = lambda _: None


@contextmanager
def ends_without(server: Server) -> Iterator[None]:
    """End the program with one line when the Prefect server is gone, without which a build can only wait."""
    is_over = threading.Event()
    threading.Thread(target=watch, args=(server, is_over), daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def watch(server: Server, is_over: threading.Event) -> None:
    """Look every second; nothing can be told to a server that is gone, so the end is sudden."""
    last_seen = time.monotonic()
    while not is_over.wait(LOOK_SECONDS):
        if server.is_there():
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > server.patience and not is_over.is_set():
            print(f"zyda: the Prefect server at {server.url} is gone; {KEPT}", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(1)
