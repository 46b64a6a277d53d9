"""End a command on a signal with a one-line message, even while it still imports modules."""

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

RESUME_ADVICE = "finished work is kept; start the build again to continue"
SECONDS_BEFORE_AGAIN = 0.1
SIGNAL_MESSAGES: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM"}


class EndedBySignal(BaseException):
    """A signal that ends the program. Its argument is the number of the signal."""

    def __str__(self) -> str:
        return SIGNAL_MESSAGES[self.args[0]]


@contextmanager
def end_on_signal(kept: str = "") -> Iterator[None]:
    """End the block and the program on Ctrl-C and SIGTERM, with one line and the usual exit status.

    kept: advice for the user at the end of that line: which results are kept, and how to continue.
    """

    def handle(number: int, _: FrameType | None) -> NoReturn:
        silence_libraries()
        raise EndedBySignal(number)

    before = {number: signal.signal(number, handle) for number in SIGNAL_MESSAGES}
    with note_signals() as noted, resend_swallowed_signals():
        try:
            yield
        except BaseException:
            number = next((number for number in noted() if number in SIGNAL_MESSAGES), None)
            if number is None:
                raise
            # After a signal, the error is a consequence of the interruption and is not shown.
            print(f"zyda: {SIGNAL_MESSAGES[number]}{kept and '; '}{kept}", file=sys.stderr)  # noqa: T201
            sys.exit(128 + number)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def note_signals() -> Iterator[Callable[[], bytes]]:
    """Yield a function that returns the numbers of the signals during the block, for any handler.

    Prefect has its own handler during a flow run, and its exception may be replaced by another error.
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
    """Send a signal again if its exception was lost because it was raised during garbage collection.

    An exception in a callback of the collector or in `__del__` ends nothing: Python only reports it.
    """
    before = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        error = unraisable.exc_value
        # Ended, or Prefect's TerminationSignal.
        number = error.args[0] if isinstance(error, EndedBySignal) else getattr(error, "signal", None)
        if number not in SIGNAL_MESSAGES:
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
    """Delay signals that end the program until the end of the block."""
    received = list[int]()
    before = {
        number: signal.signal(number, lambda number, _: received.append(number)) for number in SIGNAL_MESSAGES
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in received:
            os.kill(os.getpid(), number)


def silence_libraries() -> None:
    """Suppress messages of libraries about an end that the user requested."""
    logging.disable()
    threading.excepthook = lambda _: None
