"""Start the processes of the stack, recognise them later, and stop them with their child processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from pydantic import BaseModel

from zyda_flows.flows.server.sessions import start_session
from zyda_flows.tasks.storage.births import birth_of

STOP_SECONDS = 20
LOOK_SECONDS = 0.05


class ServiceProcess(BaseModel):
    """A process of the stack. `birth` distinguishes it from a later process with the same number."""

    name: str
    pid: int
    birth: str
    address: str = ""
    dashboard: str = ""

    @property
    def runs(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            return self.is_same(process) and is_alive(process)
        except psutil.NoSuchProcess:
            return False

    @property
    def is_number_reused(self) -> bool:
        """Whether its number was given to another process."""
        try:
            return not self.is_same(psutil.Process(self.pid))
        except psutil.NoSuchProcess:
            return False

    def is_same(self, process: psutil.Process) -> bool:
        return birth_of(process) == self.birth

    def poll(self) -> int | None:
        """Return None while the process runs, like `subprocess.Popen.poll`."""
        return None if self.runs else 1


def describe_process(
    name: str, process: subprocess.Popen[bytes], address: str = "", dashboard: str = ""
) -> ServiceProcess:
    birth = birth_of(psutil.Process(process.pid))
    return ServiceProcess(name=name, pid=process.pid, birth=birth, address=address, dashboard=dashboard)


def start(name: str, command: list[str], environment: dict[str, str], logs: Path) -> subprocess.Popen[bytes]:
    """Start a Python module that outlives this process, in its own session and with its own log file."""
    return start_session([sys.executable, "-m", *command], environment, logs / f"{name}.log")


def stop(service: ServiceProcess) -> bool:
    """Terminate a process and its children, and kill them after STOP_SECONDS. Returns whether any was running.

    If the process was killed, its children may still run, and are stopped as well.
    """
    family = list(family_of(service))
    for member in family:
        ignoring_ended(member.terminate)
    for member in alive_after(STOP_SECONDS, family):
        ignoring_ended(member.kill)
    alive_after(STOP_SECONDS, family)
    return bool(family)


def alive_after(seconds: float, processes: list[psutil.Process]) -> list[psutil.Process]:
    """Wait until all processes have ended, for `seconds` at most; return the processes that still run."""
    deadline = time.monotonic() + seconds
    while (alive := [process for process in processes if is_alive(process)]) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return alive


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs. An ended process is a zombie until its parent reads its status."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def family_of(service: ServiceProcess) -> Iterator[psutil.Process]:
    """Yield a service's process and its children; for a dead service, the processes of its session."""
    if service.runs:
        process = psutil.Process(service.pid)
        with suppress(psutil.NoSuchProcess):
            yield from [process, *process.children(recursive=True)]
    elif not service.is_number_reused:  # then no other session has the number
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                if os.getsid(process.pid) == service.pid and is_alive(process):
                    yield process


def ignoring_ended(call: Callable[[], None]) -> None:
    with suppress(psutil.NoSuchProcess):
        call()
