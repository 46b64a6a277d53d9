"""Which process it is: numbers are given again, and times of birth move when somebody sets the clock."""

from pathlib import Path

import psutil  # type: ignore[import-untyped]

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def birth_of(process: psutil.Process) -> str:
    """Name the moment at which a process began: no other with its number has the same.

    Raises psutil.NoSuchProcess.
    """
    boot = BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else ""
    # What psutil itself compares: counted from the start of the machine, and not by the clock.
    return f"{boot}@{process._proc.create_time(monotonic=True):.2f}"


def is_process(pid: int, birth: str) -> bool:
    """Say whether a process runs, and not another that has got its number."""
    try:
        process = psutil.Process(pid)
        return birth_of(process) == birth and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
