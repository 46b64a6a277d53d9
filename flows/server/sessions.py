"""Processes in sessions of their own, which Ctrl-C in the terminal does not end."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 0.05
SETTLED_SECONDS = 0.05  # a process that was killed while it started ends within this time


def start_session(
    command: list[str], environment: dict[str, str], log: Path, *, has_input: bool = False, umask: int = -1
) -> subprocess.Popen[bytes]:
    """Start a process in its own session, with its output appended to a log.

    Ctrl-C reaches all processes of a terminal, and can end the new process before it has its session; then it is
    started again.

    environment: variables added to those of this process.
    has_input: whether its standard input is a pipe from this process; otherwise it is empty.
    umask: mode bits that its files lack; -1: as in this process.
    """
    while True:
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603
                command, env={**os.environ, **environment}, stdout=output, stderr=output, cwd="/",
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL, start_new_session=True, umask=umask,
            )  # fmt: skip
        while process.poll() is None and not has_session(process.pid):
            time.sleep(LOOK_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            process.wait(SETTLED_SECONDS)
        if process.returncode != -signal.SIGINT:
            return process
        if process.stdin:
            process.stdin.close()


def has_session(pid: int) -> bool:
    with suppress(OSError):
        return os.getsid(pid) == pid
    return False
