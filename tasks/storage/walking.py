"""List the files below a path one by one, so that the list of a large work folder is never in memory."""

import os
from collections.abc import Iterator
from contextlib import suppress

from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.stores import explain_errors


def sizes_below(folder: Folder, path: str) -> Iterator[tuple[str, int]]:
    """Yield each file below a path, relative to the folder, with its bytes; in no order.

    Local files are read one by one. The files of one folder of a store are listed at once: fsspec has no pages.
    """
    pending = [path]
    while pending:
        place = pending.pop()
        for name, size in entries(folder, place):
            if size is None:
                pending.append(f"{place}/{name}")
            else:
                yield f"{place}/{name}", size


def entries(folder: Folder, path: str) -> Iterator[tuple[str, int | None]]:
    """Yield the names in a folder with their bytes, None for a folder; nothing if the folder does not exist."""
    folder.count()
    with explain_errors(f"{folder.url}/{path}"), suppress(FileNotFoundError):
        if folder.is_local:
            with os.scandir(folder.path(path)) as found:
                for entry in found:
                    with suppress(FileNotFoundError):  # removed since the scan
                        yield entry.name, None if entry.is_dir() else entry.stat().st_size
            return
        folder.fs.invalidate_cache()
        place = folder.path(path).rstrip("/")
        for info in folder.fs.ls(place, detail=True):
            name = str(info["name"]).rstrip("/")
            if name != place:  # some stores list a folder as a file
                yield name.rpartition("/")[2], None if info["type"] == "directory" else int(info["size"])
        folder.fs.invalidate_cache()
