"""Files and folders that no other user of the machine can read or write."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp

TEMPORARY = "temporary-directory"


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner can read, and replace an existing file atomically."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    scratch.touch(mode=0o600, exist_ok=False)
    scratch.write_text(content, encoding="ascii")
    scratch.replace(path)


def private_folder() -> str:
    """Return the folder for the temporary files of workers, which no other user can write.

    Dask's default is a shared name among all temporary files: it belongs to the user who creates it first, and
    workers import modules from it. Our folder is the same for all builds, because Dask removes the files of
    killed workers from it.
    """
    import dask  # late: the command line imports this module, and Dask takes long to import

    if chosen := dask.config.get(TEMPORARY, None):
        return str(chosen)
    folder = Path(gettempdir(), f"zyda-dask-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
        return str(folder)
    return mkdtemp(prefix="zyda-dask-")  # another user owns the folder, or others can read it
