"""How a command ends by a signal: with one line, whatever it is doing, be it still importing."""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

RESUME_ADVICE = "what is finished is kept; start the build again and it goes on from there"
SECONDS_BEFORE_AGAIN = 0.1
ENDING: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM"}


class Ended(BaseException):
    """A signal that ends the program: its number."""

    def __str__(self) -> str:
        return ENDING[self.args[0]]


@contextmanager
def end_in_order(kept: str = "") -> Iterator[None]:
    """End the block, and the program, with one line and the usual exit status at Ctrl-C and SIGTERM.

    kept: what a person should know then: what stays, and how to go on.
    """

    def handle(number: int, _: FrameType | None) -> NoReturn:
        be_silent()
        raise Ended(number)

    before = {number: signal.signal(number, handle) for number in ENDING}
    with note_signals() as noted, resend_swallowed_signals():
        try:
            yield
        except BaseException:
            number = next((number for number in noted() if number in ENDING), None)
            if number is None:
                raise
            # What is raised after a signal is only how it looks from within that everything was stopped.
            print(f"zyda: {ENDING[number]}{kept and '; '}{kept}", file=sys.stderr)  # noqa: T201
            sys.exit(128 + number)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def note_signals() -> Iterator[Callable[[], bytes]]:
    """Give a function that returns the numbers of the signals that came in the block, whoever handles them.

    Prefect has a handler of its own during a flow run, and what that raises may come out as another error.
    """
    reading, writing = socket.socketpair()
    with reading, writing:
        reading.setblocking(False)
        writing.setblocking(False)

        def noted() -> bytes:
            with suppress(BlockingIOError):
                return reading.recv(100)
            return b""

        before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        try:
            yield noted
        finally:
            signal.set_wakeup_fd(before)


@contextmanager
def resend_swallowed_signals() -> Iterator[None]:
    """Send a signal again whose exception nobody got, for it came while garbage was collected.

    What is raised in such a place (a callback of the collector, a `__del__`) ends nothing: Python only says so.
    """
    before = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        error = unraisable.exc_value
        # Ours, or Prefect's TerminationSignal.
        number = error.args[0] if isinstance(error, Ended) else getattr(error, "signal", None)
        if number not in ENDING:
            before(unraisable)
            return
        again = threading.Timer(SECONDS_BEFORE_AGAIN, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def hold_back_signals() -> Iterator[None]:
    """Let a signal that ends the program wait until the block is over."""
    came = list[int]()
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            os.kill(os.getpid(), number)


def be_silent() -> None:
    """Leave what libraries say of an end that was asked for unsaid."""
    logging.disable()
    threading.excepthook = lambda _: None
