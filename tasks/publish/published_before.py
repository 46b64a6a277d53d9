"""The corpus that is published before a build: which of its files are undamaged, and whether it is equal."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.published import (
    MANIFEST,
    NO_TABLE,
    PUBLISHED,
    File,
    Published,
    published_manifest,
)
from zyda_flows.tasks.accounts.published_files import FileTable, make_file_table
from zyda_flows.tasks.accounts.published_stamps import (
    difference,
    file_states,
    missing_files,
    possibly_changed,
)
from zyda_flows.tasks.accounts.readings import due_for_reading, times_checked, utc_now
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.publish.placing import Texts, unlisted_files
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.values import as_timedelta
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.storage.folder import Folder

DIGESTS = ["path", "sha256", "size"]


@dataclass(frozen=True)
class PublishedBefore:
    """The published corpus before a build. file_states: of all files, as `published_stamps` yields them."""

    folder: Folder
    manifest: Published
    file_states: pa.Table

    @cached_property
    def stamps(self) -> dict[str, str]:
        """The present stamp of each existing file, by path."""
        listed = zip(
            self.file_states.column("path").to_pylist(),
            self.file_states.column("now").to_pylist(),
            strict=True,
        )
        return {path: stamp for path, stamp in listed if stamp is not None}

    def is_same(self, manifest: Published, files: Sequence[File], texts: Texts) -> bool:
        """Return whether the published corpus is equal to a new corpus, apart from times of reading."""
        digests = {path: sha256(text).hexdigest() for path, text in texts.items()}
        if {file.path: file.sha256 for file in self.manifest.accounts} != digests:
            return False
        without = {"table": NO_TABLE, "accounts": ()}
        if (
            self.manifest.model_copy(update=without).written()
            != manifest.model_copy(update=without).written()
        ):
            return False
        try:
            entries = FileTable(self.folder.folder(PUBLISHED), self.manifest.table).rows("")
        except Damaged as error:
            warn(f"{error}; it is published again")
            return False
        return (
            make_file_table(files)
            .drop_columns("checked_at")
            .equals(entries.drop_columns("checked_at").combine_chunks())
        )

    def is_whole(self, whole: Container[str]) -> bool:
        """Return whether all published files are in `whole`, and the folder has no other files."""
        paths = self.file_states.column("path").to_pylist()
        return all(path in whole for path in paths if path != MANIFEST) and not unlisted_files(
            self.folder, paths
        )


def read_published_before(folder: Folder) -> PublishedBefore | None:
    """Return the published corpus, None if nothing is published or it cannot be read."""
    manifest = published_manifest(folder)
    if manifest is None:
        return None
    try:
        return PublishedBefore(folder, manifest, pa.concat_tables(file_states(folder, manifest)))
    except Damaged as error:
        warn(f"{error}; it is published again")
        return None


def whole_files(recipe: Recipe, before: PublishedBefore) -> dict[str, str]:
    """Return the times at which undamaged published files were last compared, by path. Warn of damaged files.

    Files with another stamp, and files whose last reading is too long ago, are read.
    """
    folder, now = recipe.folder, utc_now()
    known = times_checked(folder, before.file_states)
    changed, lost = possibly_changed(known), missing_files(known)
    unsure = pa.concat_tables([changed, lost]).column("path").combine_chunks()
    sure = known.filter(pc.invert(pc.is_in(known.column("path"), unsure)))
    aged = due_for_reading(sure, as_timedelta(recipe.reread_after))
    read_files = [File(**row) for row in pa.concat_tables([changed, aged]).select(DIGESTS).to_pylist()]
    differences = fan_out(lambda file: difference(folder, file), read_files, stage="corpus", source=None)
    faults = dict.fromkeys(lost.column("path").to_pylist(), "is missing")
    faults |= {file.path: fault for file, fault in zip(read_files, differences, strict=True) if fault}
    for path, fault in faults.items():
        warn(f"{folder.url}/{PUBLISHED}/{path} {fault}; it is published again")
    times = dict(zip(known.column("path").to_pylist(), known.column("checked_at").to_pylist(), strict=True))
    times |= {file.path: now for file in read_files}
    return {path: time for path, time in times.items() if path not in faults and path != MANIFEST}
