"""Merging: merge the files of band keys of a source with many shards, so that a range is read from few files.

About GROUP_SHARDS files are merged at a time, and the results again, until there are few. A hash of the shard's
name decides where a group begins (as in content-defined chunking), so that an added or removed file changes a
single group of each level.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zyda_flows.tasks.signatures.bands import (
    GROUP_ROWS,
    is_wide,
    key_ranges,
    numbers_in_name,
    read_range,
    rows_schema,
    write_band_rows,
)
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import total
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import write_artifact

VERSION = 1
MERGE = "merge bands"  # the name of the fan-out
GROUPS_OF_BAND = 512  # row groups in a large file: more make its footer large, fewer read too many rows
GROUP_SHARDS = 64  # on average
MOST_SHARDS = 4  # times GROUP_SHARDS, at most


@dataclass(frozen=True)
class MergedBandKeys(ArtifactJob):
    """A file of the band keys of neighbouring shards."""

    stage, version = "bands", VERSION

    artifacts: tuple[Artifact, ...]
    bands: int

    @property
    def name(self) -> str:
        return self.artifacts[0].name

    def make(self) -> Artifact:
        """Merge a range of a band at a time."""
        rows = sum(artifact.rows for artifact in self.artifacts) // self.bands
        ranges = key_ranges(rows)

        def fill(scratch: Path) -> None:
            parts = (
                (band, *read_range(self.folder, self.artifacts, band, keys))
                for band in range(self.bands)
                for keys in ranges
            )
            schema = rows_schema(is_wide=is_wide(self.folder, self.artifacts[0]))
            write_band_rows(scratch, parts, schema, max(GROUP_ROWS, rows // GROUPS_OF_BAND))

        counts = total(artifact.counts for artifact in self.artifacts)
        return write_artifact(self.folder, self.path, self.name, fill, counts=counts)


def merge_groups(
    folder: Folder, source: str | None, artifacts: Sequence[Artifact], bands: int
) -> list[Sequence[Artifact]]:
    """Merge the files of a source while it has many; return the files of each level, of which the last is final."""
    levels = [artifacts]
    while len(artifacts) > GROUP_SHARDS:
        groups = groups_of(artifacts, len(levels))
        merges = [MergedBandKeys(folder, source, group, bands) for group in groups if len(group) > 1]
        merged = iter(fan_out(ArtifactJob.__call__, merges, stage=MERGE, source=source))
        artifacts = [next(merged) if len(group) > 1 else group[0] for group in groups]
        levels.append(artifacts)
    return levels


def groups_of(artifacts: Iterable[Artifact], level: int) -> list[tuple[Artifact, ...]]:
    """Group neighbouring files; the documents' ids ascend within each group and over all groups."""
    groups = list[list[Artifact]]()
    for artifact in sorted(artifacts, key=numbers_in_name):
        is_start = zlib.crc32(f"{level} {artifact.name}".encode()) % GROUP_SHARDS == 0
        if not groups or is_start or len(groups[-1]) >= MOST_SHARDS * GROUP_SHARDS:
            groups.append([])
        groups[-1].append(artifact)
    return [tuple(group) for group in groups]
