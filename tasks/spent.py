"""Measure the resources of work: processor time, memory and requests to stores, in each process.

A process counts the work of all its threads: `METER.take` returns the resources used since its last call. So the
results of a stage's calls add up to the resources of its processes, and nothing is counted twice. If two calls
run in a process in parallel, the resources of both until then are attributed to the call that ends first.
"""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from threading import Lock
from typing import Any

CLEAR = "/proc/self/clear_refs"
FORGET_PEAK = b"5"  # written to CLEAR, it makes Linux reset the process's peak memory
KIB_OF_PEAK = 1 if sys.platform != "darwin" else 1 / 1024


@dataclass(frozen=True)
class Spent:
    """The resources that some calls have used.

    cpu: seconds of all threads. peak: bytes of memory of the process that used most. inputs, input_requests:
    bytes read from the sources' files, and requests. read, written, requests: for the corpus's folder. files:
    added to it, less those removed.
    """

    calls: int = 0
    cpu: float = 0.0
    peak: int = 0
    inputs: int = 0
    input_requests: int = 0
    read: int = 0
    written: int = 0
    requests: int = 0
    files: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        both = {name: getattr(self, name) + getattr(other, name) for name in NAMES}
        return Spent(**(both | {"peak": max(self.peak, other.peak)}))

    def __sub__(self, other: "Spent") -> "Spent":
        """Return the difference of all resources except the peak, which is this object's."""
        more = {name: getattr(self, name) - getattr(other, name) for name in NAMES}
        return Spent(**(more | {"peak": self.peak}))


NAMES = tuple(field.name for field in fields(Spent))


class Meter:
    """Count the resources that this process uses."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.counts: dict[str, Any] = dict.fromkeys(NAMES, 0)
        self.last: Spent | None = None

    def add(self, **counts: int) -> None:
        """Add to the counts of requests, bytes and files."""
        with self.lock:
            for name, count in counts.items():
                self.counts[name] += count

    def begin(self) -> None:
        """Start counting, so that resources used before the first call are left out."""
        if self.last is None:
            self.take()

    def take(self) -> Spent:
        """Return the resources used since the last call."""
        with self.lock:
            now = Spent(**(self.counts | {"cpu": time.process_time(), "peak": take_peak()}))
            spent = now - (self.last or Spent())
            self.last = now
        return spent


METER = Meter()
# If set, called after each call of a stage, with the stage, the source, the result and the resources.
OnResult = Callable[[str, str | None, Any, Spent], None]
ON_RESULT: ContextVar[OnResult | None] = ContextVar("on_result", default=None)


@contextmanager
def calling_on_result(on_result: OnResult) -> Iterator[None]:
    """Set ON_RESULT within a block."""
    token = ON_RESULT.set(on_result)
    try:
        yield
    finally:
        ON_RESULT.reset(token)


def take_peak() -> int:
    """Return the peak memory of this process in bytes since the last call, or since its start, and reset it."""
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB_OF_PEAK) << 10
    with suppress(OSError):  # not on other systems
        descriptor = os.open(CLEAR, os.O_WRONLY)
        try:
            os.write(descriptor, FORGET_PEAK)
        finally:
            os.close(descriptor)
    return peak
