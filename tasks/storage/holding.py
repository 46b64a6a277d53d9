"""Lock a folder on a disk, so that processes that would remove each other's files run in sequence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stores import explain_errors


@contextmanager
def holding_lock(folder: Folder, lock: str, work: str) -> Iterator[None]:
    """Hold a lock on a folder within the block; the lock ends with the process.

    lock: path of the lock file in the folder. work: description of the work, for the warning of a waiting process.
    Folders in object stores are not locked, nor are folders on disks without support for locks. Raises Denied.
    """
    if not folder.is_local:
        yield
        return
    file_lock = FileLock(folder.path(lock))
    with explain_errors(folder.url):
        Path(folder.path(lock)).parent.mkdir(parents=True, exist_ok=True)
        acquire(file_lock, folder, work)
    try:
        yield
    finally:
        file_lock.release()


def acquire(file_lock: FileLock, folder: Folder, work: str) -> None:
    """Wait until no other process holds the lock."""
    try:
        file_lock.acquire(blocking=False)
    except Timeout:
        warn(f"another {work} writes to {folder.url}; waiting until it has ended")
        file_lock.acquire()
    except NotImplementedError:
        warn(f"{folder.url}: this disk does not support locks, so do not start a second {work} there")
