"""Holding a folder on a disk: of two processes that would remove what the other needs, one waits."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from zyda_flows.tasks.log import warn
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stores import explain_errors


@contextmanager
def held(folder: Folder, lock: str, what: str) -> Iterator[None]:
    """Hold a folder for as long as the block runs; whoever is killed holds it no longer.

    lock: the path in it of the file that is locked. what: what holds it, as a person is told who waits. Folders in
    object stores are not held, and neither are those on disks that know no locks. Raises Denied.
    """
    if not folder.is_local:
        yield
        return
    file_lock = FileLock(folder.path(lock))
    with explain_errors(folder.url):
        Path(folder.path(lock)).parent.mkdir(parents=True, exist_ok=True)
        acquire(file_lock, folder, what)
    try:
        yield
    finally:
        file_lock.release()


def acquire(file_lock: FileLock, folder: Folder, what: str) -> None:
    """Wait until nobody else has a lock."""
    try:
        file_lock.acquire(blocking=False)
    except Timeout:
        warn(f"another {what} writes to {folder.url}; waiting until it has ended")
        file_lock.acquire()
    except NotImplementedError:
        warn(f"{folder.url}: this disk knows no locks, so start no second {what} there")
