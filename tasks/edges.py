"""Edges: the documents that share a bucket, from all sources' band keys.

Rows out, for every range of every band: `a`, `b` (uint64), where `b` is in the bucket of `a` and `a`
is the bucket's smallest doc_id: a star for each bucket, so a bucket of n documents gives n - 1
edges, not n(n - 1) / 2.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.artifacts import (
    Counts,
    Done,
    Manifest,
    Shard,
    corpus_folder,
    finished_shard,
    load_manifest,
    shard_path,
    stage_key,
)
from tasks.bands import KeyRange, key_ranges, read_range
from tasks.cluster import fan_out
from tasks.errors import NotConserved
from tasks.recipe import Recipe
from tasks.stage import stage_task
from tasks.storage import Folder
from tasks.tables import write_table

VERSION = 1
EDGES = pa.schema([("a", pa.uint64()), ("b", pa.uint64())])


@dataclass(frozen=True)
class Job:
    """One range of one band, on whichever worker. `inputs` is a hash of all the files."""

    folder: Folder
    manifests: tuple[Done, ...]
    band: int
    keys: KeyRange
    number: int
    inputs: str

    @property
    def name(self) -> str:
        return f"{self.band:03d}-{self.number:05d}"


def star_edges(keys: NDArray[np.uint64], doc_ids: NDArray[np.uint64]) -> pa.Table:
    """Join each document of a bucket to the bucket's smallest id: (n,) uint64 twice to EDGES."""
    keys, doc_ids = in_shared_buckets(keys, doc_ids)
    order = np.lexsort((doc_ids, keys))
    keys, doc_ids = keys[order], doc_ids[order]
    starts = np.ones(len(keys), np.bool_)
    starts[1:] = keys[1:] != keys[:-1]
    firsts = doc_ids[np.flatnonzero(starts)[np.cumsum(starts) - 1]] if len(keys) else doc_ids
    return pa.table([firsts[~starts], doc_ids[~starts]], schema=EDGES)


def in_shared_buckets(
    keys: NDArray[np.uint64], doc_ids: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the rows whose key is not theirs alone, a tenth or so of a corpus: (n,) twice to (m,).

    Rows come from files that are sorted: a sort that merges what is sorted takes a tenth of the time.
    """
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]
    is_shared = np.zeros(len(keys), np.bool_)
    is_same = ascending[1:] == ascending[:-1]
    is_shared[1:] |= is_same
    is_shared[:-1] |= is_same
    rows = order[is_shared]
    return keys[rows], doc_ids[rows]


def range_edges(job: Job) -> Shard:
    """Find the edges of one range, unless that was done before.

    `counts.documents` of the result is the number of rows that were read.
    """
    path = shard_path("edges", None, job.name, job.inputs)
    if done := finished_shard(job.folder, path):
        return done
    shards = [s for done in job.manifests for s in load_manifest(job.folder, done).shards]
    keys, doc_ids = read_range(job.folder, shards, job.band, job.keys)
    table = star_edges(keys, doc_ids)
    return write_table(job.folder, path, job.name, table, counts=Counts(documents=len(keys)))


def key(recipe: Recipe, minhashed: list[Done]) -> str:
    return stage_key("edges", VERSION, recipe.dedup.bands, *(done.identity for done in minhashed))


@stage_task("edges", key=key)
def edges(recipe: Recipe, minhashed: list[Done]) -> Manifest:
    """Find all edges. Raises NotConserved where a row of band keys was not read exactly once."""
    folder = corpus_folder(recipe)
    rows = sum(s.rows for done in minhashed for s in load_manifest(folder, done).shards)
    bands = recipe.dedup.bands
    inputs = key(recipe, minhashed)
    jobs = [
        Job(folder, tuple(minhashed), band, keys, number, inputs)
        for band in range(bands)
        for number, keys in enumerate(key_ranges(rows // bands))
    ]
    found = fan_out(range_edges, jobs, stage="edges", source=None)
    if (read := sum(shard.counts.documents for shard in found)) != rows:
        raise NotConserved(f"edges: {rows:,} rows of band keys were written and {read:,} read")
    return Manifest(stage="edges", shards=tuple(found))
