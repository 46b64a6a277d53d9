"""Scratch files, which are being written: their names, and the removal of files whose process has ended."""

import errno
import hashlib
import os
import platform
import shutil
import uuid
from functools import cache
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from zyda_flows.tasks.storage.births import birth_of

SCRATCH = ".scratch"
NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


def link_as(scratch: Path, target: Path) -> bool:
    """Give a written file a second name by a hard link; return False if the name exists.

    On a file system without hard links, write the content to a file with that name.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(scratch, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        return create(target, scratch.read_bytes())
    return True


def create(target: Path, content: bytes) -> bool:
    """Write a file unless it exists; return False if it exists."""
    try:
        with target.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def scratch_name() -> str:
    """Return a name for a scratch file that tells other processes whether its writer still runs."""
    return f"zyda-{platform.node()}-{own_mark(os.getpid())}-{uuid.uuid4().hex}"


def process_mark(pid: int) -> str:
    """Return a process's number and a short hash of its start. Raises psutil.NoSuchProcess."""
    return f"{pid}-{hashlib.sha256(birth_of(psutil.Process(pid)).encode()).hexdigest()[:12]}"


# Cached for this process, because its start does not change; a fork has another number.
own_mark = cache(process_mark)


def replace_folder(source: Path, target: Path, old: Path) -> None:
    """Move a folder to `target`; a folder that exists there is moved to `old` and removed."""
    old.parent.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        os.rename(target, old)
    os.rename(source, target)
    shutil.rmtree(old, ignore_errors=True)


def remove_orphans(parent: Path) -> None:
    """Remove the scratch files and folders of ended processes from a folder."""
    for scratch in parent.glob("zyda-*-*-*-*"):
        if is_orphan(scratch):
            if scratch.is_dir():
                shutil.rmtree(scratch, ignore_errors=True)
            else:
                scratch.unlink(missing_ok=True)


def is_orphan(scratch: Path) -> bool:
    """Return whether a scratch file belongs to a process of this machine that has ended."""
    node, pid, birth = scratch.name.removeprefix("zyda-").rsplit("-", 3)[:3]
    if node != platform.node() or not pid.isdecimal():
        return False
    try:  # compare starts, because numbers are reused; not file times, because the clock may be set
        return process_mark(int(pid)) != f"{pid}-{birth}"
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:  # the process exists, but its start cannot be read
        return False
