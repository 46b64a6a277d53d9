"""List and remove the folders of unfinished mixes: versions without a manifest, and segments."""

import re
from collections.abc import Iterable, Sequence

from zyda_flows.tasks.mixing.mixing import LOCK
from zyda_flows.tasks.mixing.mixture_manifest import MIXTURE
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.holding import holding_lock
from zyda_flows.tasks.storage.records import Record

VERSION_FOLDER = re.compile("[0-9a-f]{12}")  # the folder names of `Mixing.place`
SHUFFLE_FOLDERS = (f"{WORK}/segments", f"{WORK}/outputs")  # removed at the end of a mix


class Leftover(Record):
    """An unneeded folder in a mixture's folder. files: number of files. size: bytes."""

    path: str
    files: int
    size: int


def unfinished_versions(paths: Iterable[str]) -> list[str]:
    """Return the folders of versions without a manifest. paths: all files below the mixture's folder."""
    existing = set(paths)
    versions = sorted({path.partition("/")[0] for path in existing if "/" in path})
    return [
        name for name in versions if VERSION_FOLDER.fullmatch(name) and f"{name}/{MIXTURE}" not in existing
    ]


def leftovers(folder: Folder, ours: str = "") -> list[Leftover]:
    """List the folders of unfinished mixes. ours: the version of a running mix, whose folders are not listed."""
    sizes = {path: int(info["size"]) for path, info in folder.listed("").items()}
    unfinished = [name for name in unfinished_versions(sizes) if name != ours]
    folders = list[Leftover]()
    for path in [*unfinished, *([] if ours else SHUFFLE_FOLDERS)]:
        file_sizes = [size for name, size in sizes.items() if name.startswith(f"{path}/")]
        if file_sizes:
            folders.append(Leftover(path=path, files=len(file_sizes), size=sum(file_sizes)))
    return folders


def remove_leftovers(folder: Folder) -> Sequence[Leftover]:
    """Remove the folders of unfinished mixes while no other mix is running. Return the removed folders."""
    with holding_lock(folder, LOCK, "mix"):
        removed = leftovers(folder)
        for leftover in removed:
            folder.delete(leftover.path)
    return removed
