"""Merging: a source of many shards has its files of band keys merged, so that a range is read from few places.

GROUP_SHARDS come together at a time or so, and those again while there are many. Where a group begins is decided by
a hash of the shard's name (as in content-defined chunking), so that a file that comes or goes changes one group of
each level only.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.signatures.bands import (
    GROUP_ROWS,
    is_wide,
    key_ranges,
    place_of,
    read_range,
    rows_schema,
    write_band_rows,
)
from tasks.stage.fan_out import fan_out
from tasks.stage.jobs import ShardJob
from tasks.storage.artifacts import Shard, total
from tasks.storage.folder import Folder
from tasks.storage.tables import write_shard

VERSION = 3
GROUPS_OF_BAND = 512  # in a large file: more make its footer large, fewer are read for little
GROUP_SHARDS = 64  # on average
MOST_SHARDS = 4  # times as many, at the most


@dataclass(frozen=True)
class Merge(ShardJob):
    """One file of the band keys of neighbouring shards."""

    stage, version = "bands", VERSION

    shards: tuple[Shard, ...]
    bands: int

    @property
    def name(self) -> str:
        return self.shards[0].name

    @property
    def params(self) -> int:
        return self.bands

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(shard.digest for shard in self.shards)

    def make(self) -> Shard:
        """Merge a range of a band at a time."""
        rows = sum(shard.rows for shard in self.shards) // self.bands
        ranges = key_ranges(rows)

        def fill(scratch: Path) -> None:
            parts = (
                (band, *read_range(self.folder, self.shards, band, keys))
                for band in range(self.bands)
                for keys in ranges
            )
            schema = rows_schema(is_wide=is_wide(self.folder, self.shards[0]))
            write_band_rows(scratch, parts, schema, max(GROUP_ROWS, rows // GROUPS_OF_BAND))

        counts = total(shard.counts for shard in self.shards)
        return write_shard(self.folder, self.path, self.name, fill, counts=counts)


def merge_groups(folder: Folder, source: str, shards: Sequence[Shard], bands: int) -> list[Sequence[Shard]]:
    """Merge the files of a source while it has many; return each level's, of which the last hold its keys."""
    levels = [shards]
    while len(shards) > GROUP_SHARDS:
        groups = groups_of(shards, len(levels))
        merges = [Merge(folder, source, group, bands) for group in groups if len(group) > 1]
        merged = iter(fan_out(ShardJob.__call__, merges, stage="merge bands", source=source))
        shards = [next(merged) if len(group) > 1 else group[0] for group in groups]
        levels.append(shards)
    return levels


def groups_of(shards: Iterable[Shard], level: int) -> list[tuple[Shard, ...]]:
    """Put neighbouring files together; in each group, as in all, the documents' ids are ascending."""
    groups = list[list[Shard]]()
    for shard in sorted(shards, key=place_of):
        is_start = zlib.crc32(f"{level} {shard.name}".encode()) % GROUP_SHARDS == 0
        if not groups or is_start or len(groups[-1]) >= MOST_SHARDS * GROUP_SHARDS:
            groups.append([])
        groups[-1].append(shard)
    return [tuple(group) for group in groups]
