"""List and remove folders that no finished mix needs: versions without a manifest, segments, exchanged clusters."""

import re
from collections.abc import Sequence

from zyda_flows.tasks.mixing.mixing import LOCK
from zyda_flows.tasks.mixing.mixture_manifest import MIXTURE
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.holding import holding_lock
from zyda_flows.tasks.storage.records import Record

VERSION_FOLDER = re.compile("[0-9a-f]{12}")  # the folder names of `Mixing.place`
SHUFFLE_FOLDERS = (f"{WORK}/segments", f"{WORK}/outputs")  # removed at the end of a mix
EXCHANGE_FOLDERS = (f"{WORK}/shares", f"{WORK}/clusters")  # made again if the choice of documents changes


class Leftover(Record):
    """An unneeded folder in a mixture's folder. files: number of files. size: bytes."""

    path: str
    files: int
    size: int


def version_folders(folder: Folder) -> list[str]:
    """Return the folders of the versions of a mixture, without a listing of their files and of the work folder."""
    return [name for name in folder.folders("") if VERSION_FOLDER.fullmatch(name)]


def unfinished_versions(folder: Folder) -> list[str]:
    """Return the folders of the versions of a mixture without a manifest."""
    return [name for name in version_folders(folder) if not folder.exists(f"{name}/{MIXTURE}")]


def leftovers(folder: Folder, ours: str = "") -> list[Leftover]:
    """List the folders that no finished mix needs.

    ours: the version of a running mix; then only the folders of other unfinished versions are listed.
    """
    unfinished = [name for name in unfinished_versions(folder) if name != ours]
    folders = list[Leftover]()
    for path in [*unfinished, *([] if ours else (*SHUFFLE_FOLDERS, *EXCHANGE_FOLDERS))]:
        file_sizes = [int(info["size"]) for info in folder.listed(path).values()]
        if file_sizes:
            folders.append(Leftover(path=path, files=len(file_sizes), size=sum(file_sizes)))
    return folders


def remove_leftovers(folder: Folder) -> Sequence[Leftover]:
    """Remove the folders that no finished mix needs while no mix is running. Return the removed folders."""
    with holding_lock(folder, LOCK, "mix"):
        removed = leftovers(folder)
        for leftover in removed:
            folder.delete(leftover.path)
    return removed
