"""The record of the builds of a corpus: for each build its time, its ledger and the changes of its sources.

The record is outside the published folder, because equal corpora have equal published folders. A build that
publishes the same corpus again is not recorded, and only the last MOST_BUILDS are kept. Only reports read the
record, so a damaged record causes a warning and is skipped.
"""

import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any

from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED, Published
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.planning.changes import Change
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, is_sealed, unseal, write_record

HISTORY = "history"
MOST_BUILDS = 20
EXAMPLES = 3  # listed files of each kind: added, changed and removed
SOFTWARE = ("zyda-flows", "prefect", "dask", "pyarrow")


class Examples(Record):
    """A number of files, and the URLs of the first EXAMPLES."""

    count: int = 0
    examples: tuple[str, ...] = ()


class FilesChanged(Record):
    """The files of a source, or of a corpus in `against`, that changed since the build before."""

    source: str
    added: Examples
    changed: Examples
    removed: Examples


class Build(Record):
    """A build that published new data.

    number: from 1, without gaps. time: of its manifest, ISO 8601 in UTC. manifest: the SHA-256 of the manifest.
    software: names and versions. recipe: as in the manifest. files: the changes since the build before.
    """

    number: int
    time: str
    manifest: str
    software: dict[str, str]
    recipe: dict[str, Any]
    ledger: Ledger
    files: tuple[FilesChanged, ...] = ()


def records_of(folder: Folder) -> list[str]:
    """Return the records of the builds, oldest first."""
    return [path for path in folder.files(HISTORY) if number_of(path)]


def builds_of(folder: Folder) -> list[Build]:
    """Return the recorded builds, oldest first."""
    return [build for path in records_of(folder) if (build := read_build(folder, path))]


def damaged_records(folder: Folder) -> list[str]:
    """Return the records of builds that were changed or cut."""
    return [path for path in records_of(folder) if not is_sealed(folder.read(path), Build, path)]


def read_build(folder: Folder, path: str) -> Build | None:
    """Return the recorded build, or None with a warning if it cannot be read."""
    try:
        return unseal(folder.read(path), Build, path)
    except Damaged:
        warn(f"{folder.url}/{path} is cut or changed, or another's; reports leave that build out")
        return None


def last_builds(folder: Folder) -> tuple[Build | None, Build | None]:
    """Return the build of the published corpus and the build before it, None if not recorded."""
    builds = builds_of(folder)
    this = builds.pop() if builds and builds[-1].manifest == digest_of_manifest(folder) else None
    return this, builds[-1] if builds else None


def is_recorded(folder: Folder) -> bool:
    """Return whether the last recorded build published the current corpus."""
    *_, last = [None, *records_of(folder)]
    build = read_build(folder, last) if last else None
    return build is not None and build.manifest == digest_of_manifest(folder)


def digest_of_manifest(folder: Folder) -> str:
    return sha256(folder.read(f"{PUBLISHED}/{MANIFEST}")).hexdigest()


def time_of_manifest(folder: Folder) -> datetime:
    """Return the time at which the published manifest was written, according to storage."""
    return datetime.fromtimestamp(folder.written_at(f"{PUBLISHED}/{MANIFEST}"), UTC)


def forget_damaged_records(folder: Folder) -> None:
    """Remove damaged records of builds, which cannot be restored."""
    for path in damaged_records(folder):
        warn(f"{folder.url}/{path} is cut or changed, or another's; it cannot be made again, and is removed")
        folder.delete(path)


def record_build(
    folder: Folder, manifest: Published, changes: Iterable[Change], most: int = MOST_BUILDS
) -> None:
    """Record the build of the published corpus. changes: since the build before. most: records to keep."""
    paths = records_of(folder)
    number = max((number_of(path) for path in paths), default=0) + 1
    build = Build(
        number=number,
        time=time_of_manifest(folder).isoformat(timespec="seconds"),
        manifest=digest_of_manifest(folder),
        software={"Python": platform.python_version(), **{name: version(name) for name in SOFTWARE}},
        recipe=manifest.recipe,
        ledger=manifest.ledger,
        files=tuple(map(list_changes, changes)),
    )
    write_record(folder, f"{HISTORY}/{number:06d}.json", build)
    for path in paths[: len(paths) + 1 - most]:
        folder.delete(path)


def number_of(path: str) -> int:
    """Return the number in the path of a record, 0 for other files."""
    name = path.removeprefix(f"{HISTORY}/").removesuffix(".json")
    return int(name) if name.isdecimal() and path.endswith(".json") else 0


def list_changes(change: Change) -> FilesChanged:
    """Count the added, changed and removed files."""
    added, changed, removed = (
        Examples(count=len(urls), examples=urls[:EXAMPLES])
        for urls in (change.added, change.changed, change.removed)
    )
    return FilesChanged(source=change.source, added=added, changed=changed, removed=removed)
