"""List and remove the versions of a mixture."""

from datetime import UTC, datetime
from typing import Literal

from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.mixing.leftovers import version_folders
from zyda_flows.tasks.mixing.mixing import LOCK
from zyda_flows.tasks.mixing.mixture_manifest import MIXTURE, MixtureManifest, manifest_at
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.holding import holding_lock
from zyda_flows.tasks.storage.records import Record


class MixtureVersion(Record):
    """A version of a mixture.

    Args:
        place: Name of its folder.
        state: `current` for the version of the last mix, `complete`, or `unfinished` without a readable manifest.
        written_at: Time at which it was finished, in UTC.
        files, size: Number of its files, and their bytes.
        tokens: Tokens in its files, with those held out.
    """

    place: str
    state: Literal["current", "complete", "unfinished"]
    written_at: datetime | None = None
    files: int
    size: int
    tokens: int | None = None


def current_version(folder: Folder) -> MixtureManifest | None:
    """Return the manifest of the last mix, or None if there is none."""
    return manifest_at(folder, MIXTURE)


def versions_of(folder: Folder) -> list[MixtureVersion]:
    """Return the versions of a mixture: unfinished versions, then the others from the oldest to the newest."""
    current = current_version(folder)
    versions = [version_at(folder, place, current) for place in version_folders(folder)]
    return sorted(versions, key=lambda version: (version.written_at is not None, str(version.written_at)))


def version_at(folder: Folder, place: str, current: MixtureManifest | None) -> MixtureVersion:
    """Return the description of a version by the name of its folder."""
    sizes = [int(info["size"]) for info in folder.listed(place).values()]
    path = f"{place}/{MIXTURE}"
    manifest = manifest_at(folder, path)
    if manifest is None:
        return MixtureVersion(place=place, state="unfinished", files=len(sizes), size=sum(sizes))
    return MixtureVersion(
        place=place,
        state="current" if current and current.place == place else "complete",
        written_at=datetime.fromtimestamp(folder.written_at(path), UTC),
        files=len(sizes),
        size=sum(sizes),
        tokens=manifest.tokens,
    )


def find_version(folder: Folder, place: str) -> MixtureVersion:
    """Return a version by the name of its folder. Raises BadRequest for an unknown name."""
    if place not in (known := version_folders(folder)):
        names = ", ".join(known) or "none"
        raise BadRequest(f"{folder.url}: this mixture has no version {place}; its versions: {names}")
    return version_at(folder, place, current_version(folder))


def remove_version(folder: Folder, version: MixtureVersion) -> None:
    """Remove a version while no mix is running. After an interruption, an unfinished version remains."""
    with holding_lock(folder, LOCK, "mix"):
        current = current_version(folder)
        if current and current.place == version.place:
            folder.remove(MIXTURE)
        folder.remove(f"{version.place}/{MIXTURE}")
        folder.delete(version.place)
