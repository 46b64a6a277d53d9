"""Keep one copy of published files on an object store: remove the work file after it has been copied.

On a local disk the published file and the work file are one file with two names. On a store they are two files, and
most of the bytes of a corpus. After a file is published, the record and the manifest of the stage that made it are
changed to the path of the published file, and the work file is removed. Keys do not depend on paths, so nothing is
made again. If a later build replaces a published file, and the recipe is then changed back, the file has to be made
again, unless the recipe has `work_copies`.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from zyda_flows.tasks.accounts.published import PUBLISHED, TableFile
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.publish.published_shards import PublishedShards
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.storage.artifacts import (
    MANIFESTS,
    WORK,
    Artifact,
    ArtifactRecord,
    Manifest,
    Receipt,
    load_manifest,
)
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.forgetting import forget_results_of_nothing
from zyda_flows.tasks.storage.records import Record, read_record, write_record

TEXTS, KEYS = f"{WORK}/publish/", f"{WORK}/index/"  # the folders of the work files that are removed
THEIR_MANIFESTS = re.compile(rf"{MANIFESTS}/(publish|index\d*)-")


@dataclass(frozen=True)
class Handover:
    """The work files of a record: the record is changed to the published paths, and the work files are removed.

    record: its path. paths: the published paths, by the paths of the work files.
    """

    folder: Folder
    record: str
    paths: dict[str, str]

    def __call__(self) -> None:
        kind: type[Record] = PublishedShards if self.record.startswith(TEXTS) else ArtifactRecord
        with suppress(Damaged):  # a damaged record is made again when it is needed
            if record := read_record(self.folder, self.record, kind):
                write_record(self.folder, self.record, self.renamed(record))
                self.folder.count(0, files=-1)  # the record replaces a file
        for path in self.paths:
            self.folder.remove(path)

    def renamed(self, record: Record) -> Record:
        """Return the record with the published paths."""
        return record.model_copy(update={name: self.published(value) for name, value in record})

    def published(self, value: Any) -> Any:
        """Return an artifact, or a tuple of artifacts, with published paths; any other value unchanged."""
        if isinstance(value, tuple):
            return tuple(map(self.published, value))
        if not isinstance(value, Artifact):
            return value
        return value.at(self.paths.get(value.path, value.path))


def record_of(path: str) -> str:
    """Return the path of the record of a work file."""
    if not path.startswith(TEXTS):
        return f"{path}.json"
    folders = path.split("/")[:3]  # without the folder of a component
    return "/".join([*folders, path.rpartition("/")[2].removesuffix(".parquet") + ".json"])


def keep_one_copy(folder: Folder, files: Iterable[TableFile], receipts: Iterable[Receipt]) -> None:
    """Remove the work files of published files. receipts: of the stages whose tables are published."""
    paths = {file.made_as.path: f"{PUBLISHED}/{file.path}" for file in files if file.made_as}
    for receipt in receipts:
        manifest = load_manifest(folder, receipt)
        by_record = dict[str, dict[str, str]]()
        for artifact in manifest.artifacts:
            if artifact.path in paths and artifact.path.startswith((TEXTS, KEYS)):
                by_record.setdefault(record_of(artifact.path), {})[artifact.path] = paths[artifact.path]
        if by_record:
            handovers = [Handover(folder, record, moved) for record, moved in by_record.items()]
            fan_out(Handover.__call__, handovers, stage="corpus", source=None)
            # The manifest is written last: as long as it has the old paths, the next build continues here.
            write_record(folder, receipt.path, with_published_paths(manifest, by_record))


def with_published_paths(manifest: Manifest, by_record: dict[str, dict[str, str]]) -> Manifest:
    """Return a manifest with the published paths of its artifacts. by_record: published paths by work path."""
    published = {path: to for paths in by_record.values() for path, to in paths.items()}
    artifacts = tuple(
        artifact.at(published.get(artifact.path, artifact.path)) for artifact in manifest.artifacts
    )
    records = (*manifest.intermediate, *by_record)
    return manifest.model_copy(update={"artifacts": artifacts, "intermediate": records})


def remove_replaced(folder: Folder, paths: Sequence[str], receipts: Iterable[Receipt]) -> None:
    """Remove files that are not published any more, after the manifests of earlier builds that list them.

    receipts: of the stages of this build, whose files are all published.
    """
    if not paths:
        return
    current, names = {receipt.path for receipt in receipts}, {path.rpartition("/")[2] for path in paths}
    for path in folder.files(MANIFESTS):
        if THEIR_MANIFESTS.match(path) and path not in current:
            with suppress(Damaged):  # a damaged manifest is found when it is needed
                manifest = read_record(folder, path, Manifest)
                if manifest and names & {
                    published_name(made).rpartition("/")[2] for made in manifest.artifacts
                }:
                    folder.remove(path)
    forget_results_of_nothing(folder)
    fan_out(folder.remove, paths, stage="corpus", source=None)


def published_name(made: Artifact) -> str:
    """Return the published file name of an artifact."""
    return f"{made.name}-{made.digest[:8]}.parquet"
