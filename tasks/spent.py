"""What work takes: processor time, memory, and what is asked of stores, as each process counts it.

A process counts for itself, whatever its threads do: `METER.take` returns all that it has spent since it was last
asked. So what the calls of a stage return adds up to what its processes spent, and nothing is counted twice; of
two calls side by side in one process, the first to end is given what both have spent so far.
"""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Lock
from typing import Any

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FORGET_PEAK = "5"  # written to CLEAR, it has Linux begin the process's peak anew
KIB_OF_PEAK = 1 if sys.platform != "darwin" else 1 / 1024


@dataclass(frozen=True)
class Spent:
    """What some calls have spent.

    cpu: seconds of all threads. peak: bytes of memory of the process that had most. inputs, input_requests: what
    was read of the sources' files. read, written, requests: of the corpus's folder. files: that came there and
    stayed.
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
        """Return what was spent since; the peak is that of now."""
        more = {name: getattr(self, name) - getattr(other, name) for name in NAMES}
        return Spent(**(more | {"peak": self.peak}))


NAMES = tuple(field.name for field in fields(Spent))


class Meter:
    """Counts what this process spends."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.counts: dict[str, Any] = dict.fromkeys(NAMES, 0)
        self.last: Spent | None = None

    def add(self, **counts: int) -> None:
        """Count something that was asked of a store."""
        with self.lock:
            for name, count in counts.items():
                self.counts[name] += count

    def begin(self) -> None:
        """Leave out what was spent before the first call."""
        if self.last is None:
            self.take()

    def take(self) -> Spent:
        """Return what has been spent since it was last taken."""
        with self.lock:
            now = Spent(**(self.counts | {"cpu": time.process_time(), "peak": take_peak()}))
            spent = now - (self.last or Spent())
            self.last = now
        return spent


METER = Meter()
# Whoever wants to know of each call: the stage, the source, what came of it and what it spent.
TELL: ContextVar[Callable[[str, str | None, Any, Spent], None] | None] = ContextVar("tell", default=None)


@contextmanager
def telling(tell: Callable[[str, str | None, Any, Spent], None]) -> Iterator[None]:
    """Have calls that are made in the block told of, with what they spent."""
    token = TELL.set(tell)
    try:
        yield
    finally:
        TELL.reset(token)


def take_peak() -> int:
    """Return the most memory that this process has had since it was last asked, or ever, in bytes."""
    with suppress(OSError, ValueError, StopIteration):
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        CLEAR.write_text(FORGET_PEAK)
        return int(line.split()[1]) << 10
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB_OF_PEAK) << 10
