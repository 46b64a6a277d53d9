"""Clusters: the connected components of the edges.

Rows out: `doc_id`, `cluster_id` (uint64), sorted by doc_id, for every document that shares a bucket
with another; a cluster's id is its smallest doc_id.

Files of edges are reduced to forests some at a time, and forests to larger ones in a tree, so that the
last step joins two. A forest takes 12 bytes for each of its documents while there are fewer than
2**31 of them, and a step some 40.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.artifacts import (
    Done,
    Manifest,
    Shard,
    corpus_folder,
    finished_shard,
    load_manifest,
    shard_path,
    stage_key,
)
from tasks.cluster import fan_out
from tasks.kernels import forest
from tasks.recipe import Recipe
from tasks.stage import stage_task
from tasks.storage import Folder
from tasks.tables import parquet_writer, read_table, tables_of, write_shard

VERSION = 2
MAX_ROWS = 16 << 20  # edges or documents that one step reads, unless it reads two files: about 1 GiB
GROUP_ROWS = 1 << 17
FOREST = pa.schema([("doc_id", pa.uint64()), ("root", pa.int64())])
CLUSTERS = pa.schema([("doc_id", pa.uint64()), ("cluster_id", pa.uint64())])

Ids = NDArray[np.uint64]
Places = NDArray[np.signedinteger[Any]]  # int32 or int64


@dataclass(frozen=True)
class Forest:
    """Trees of documents: `ids` (n,), ascending, and the place of each one's root among them, (n,)."""

    ids: Ids
    roots: Places

    def rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the documents as FOREST or as CLUSTERS, some at a time."""
        for start in range(0, len(self.ids), GROUP_ROWS):
            ids, roots = self.ids[start : start + GROUP_ROWS], self.roots[start : start + GROUP_ROWS]
            second = self.ids[roots] if schema == CLUSTERS else roots.astype(np.int64)
            yield pa.table([ids, second], schema=schema)


@dataclass(frozen=True)
class Job:
    """Some files to reduce to one, of edges in the first level and of forests after it, on any worker."""

    folder: Folder
    shards: tuple[Shard, ...]
    level: int
    number: int
    is_last: bool

    @property
    def name(self) -> str:
        return f"{self.level:02d}-{self.number:05d}"

    @property
    def path(self) -> str:
        digests = [shard.digest for shard in self.shards]
        key = stage_key("clusters", VERSION, [self.level == 0, self.is_last], *digests)
        return shard_path("clusters", None, self.name, key)


def forest_of_edges(a: Ids, b: Ids) -> Forest:
    """Find the components of edges (n,)."""
    ids, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    places = places.astype(forest.places_type(len(ids)))
    roots = np.arange(len(ids), dtype=places.dtype)
    forest.join(roots, places[: len(a)], places[len(a) :])
    forest.flatten(roots)
    return Forest(ids, roots)


def joined(one: Forest, other: Forest) -> Forest:
    """Find the components of two forests' documents."""
    most = len(one.ids) + len(other.ids)
    kind = forest.places_type(most)
    ids = np.empty(most, np.uint64)
    at_one, at_other = np.empty(len(one.ids), kind), np.empty(len(other.ids), kind)
    count = forest.merge(one.ids, other.ids, ids, at_one, at_other)
    roots = np.arange(count, dtype=kind)
    roots[at_one] = at_one[one.roots]
    forest.join(roots, at_other[other.roots], at_other)
    forest.flatten(roots)
    return Forest(ids[:count], roots)


def all_joined(forests: Iterable[Forest]) -> Forest:
    """Join forests, each with one of its size, so that none is joined more often than need be."""
    waiting = list[Forest]()
    for one in forests:
        grown = one
        while waiting and len(waiting[-1].ids) <= len(grown.ids):
            grown = joined(waiting.pop(), grown)
        waiting.append(grown)
    while len(waiting) > 1:
        last = waiting.pop()
        waiting.append(joined(waiting.pop(), last))
    return waiting[0]


def read_forest(job: Job, shard: Shard) -> Forest:
    if job.level == 0:
        a, b = (column.to_numpy() for column in read_table(job.folder, shard).columns)
        return forest_of_edges(a, b)
    ids = np.empty(shard.rows, np.uint64)
    roots = np.empty(shard.rows, forest.places_type(shard.rows))
    start = 0
    for table in tables_of(job.folder, shard):
        stop = start + len(table)
        ids[start:stop], roots[start:stop] = (column.to_numpy() for column in table.columns)
        start = stop
    return Forest(ids, roots)


def reduce_edges(job: Job) -> Shard:
    """Reduce some files to one: to a forest or, in the last step, to clusters."""
    if done := finished_shard(job.folder, job.path):
        return done
    whole = all_joined(read_forest(job, shard) for shard in job.shards)
    schema = CLUSTERS if job.is_last else FOREST

    def fill(scratch: Path) -> None:
        with parquet_writer(scratch, schema, use_dictionary=False) as writer:
            for table in whole.rows(schema):
                writer.write_table(table)

    return write_shard(job.folder, job.path, job.name, fill)


def gathered(shards: Sequence[Shard]) -> list[tuple[Shard, ...]]:
    """Put neighbouring files together, two at least, as many as one step can hold."""
    groups: list[list[Shard]] = [[]]
    for shard in shards:
        size = sum(member.rows for member in groups[-1])
        if len(groups[-1]) > 1 and size + shard.rows > MAX_ROWS:
            groups.append([])
        groups[-1].append(shard)
    return [tuple(group) for group in groups]


def jobs_of_level(folder: Folder, shards: Sequence[Shard], level: int) -> list[Job]:
    """Return the steps of one level of the tree; where there is one step alone, it is the last."""
    groups = gathered(shards)
    is_last = len(groups) == 1
    return [Job(folder, group, level, number, is_last) for number, group in enumerate(groups)]


def key(recipe: Recipe, edged: Done) -> str:
    return stage_key("clusters", VERSION, None, edged.identity)


@stage_task("clusters", key=key)
def clusters(recipe: Recipe, edged: Done) -> Manifest:
    """Find the clusters of all edges."""
    folder = corpus_folder(recipe)
    shards: Sequence[Shard] = load_manifest(folder, edged).shards
    level = 0
    while True:
        jobs = jobs_of_level(folder, shards, level)
        shards = fan_out(reduce_edges, jobs, stage="clusters", source=None)
        if jobs[0].is_last:
            return Manifest(stage="clusters", shards=tuple(shards))
        level += 1
