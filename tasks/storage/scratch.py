"""Files that are being written: how they are called, and which of them nobody writes any more."""

import os
import platform
import uuid
from pathlib import Path

import psutil  # type: ignore[import-untyped]

SCRATCH = ".scratch"


def created(target: Path, content: bytes) -> bool:
    """Write a file that is not there, on a file system without hard links; False where it is there."""
    try:
        with target.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def scratch_name() -> str:
    """Name a scratch file so that others can see whether the process that writes it still runs."""
    return f"zyda-{platform.node()}-{os.getpid()}-{uuid.uuid4().hex}"


def is_left_behind(scratch: Path) -> bool:
    """Say whether a scratch file is of a process of this machine that has ended."""
    node, _, pid = scratch.name.removeprefix("zyda-").rpartition("-")[0].rpartition("-")
    if node != platform.node() or not pid.isdecimal():
        return False
    try:
        process, written = psutil.Process(int(pid)), scratch.stat().st_mtime
        return bool(written < process.create_time())  # its number has been given to another
    except psutil.NoSuchProcess:
        return True
    except OSError:
        return False
