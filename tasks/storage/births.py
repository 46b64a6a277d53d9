"""Identify processes: process numbers are reused, and start times change if the clock is set."""

from pathlib import Path

import psutil  # type: ignore[import-untyped]

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def birth_of(process: psutil.Process) -> str:
    """Return a text for the start of a process, unique among processes with its number.

    Raises psutil.NoSuchProcess.
    """
    boot = BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else ""
    # psutil compares the same value internally: seconds since the start of the machine, independent of its clock.
    return f"{boot}@{process._proc.create_time(monotonic=True):.2f}"


def is_process(pid: int, birth: str) -> bool:
    """Return whether a process runs and is not another process with the same number."""
    try:
        process = psutil.Process(pid)
        return birth_of(process) == birth and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
