"""Count the different contexts of phrases in a corpus, in a tree of tasks that each read a part of the contexts.

A context is the hash of the words around a phrase. The tables of neighbouring shards are merged first. Their sums
are divided into parts by the hashes of phrases, so that a part has about PART_ROWS rows, and each part is merged in
a tree. Of a phrase, only the smallest `most` contexts are kept: whether it has more decides nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.planning import STATISTICS
from zyda_flows.tasks.stage.cost import StageCost, Workload
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.trees import groups, jobs_of_tree, tree_cost
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import open_table, read_table, write_table

VERSION = 1
CONTEXTS = "contexts"  # fan-out of the jobs that merge contexts
PART_ROWS = 1 << 23  # contexts of a part, before equal ones of different shards are merged
GROUP_ROWS = 1 << 16  # of a row group, because a task reads the row groups of its part
SURROUNDINGS = pa.schema([("phrase", pa.uint64()), ("around", pa.uint64())])
COUNTS = pa.schema([("phrase", pa.uint64()), ("surroundings", pa.int64())])


@dataclass(frozen=True)
class PhrasesOfShard(ArtifactJob):
    """The contexts of each phrase in a shard: SURROUNDINGS. column: of the statistics."""

    stage, version = "contamination", VERSION

    shard: Artifact
    column: str

    @property
    def name(self) -> str:
        return self.shard.name

    def make(self) -> Artifact:
        phrases = pc.list_flatten(statistic_of_shard(self.folder, self.shard, self.column))
        table = pa.table([phrases.field(name) for name in SURROUNDINGS.names], schema=SURROUNDINGS)
        return write_table(self.folder, self.path, self.name, distinct(table), GROUP_ROWS)


@dataclass(frozen=True)
class ContextsOfPart(ArtifactJob):
    """The contexts of the phrases of a part in some tables, at most `most` of a phrase: SURROUNDINGS.

    place: of the job in the tree. part, parts: number of the part, and of all parts.
    """

    stage, version = "contamination", VERSION

    place: Annotated[str, NotInKey("part of the path")]
    tables: tuple[Artifact, ...]
    part: int
    parts: int
    most: int

    @property
    def name(self) -> str:
        return f"{self.place}-{self.part:04d}"

    @property
    def phrases(self) -> tuple[int, int]:
        """The first and the last hash of the part's phrases."""
        first, end = ((number << 64) // self.parts for number in (self.part, self.part + 1))
        return first, end - 1

    def contexts(self) -> pa.Table:
        merged, waiting = SURROUNDINGS.empty_table(), list[pa.Table]()
        for rows in (
            rows for table in self.tables for rows in rows_between(self.folder, table, *self.phrases)
        ):
            waiting.append(rows)
            if sum(map(len, waiting)) > max(PART_ROWS, len(merged)):
                merged, waiting = at_most(pa.concat_tables([merged, *waiting]), self.most), []
        return at_most(pa.concat_tables([merged, *waiting]), self.most)

    def make(self) -> Artifact:
        return write_table(self.folder, self.path, self.name, self.contexts(), GROUP_ROWS)


@dataclass(frozen=True)
class CountsOfPart(ContextsOfPart):
    """The number of different contexts of each phrase of a part: COUNTS. A number above `most` is `most`."""

    def make(self) -> Artifact:
        counts = self.contexts().group_by("phrase").aggregate([("around", "count")]).sort_by("phrase")
        table = counts.select(["phrase", "around_count"]).rename_columns(COUNTS.names)
        return write_table(self.folder, self.path, self.name, table)


def statistic_of_shard(folder: Folder, shard: Artifact, column: str) -> pa.Array:
    """Return a column of the statistics of a shard's documents, (n,)."""
    statistics = read_table(folder, shard, [STATISTICS]).column(STATISTICS).combine_chunks()
    return statistics.field(statistics.type.get_field_index(column))


def distinct(table: pa.Table) -> pa.Table:
    """Return SURROUNDINGS without repetitions, sorted."""
    names = SURROUNDINGS.names
    rows = table.group_by(names).aggregate([])
    return rows.select(names).sort_by([(name, "ascending") for name in names])


def at_most(table: pa.Table, most: int) -> pa.Table:
    """Return SURROUNDINGS without repetitions, sorted, with the first `most` contexts of each phrase."""
    rows = distinct(table)
    phrases = rows.column("phrase").to_numpy()
    is_first = np.concatenate([[True], phrases[1:] != phrases[:-1]])[: len(phrases)]
    places = np.arange(len(phrases))
    rank = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return rows.filter(pa.array(rank < most))


def rows_between(folder: Folder, artifact: Artifact, first: int, last: int) -> Iterator[pa.Table]:
    """Yield the rows of a table of SURROUNDINGS with phrases from `first` to `last`, by row group."""
    with open_table(folder, artifact) as parquet:
        for group in range(parquet.num_row_groups):
            phrases = parquet.metadata.row_group(group).column(0).statistics
            if phrases is not None and phrases.has_min_max and phrases.min <= last and phrases.max >= first:
                table = parquet.read_row_group(group)
                column = table.column("phrase").to_numpy()
                low = np.searchsorted(column, np.uint64(first))
                high = np.searchsorted(column, np.uint64(last), side="right")
                yield table.slice(low, high - low)


def contexts_cost(workload: Workload, searched: Iterable[str]) -> Iterable[StageCost]:
    """Return the cost of merging the contexts of all shards, in one part. searched: the sources with contexts."""
    shards = sum(len(workload.sources[name].shards) for name in searched)
    return tree_cost(workload, CONTEXTS, jobs_of_tree(shards) + 1)


def count_contexts(folder: Folder, tables: Sequence[Artifact], most: int) -> tuple[pa.Table, list[str]]:
    """Count the different contexts of each phrase, up to `most`: COUNTS.

    tables: SURROUNDINGS of each shard. Also returns the paths of all intermediate artifacts.
    """
    paths = [table.path for table in tables]
    level, by_part = 0, [[*tables]]
    while level == 0 or len(by_part[0]) > 1:
        merges = [
            ContextsOfPart(folder, None, f"{level}-{number:06d}", group, part, len(by_part), most)
            for part, part_tables in enumerate(by_part)
            for number, group in enumerate(groups(part_tables))
        ]
        merged = fan_out(ArtifactJob.__call__, merges, stage=CONTEXTS, source=None)
        paths += [table.path for table in merged]
        if level == 0:
            parts = -(-sum(table.rows for table in merged) // PART_ROWS) or 1
            by_part = [merged] * parts
        else:
            files = len(merged) // len(by_part)
            by_part = [merged[part * files :][:files] for part in range(len(by_part))]
        level += 1
    counts = [
        CountsOfPart(folder, None, "counts", tuple(part_tables), part, len(by_part), most)
        for part, part_tables in enumerate(by_part)
    ]
    counted = fan_out(ArtifactJob.__call__, counts, stage=CONTEXTS, source=None)
    paths += [table.path for table in counted]
    return pa.concat_tables([read_table(folder, table) for table in counted]).combine_chunks(), paths
