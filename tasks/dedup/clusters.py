"""Clusters: the connected components of the edges.

Rows out: `doc_id`, `cluster_id` (uint64), `cluster_size` (documents) and `cluster_sources`, sorted by doc_id, for
every document that shares a bucket with another; a cluster's id is its smallest doc_id.

Files of edges are reduced to forests (disjoint sets, as union-find keeps them) some at a time, and forests
to larger ones in a tree, so that the last step joins two. A forest takes 12 bytes for each of its documents
while there are fewer than 2**31 of them, and a step some 40.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.ids import sources_of
from tasks.log import warn
from tasks.recipe.rounds import Round
from tasks.stage.fan_out import fan_out
from tasks.stage.jobs import ShardJob
from tasks.stage.stage import stage
from tasks.storage.artifacts import (
    Manifest,
    Receipt,
    Shard,
    load_manifest,
    stage_key,
)
from tasks.storage.folder import Folder
from tasks.storage.tables import parquet_writer, read_table, tables_of, write_shard
from tasks.workers.engine import is_on_gpu
from textkernels import forest

VERSION = 3
MAX_ROWS = 16 << 20  # edges or documents that one step reads, unless it reads two files: about 1 GiB
GROUP_ROWS = 1 << 17
FOREST = pa.schema([("doc_id", pa.uint64()), ("root", pa.int64())])
SIZES = pa.schema([("cluster_size", pa.uint32()), ("cluster_sources", pa.uint16())])
CLUSTERS = pa.schema([("doc_id", pa.uint64()), ("cluster_id", pa.uint64()), *SIZES])

Ids = NDArray[np.uint64]
Places = NDArray[np.signedinteger[Any]]  # int32 or int64


@dataclass(frozen=True)
class Forest:
    """Trees of documents: `ids` (n,), ascending, and the place of each one's root among them, (n,)."""

    ids: Ids
    roots: Places

    def rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the documents as FOREST or as CLUSTERS, some at a time."""
        is_last = schema == CLUSTERS
        sizes = forest.sizes(self.roots, sources_of(self.ids)) if is_last else ()
        for start in range(0, len(self.ids), GROUP_ROWS):
            ids, roots = self.ids[start : start + GROUP_ROWS], self.roots[start : start + GROUP_ROWS]
            of_trees = [self.ids, *sizes] if is_last else []
            columns = [column[roots] for column in of_trees] or [roots.astype(np.int64)]
            yield pa.table([ids, *columns], schema=schema)


def forest_of_edges(a: Ids, b: Ids) -> Forest:
    """Find the components of edges (n,)."""
    ids, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    places = places.astype(forest.places_type(len(ids)))
    roots = np.arange(len(ids), dtype=places.dtype)
    forest.join(roots, places[: len(a)], places[len(a) :])
    forest.flatten(roots)
    return Forest(ids, roots)


def join_forests(first: Forest, second: Forest) -> Forest:
    """Find the components of two forests' documents."""
    room = len(first.ids) + len(second.ids)
    kind = forest.places_type(room)
    ids = np.empty(room, np.uint64)
    at_first, at_second = np.empty(len(first.ids), kind), np.empty(len(second.ids), kind)
    count = forest.merge(first.ids, second.ids, ids, at_first, at_second)
    roots = np.arange(count, dtype=kind)
    # The trees of `first` as they are, then, for each document of `second`, the edge to its root there.
    roots[at_first] = at_first[first.roots]
    forest.join(roots, at_second[second.roots], at_second)
    forest.flatten(roots)
    return Forest(ids[:count], roots)


def join_all(forests: Iterable[Forest]) -> Forest:
    """Join forests, each with one of its size, so that none is joined more often than need be."""
    waiting = list[Forest]()  # ever smaller from the first to the last
    for added in forests:
        grown = added
        while waiting and len(waiting[-1].ids) <= len(grown.ids):
            grown = join_forests(waiting.pop(), grown)
        waiting.append(grown)
    while len(waiting) > 1:
        smallest = waiting.pop()
        waiting.append(join_forests(waiting.pop(), smallest))
    return waiting[0]


@dataclass(frozen=True)
class ReducedFiles(ShardJob):
    """Some files reduced to one, of edges in the first level and of forests after it; clusters in the last."""

    stage, version = "clusters", VERSION

    shards: tuple[Shard, ...]
    level: int
    number: int
    is_last: bool

    @property
    def name(self) -> str:
        return f"{self.level:02d}-{self.number:05d}"

    @property
    def params(self) -> list[bool]:
        return [self.level == 0, self.is_last]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(shard.digest for shard in self.shards)

    def make(self) -> Shard:
        whole = self.on_gpu() if is_on_gpu() else None
        if whole is None:
            whole = self.on_cpu()
        schema = CLUSTERS if self.is_last else FOREST

        def fill(scratch: Path) -> None:
            with parquet_writer(scratch, schema, use_dictionary=False) as writer:
                for table in whole.rows(schema):
                    writer.write_table(table)

        return write_shard(self.folder, self.path, self.name, fill)

    def on_cpu(self) -> Forest:
        return join_all(self.forest_in(shard) for shard in self.shards)

    def on_gpu(self) -> Forest | None:
        """Join the files on this worker's GPU, unless they have no room there."""
        from tasks.gpu.joining import MOST_EDGES, forest_of  # CUDA's libraries come with it
        from tasks.gpu.self_test import COMPARED, expect_same

        if (count := sum(shard.rows for shard in self.shards)) <= MOST_EDGES:
            with suppress(MemoryError):
                found = Forest(*forest_of(self.edges_in(shard) for shard in self.shards))
                if "clusters" not in COMPARED:
                    by_cpu = self.on_cpu()
                    expect_same("clusters", [found.ids, found.roots], [by_cpu.ids, by_cpu.roots])
                    COMPARED.update(["clusters"] if len(found.ids) else [])
                return found
        warn(f"{count:,} edges are too many for the GPU: the CPU joins them")
        return None

    def edges_in(self, shard: Shard) -> tuple[Ids, Ids]:
        """Return a file's edges, or those of each document of a forest to its root: (n,) twice."""
        if self.level == 0:
            a, b = (column.to_numpy() for column in read_table(self.folder, shard).columns)
            return a, b
        whole = self.forest_in(shard)
        return whole.ids[whole.roots], whole.ids

    def forest_in(self, shard: Shard) -> Forest:
        if self.level == 0:
            return forest_of_edges(*self.edges_in(shard))
        ids = np.empty(shard.rows, np.uint64)
        roots = np.empty(shard.rows, forest.places_type(shard.rows))
        start = 0
        for table in tables_of(self.folder, shard):
            stop = start + len(table)
            ids[start:stop], roots[start:stop] = (column.to_numpy() for column in table.columns)
            start = stop
        return Forest(ids, roots)


def groups_of_files(shards: Sequence[Shard]) -> list[tuple[Shard, ...]]:
    """Put neighbouring files together, two at least, as many as one step can hold."""
    groups: list[list[Shard]] = [[]]
    for shard in shards:
        size = sum(member.rows for member in groups[-1])
        # Two at least, however large: so each level has fewer files than the one before, and one is the last.
        if len(groups[-1]) > 1 and size + shard.rows > MAX_ROWS:
            groups.append([])
        groups[-1].append(shard)
    return [tuple(group) for group in groups]


def jobs_of_level(folder: Folder, shards: Sequence[Shard], level: int) -> list[ReducedFiles]:
    """Return the steps of one level of the tree; where there is one step alone, it is the last."""
    groups = groups_of_files(shards)
    is_last = len(groups) == 1
    return [ReducedFiles(folder, None, group, level, number, is_last) for number, group in enumerate(groups)]


def key(of_round: Round, edged: Receipt) -> str:
    return stage_key("clusters", VERSION, None, edged.identity)


@stage("clusters", key, scope="corpus", inputs=("edges",), published_as="clusters")
def clusters(of_round: Round, edged: Receipt) -> Manifest:
    """Find the clusters of all edges."""
    folder = of_round.folder
    shards: Sequence[Shard] = load_manifest(folder, edged).shards
    level = 0
    while True:
        jobs = jobs_of_level(folder, shards, level)
        shards = fan_out(
            ShardJob.__call__,
            jobs,
            stage=of_round.name_of("clusters"),
            source=None,
            engine=of_round.recipe.engine,
        )
        if jobs[0].is_last:
            return Manifest(stage="clusters", shards=tuple(shards))
        level += 1


def cluster_rows(folder: Folder, clustered: Shard) -> Iterator[tuple[Ids, Ids]]:
    """Read documents and their clusters, some MiB at a time: (n,) uint64 each."""
    for table in tables_of(folder, clustered, ["doc_id", "cluster_id"]):
        doc_ids, cluster_ids = table.columns
        yield doc_ids.to_numpy(), cluster_ids.to_numpy()
