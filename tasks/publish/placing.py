"""Put the published folder in place, after the files were read, so that it appears completely.

On a local disk the files are linked into a new folder, which replaces the old folder by two renames. An object
store has no renames: there `manifest.json` is written after the files that it lists, and then the files of the
former corpus are removed.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED, Published, TableFile
from zyda_flows.tasks.accounts.published_stamps import expect_manifest
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.scratch import SCRATCH, scratch_name

Texts = dict[str, bytes]


def unlisted_files(folder: Folder, paths: Iterable[str]) -> list[str]:
    """List the files in the published folder except `paths`, which are relative to it."""
    listed = {f"{PUBLISHED}/{path}" for path in (*paths, MANIFEST)}
    return [path for path in folder.files(PUBLISHED) if path not in listed]


@dataclass(frozen=True)
class DigestCheck:
    """A file to read before it is published, because a disk may have changed it.

    Returns its path if it has changed.
    """

    folder: Folder
    made: Artifact

    def __call__(self) -> str | None:
        made = self.made
        return made.path if self.folder.difference(made.path, made.size, made.digest) else None


@dataclass(frozen=True)
class Copy:
    """A file to read and to copy inside an object store, on any worker. Returns its path if it has changed."""

    folder: Folder
    made: Artifact
    path: str

    def __call__(self) -> str | None:
        if self.folder.difference(self.made.path, self.made.size, self.made.digest):
            return self.made.path
        if self.path != self.made.path:
            self.folder.copy(self.made.path, self.path)
        return None


def check_digests(folder: Folder, jobs: Sequence[DigestCheck | Copy]) -> None:
    """Run jobs over the cluster. Raises Damaged with the paths of changed files."""
    paths = fan_out(lambda job: job(), jobs, stage="corpus", source=None)
    if damaged := [path for path in paths if path]:
        raise Damaged(f"{folder.url}/{damaged[0]} was changed or deleted after it was made", *damaged)


def publish_by_rename(
    folder: Folder, manifest: Published, files: Sequence[TableFile], texts: Texts, whole_paths: Container[str]
) -> None:
    """Make a new folder and exchange it with the old one. Files at `whole_paths` are taken from the old folder."""
    new_shards = [file.made_as for file in files if file.made_as and file.path not in whole_paths]
    check_digests(folder, [DigestCheck(folder, shard) for shard in new_shards])
    staging = f"{SCRATCH}/{scratch_name()}"
    try:
        for file in files:
            is_whole = file.path in whole_paths
            path = f"{PUBLISHED}/{file.path}" if is_whole else str(file.made_as and file.made_as.path)
            folder.copy(path, f"{staging}/{file.path}")
        for path, text in {**texts, MANIFEST: manifest.written()}.items():
            folder.write(f"{staging}/{path}", text, read_only=True)
        expect_manifest(folder, manifest.written())
        folder.replace_folder(staging, PUBLISHED)
    finally:
        folder.delete(staging)  # the rest of it, if the disk is full


def publish_objects(
    folder: Folder, manifest: Published, files: Sequence[TableFile], texts: Texts, whole_paths: Container[str]
) -> None:
    """Write new files, then the manifest and the accounts. Files that are not listed any more are not removed."""
    new_files = [file for file in files if file.made_as and file.path not in whole_paths]
    copies = [Copy(folder, file.made_as, f"{PUBLISHED}/{file.path}") for file in new_files if file.made_as]
    # File names have digests: the former corpus is complete until its manifest is replaced.
    check_digests(folder, copies)
    expect_manifest(folder, manifest.written())
    table = manifest.table.path  # the manifest lists it
    for path, text in {table: texts[table], MANIFEST: manifest.written(), **texts}.items():
        folder.write(f"{PUBLISHED}/{path}", text)
