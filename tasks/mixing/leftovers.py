"""What mixes that did not end have left in a mixture's folder: versions without a manifest, and segments."""

import re
from collections.abc import Iterable, Sequence

from zyda_flows.tasks.mixing.mixing import LOCK
from zyda_flows.tasks.mixing.mixture_manifest import MIXTURE
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.holding import held
from zyda_flows.tasks.storage.records import Record

VERSION_FOLDER = re.compile("[0-9a-f]{12}")  # as `Mixing.place` names versions
OF_SHUFFLE = (f"{WORK}/segments", f"{WORK}/outputs")  # which a mix removes when it ends


class Leftover(Record):
    """A folder below a mixture's that no mixture needs, with its files and their bytes."""

    path: str
    files: int
    size: int


def unfinished_versions(paths: Iterable[str]) -> list[str]:
    """Return the folders of versions without a manifest. paths: of all files below the mixture's folder."""
    known = set(paths)
    versions = sorted({path.partition("/")[0] for path in known if "/" in path})
    return [name for name in versions if VERSION_FOLDER.fullmatch(name) and f"{name}/{MIXTURE}" not in known]


def leftovers(folder: Folder, ours: str = "") -> list[Leftover]:
    """List the folders that mixes left which did not end. ours: a version that is not listed."""
    sizes = {path: int(info["size"]) for path, info in folder.listed("").items()}
    unfinished = [name for name in unfinished_versions(sizes) if name != ours]
    found = list[Leftover]()
    for path in [*unfinished, *([] if ours else OF_SHUFFLE)]:
        of_path = [size for name, size in sizes.items() if name.startswith(f"{path}/")]
        if of_path:
            found.append(Leftover(path=path, files=len(of_path), size=sum(of_path)))
    return found


def remove_leftovers(folder: Folder) -> Sequence[Leftover]:
    """Remove what mixes left which did not end, while no other mix writes there; return what was removed."""
    with held(folder, LOCK, "mix"):
        found = leftovers(folder)
        for one in found:
            folder.delete(one.path)
    return found
