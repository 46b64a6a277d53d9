"""One copy of what is published: on an object store, a published file takes the place of what it was copied from.

On a local disk both are one file with two names. In a store they are two, and the text of a corpus is most of what
it has there. So once a file is published, the record and the manifest of the stage that made it name the published
file, and the one in the work folder goes. No key changes, for none is made from a path: what is published already
is not made again. A file that a later build replaces is gone, and a recipe that is changed back has it written
again, unless `work_copies` keeps both.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from zyda_flows.tasks.accounts.published import PUBLISHED, TableFile
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.publish.files import PublishedShard
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.storage.artifacts import MANIFESTS, WORK, Artifact, Manifest, Receipt, load_manifest
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.forgetting import forget_results_of_nothing
from zyda_flows.tasks.storage.records import Record, read_record, write_record

TEXTS, KEYS = f"{WORK}/publish/", f"{WORK}/index/"  # where what is handed over was made
THEIR_MANIFESTS = re.compile(rf"{MANIFESTS}/(publish|index\d*)-")


@dataclass(frozen=True)
class Handover:
    """What was made with one record, and where it is published; the record names that, and what was made goes.

    paths: where it is published, by where it was made.
    """

    folder: Folder
    record: str
    paths: dict[str, str]

    def __call__(self) -> None:
        kind: type[Record] = PublishedShard if self.record.startswith(TEXTS) else Artifact
        with suppress(Damaged):  # it vouches for nothing, and is made again when it is needed
            if record := read_record(self.folder, self.record, kind):
                write_record(self.folder, self.record, self.renamed(record))
                self.folder.count(0, files=-1)  # where it lies there was one
        for path in self.paths:
            self.folder.remove(path)

    def renamed(self, record: Record) -> Record:
        """Return the record with the published files in the place of what was made."""
        return (
            self.published(record)
            if isinstance(record, Artifact)
            else record.model_copy(update={name: self.published(value) for name, value in record})
        )

    def published(self, value: Any) -> Any:
        """Return an artifact, or each of several, as it is published; anything else as it is."""
        if isinstance(value, tuple):
            return tuple(map(self.published, value))
        if not isinstance(value, Artifact):
            return value
        return value.model_copy(update={"path": self.paths.get(value.path, value.path)})


def record_of(path: str) -> str:
    """Return where the record lies that vouches for what was made at a path."""
    if not path.startswith(TEXTS):
        return f"{path}.json"
    of_source = path.split("/")[:3]  # whatever the folder of a component
    return "/".join([*of_source, path.rpartition("/")[2].removesuffix(".parquet") + ".json"])


def keep_one_copy(folder: Folder, files: Iterable[TableFile], receipts: Iterable[Receipt]) -> None:
    """Let go of what was made and is published. receipts: those of the stages whose tables are published."""
    paths = {file.made_as.path: f"{PUBLISHED}/{file.path}" for file in files if file.made_as}
    for receipt in receipts:
        manifest = load_manifest(folder, receipt)
        made = [one for one in manifest.artifacts if one.path in paths and one.path.startswith((TEXTS, KEYS))]
        if not made:
            continue
        of_records = dict[str, dict[str, str]]()
        for one in made:
            of_records.setdefault(record_of(one.path), {})[one.path] = paths[one.path]
        handed_over = {path for of_record in of_records.values() for path in of_record}
        handovers = [Handover(folder, record, of_record) for record, of_record in of_records.items()]
        fan_out(Handover.__call__, handovers, stage="corpus", source=None)
        published = tuple(
            one.model_copy(update={"path": paths[one.path]}) if one.path in handed_over else one
            for one in manifest.artifacts
        )
        records = (*manifest.intermediate, *of_records)
        # Last: as long as it names what was made, the next build goes on here.
        write_record(
            folder,
            receipt.path,
            manifest.model_copy(update={"artifacts": published, "intermediate": records}),
        )


def remove_replaced(folder: Folder, paths: Sequence[str], receipts: Iterable[Receipt]) -> None:
    """Remove what is published no longer, and first what says that stages of builds before have made it.

    receipts: those of the stages of this build, of which all is published.
    """
    if not paths:
        return
    current, names = {receipt.path for receipt in receipts}, {path.rpartition("/")[2] for path in paths}
    for path in folder.files(MANIFESTS):
        if THEIR_MANIFESTS.match(path) and path not in current:
            with suppress(Damaged):  # whoever needs it will find that
                manifest = read_record(folder, path, Manifest)
                if manifest and names & {
                    published_name(made).rpartition("/")[2] for made in manifest.artifacts
                }:
                    folder.remove(path)
    forget_results_of_nothing(folder)
    fan_out(folder.remove, paths, stage="corpus", source=None)


def published_name(made: Artifact) -> str:
    """Return the name of the file that an artifact is published as."""
    return f"{made.name}-{made.digest[:8]}.parquet"
