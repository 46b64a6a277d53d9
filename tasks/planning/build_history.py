"""The record of a corpus's builds, beside what is published: when each was, its ledger, its sources' changes.

It says what the published folder may not, which is the same for the same corpus. A build that publishes the same
again adds nothing, and MOST_BUILDS are kept. Nothing is made from it but reports, so damage is said and left out.
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
EXAMPLES = 3  # files that are named of those that came, changed or went
SOFTWARE = ("zyda-flows", "prefect", "dask", "pyarrow")


class Examples(Record):
    """So many files, and the URLs of the first EXAMPLES."""

    count: int = 0
    examples: tuple[str, ...] = ()


class FilesChanged(Record):
    """The files of a source, or of a corpus that it is against, that are not as the build before saw them."""

    source: str
    added: Examples
    changed: Examples
    removed: Examples


class Build(Record):
    """A build that published something new.

    number: counted from 1, without a gap. time: when its manifest was written, ISO 8601 in UTC. manifest: the
    SHA-256 of that. software: names and versions. recipe: as the manifest has it. files: what changed since the
    build before.
    """

    number: int
    time: str
    manifest: str
    software: dict[str, str]
    recipe: dict[str, Any]
    ledger: Ledger
    files: tuple[FilesChanged, ...] = ()


def records_of(folder: Folder) -> list[str]:
    """List the records of the builds, the last of them at the end."""
    return [path for path in folder.files(HISTORY) if number_of(path)]


def builds_of(folder: Folder) -> list[Build]:
    """Read the builds that are recorded, the last of them at the end."""
    return [build for path in records_of(folder) if (build := read_build(folder, path))]


def damaged_records(folder: Folder) -> list[str]:
    """List the records of builds that are not as they were written."""
    return [path for path in records_of(folder) if not is_sealed(folder.read(path), Build, path)]


def read_build(folder: Folder, path: str) -> Build | None:
    """Read the record of a build, or say that it cannot be read."""
    try:
        return unseal(folder.read(path), Build, path)
    except Damaged:
        warn(f"{folder.url}/{path} is cut or changed, or another's; reports leave that build out")
        return None


def last_builds(folder: Folder) -> tuple[Build | None, Build | None]:
    """Return the build of what is published and the build before it, each as far as it is recorded."""
    builds = builds_of(folder)
    this = builds.pop() if builds and builds[-1].manifest == digest_of_manifest(folder) else None
    return this, builds[-1] if builds else None


def is_recorded(folder: Folder) -> bool:
    """Say whether what is published is what the last recorded build published."""
    *_, last = [None, *records_of(folder)]
    build = read_build(folder, last) if last else None
    return build is not None and build.manifest == digest_of_manifest(folder)


def digest_of_manifest(folder: Folder) -> str:
    return sha256(folder.read(f"{PUBLISHED}/{MANIFEST}")).hexdigest()


def time_of_manifest(folder: Folder) -> datetime:
    """Return when storage says that the published manifest was written."""
    return datetime.fromtimestamp(folder.written_at(f"{PUBLISHED}/{MANIFEST}"), UTC)


def forget_damaged_records(folder: Folder) -> None:
    """Remove the records of builds that are damaged: nothing can make them again."""
    for path in damaged_records(folder):
        warn(f"{folder.url}/{path} is cut or changed, or another's; it cannot be made again, and is removed")
        folder.delete(path)


def record_build(
    folder: Folder, manifest: Published, changes: Iterable[Change], most: int = MOST_BUILDS
) -> None:
    """Record the build of what is published. changes: in the sources since the build before. most: are kept."""
    paths = records_of(folder)
    number = max((number_of(path) for path in paths), default=0) + 1
    build = Build(
        number=number,
        time=time_of_manifest(folder).isoformat(timespec="seconds"),
        manifest=digest_of_manifest(folder),
        software={"Python": platform.python_version(), **{name: version(name) for name in SOFTWARE}},
        recipe=manifest.recipe,
        ledger=manifest.ledger,
        files=tuple(map(files_changed, changes)),
    )
    write_record(folder, f"{HISTORY}/{number:06d}.json", build)
    for path in paths[: len(paths) + 1 - most]:
        folder.delete(path)


def number_of(path: str) -> int:
    """Return the number in the path of a record, 0 for a file that is none."""
    name = path.removeprefix(f"{HISTORY}/").removesuffix(".json")
    return int(name) if name.isdecimal() and path.endswith(".json") else 0


def files_changed(change: Change) -> FilesChanged:
    """Count the files that came, changed and went."""
    added, changed, removed = (
        Examples(count=len(urls), examples=urls[:EXAMPLES])
        for urls in (change.added, change.changed, change.removed)
    )
    return FilesChanged(source=change.source, added=added, changed=changed, removed=removed)
