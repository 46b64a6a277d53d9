"""Measure a process and its descendants: CPU-seconds, and the largest memory of the process and of its workers."""

import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

SAMPLE_SECONDS = 0.2
# Parts of the command lines of the processes that Python's multiprocessing starts.
SERVER, SPAWNED = "multiprocessing.forkserver", "multiprocessing.spawn"


class Usage:
    """The resources of a process and its descendants, in samples.

    The last SAMPLE_SECONDS of a process may be missing. Workers are the processes that were spawned, or that
    Python's fork server forked (their command line is the server's). Memory is resident memory in MiB, by the peaks
    that Linux records.
    """

    def __init__(self, root: psutil.Process) -> None:
        self.root = root
        self.seconds = dict[tuple[int, float], float]()
        self.peak = self.worker_peak = 0.0

    def sample(self) -> None:
        self.peak = max(self.peak, peak_mib_of(self.root))
        descendants = list[psutil.Process]()
        with suppress(psutil.Error):
            descendants = self.root.children(recursive=True)
        servers = {process.pid for process in descendants if SERVER in command_of(process)}
        for process in (self.root, *descendants):
            with suppress(psutil.Error):
                times = process.cpu_times()
                self.seconds[process.pid, process.create_time()] = times.user + times.system
                if process.ppid() in servers or (process != self.root and SPAWNED in command_of(process)):
                    self.worker_peak = max(self.worker_peak, peak_mib_of(process))

    def cpu_seconds(self) -> float:
        return sum(self.seconds.values())

    @contextmanager
    def watched(self) -> Iterator["Usage"]:
        """Take samples in another thread within the block, and at its beginning and end."""
        stop = threading.Event()

        def sample_until_stopped() -> None:
            while not stop.wait(SAMPLE_SECONDS):
                self.sample()

        self.sample()
        thread = threading.Thread(target=sample_until_stopped, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()
            self.sample()


def run_watched(command: Sequence[str | Path], **options: Any) -> tuple[float, Usage]:
    """Run a command; return its seconds and its usage. options: of Popen.

    Raises SystemExit with the end of its output if it fails.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, **options)
        with Usage(psutil.Process(process.pid)).watched() as usage:
            status = process.wait()
        seconds = time.perf_counter() - start
        if status:
            output.seek(0)
            raise SystemExit(f"{' '.join(map(str, command))} failed:\n{output.read().decode()[-4000:]}")
    return seconds, usage


def command_of(process: psutil.Process) -> str:
    """Return the command line of a process, or an empty string if it has ended."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def peak_mib_of(process: psutil.Process) -> float:
    """Return the largest resident memory that a process had so far, or 0 if it has ended."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    return 0.0
