"""Clusters: the connected components of the edges.

Rows out: `doc_id`, `cluster_id` (uint64), sorted by doc_id, for every document that shares a bucket
with another; a cluster's id is its smallest doc_id.

Files of edges are reduced to spanning forests some at a time, in a tree, so that the last step
holds one edge for each clustered document.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tasks.artifacts import (
    Done,
    Manifest,
    Shard,
    corpus_folder,
    finished_shard,
    load_manifest,
    read_table,
    shard_path,
    stage_key,
    write_table,
)
from tasks.cluster import fan_out
from tasks.edges import EDGES
from tasks.recipe import Recipe
from tasks.stage import stage_task
from tasks.storage import Folder

VERSION = 1
MAX_EDGES = 16 << 20  # in one step: about 1.5 GiB
CLUSTERS = pa.schema([("doc_id", pa.uint64()), ("cluster_id", pa.uint64())])


@dataclass(frozen=True)
class Job:
    """Some files of edges to reduce, on whichever worker."""

    folder: Folder
    shards: tuple[Shard, ...]
    name: str
    is_last: bool

    @property
    def path(self) -> str:
        digests = [shard.digest for shard in self.shards]
        key = stage_key("clusters", VERSION, self.is_last, *digests)
        return shard_path("clusters", None, self.name, key)


def components(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> pa.Table:
    """Label each document with the smallest id it is connected to: edges (n,) to CLUSTERS."""
    doc_ids, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    n = len(doc_ids)
    graph = coo_array((np.ones(len(a), np.bool_), (places[: len(a)], places[len(a) :])), (n, n))
    count, labels = connected_components(graph, directed=False)
    smallest = np.full(count, n, np.int64)
    np.minimum.at(smallest, labels, np.arange(n))
    return pa.table([doc_ids, doc_ids[smallest[labels]]], schema=CLUSTERS)


def reduce_edges(job: Job) -> Shard:
    """Reduce some files to one: to a spanning forest or, in the last step, to clusters."""
    if done := finished_shard(job.folder, job.path):
        return done
    tables = pa.concat_tables([read_table(job.folder, shard) for shard in job.shards])
    clusters = components(tables.column("a").to_numpy(), tables.column("b").to_numpy())
    if job.is_last:
        return write_table(job.folder, job.path, job.name, clusters)
    doc_ids, roots = (clusters.column(name).to_numpy() for name in CLUSTERS.names)
    joined = doc_ids != roots
    forest = pa.table([roots[joined], doc_ids[joined]], schema=EDGES)
    return write_table(job.folder, job.path, job.name, forest)


def gathered(shards: Sequence[Shard]) -> list[tuple[Shard, ...]]:
    """Put neighbouring files together, two at least, as many as one step can hold."""
    groups: list[list[Shard]] = [[]]
    for shard in shards:
        size = sum(member.rows for member in groups[-1])
        if len(groups[-1]) > 1 and size + shard.rows > MAX_EDGES:
            groups.append([])
        groups[-1].append(shard)
    return [tuple(group) for group in groups]


def key(recipe: Recipe, edged: Done) -> str:
    return stage_key("clusters", VERSION, None, edged.identity)


@stage_task("clusters", key=key)
def clusters(recipe: Recipe, edged: Done) -> Manifest:
    """Find the clusters of all edges."""
    folder = corpus_folder(recipe)
    shards: Sequence[Shard] = load_manifest(folder, edged).shards
    level = 0
    while True:
        groups = gathered(shards)
        is_last = len(groups) == 1
        jobs = [Job(folder, group, f"{level:02d}-{i:05d}", is_last) for i, group in enumerate(groups)]
        shards = fan_out(reduce_edges, jobs, stage="clusters", source=None)
        if is_last:
            return Manifest(stage="clusters", shards=tuple(shards))
        level += 1
