"""Removals: who stays of each cluster and who goes.

Rows out: `doc_id`, `cluster_id`, `kept_doc_id` (uint64), sorted by doc_id, for every clustered
document; `kept_doc_id` is null for those that stay. `decisions` makes one table for the corpus, in row
groups, which `removals` cuts into one for each shard, so that a shard about which nothing has changed
is known by its digest.

across: in a cluster with documents of several sources, those of the best-ranked source stay, all of
them, and the others go; other clusters are left alone. global: one document of each cluster stays,
of the best-ranked source, and among those the first by file name and row.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
    total,
)
from tasks.cluster import fan_out
from tasks.ids import FILE_SHIFT, MAX_FILES, MAX_ROWS, MAX_SOURCES, SOURCE_SHIFT, files_of, sources_of
from tasks.ingest import Prepared
from tasks.kernels import forest
from tasks.listing import load_listing
from tasks.recipe import Recipe
from tasks.stage import stage_task
from tasks.storage import Folder
from tasks.tables import footer_of, opened, parquet_writer, read_table, tables_of, write_shard, write_table

VERSION = 2
DECISIONS = pa.schema([("doc_id", pa.uint64()), ("cluster_id", pa.uint64()), ("kept_doc_id", pa.uint64())])

Ids = NDArray[np.uint64]
Scope = Literal["across", "global"]


@dataclass(frozen=True)
class Order:
    """The order in which documents are preferred: by source, file and row.

    rank: (256,) uint64, the place of each source number in the recipe. file_places: for each source
    number, (files,) uint64, the place of each of its file numbers in the order of their URLs.
    """

    rank: Ids
    file_places: dict[int, Ids]

    def priority(self, doc_ids: Ids) -> Ids:
        """Return a number for each document that is smaller the better it is: (n,) uint64 to (n,)."""
        sources, files = sources_of(doc_ids), files_of(doc_ids)
        places = np.zeros(len(doc_ids), np.uint64)
        for number, of_source in self.file_places.items():
            mine = sources == number
            places[mine] = of_source[files[mine]]
        rows = doc_ids & np.uint64(MAX_ROWS - 1)
        return (
            self.rank[sources] << np.uint64(SOURCE_SHIFT)
            | (places & np.uint64(MAX_FILES - 1)) << np.uint64(FILE_SHIFT)
            | rows
        )


@dataclass(frozen=True)
class Best:
    """The best document of each cluster: `clusters` (c,) uint64, ascending, and two arrays beside it."""

    clusters: Ids
    priority: Ids
    doc_ids: Ids

    def places(self, cluster_ids: Ids) -> NDArray[np.int64]:
        """Return the place of each cluster among `clusters`: (n,) to (n,)."""
        asked, back = np.unique(cluster_ids, return_inverse=True)
        return np.searchsorted(self.clusters, asked)[back]

    def decide(self, doc_ids: Ids, cluster_ids: Ids, priority: Ids, scope: Scope) -> pa.Table:
        """Decide about documents: (n,) uint64 each, to DECISIONS."""
        places = self.places(cluster_ids)
        precision = np.uint64(SOURCE_SHIFT if scope == "across" else 0)
        stays = priority >> precision == self.priority[places] >> precision
        kept = pa.array(self.doc_ids[places], mask=stays)
        return pa.table([pa.array(doc_ids), pa.array(cluster_ids), kept], schema=DECISIONS)


def best_of_each(rows: Callable[[], Iterator[tuple[Ids, Ids]]], order: Order) -> Best:
    """Find the best document of each cluster, in two readings of the rows of CLUSTERS.

    All that is ever in memory are 24 bytes for each cluster, and the rows of one row group.
    """
    names = [cluster_ids[doc_ids == cluster_ids] for doc_ids, cluster_ids in rows()]
    clusters = np.concatenate([np.empty(0, np.uint64), *names])
    best = Best(clusters, np.full(len(clusters), np.iinfo(np.uint64).max), np.zeros_like(clusters))
    for doc_ids, cluster_ids in rows():
        places, priority = best.places(cluster_ids), order.priority(doc_ids)
        forest.keep_smallest(best.priority, best.doc_ids, places, priority, doc_ids)
    return best


def preference(folder: Folder, inputs: Sequence[Prepared]) -> Order:
    """Return the order of the recipe's sources and of the files in each."""
    rank = np.zeros(MAX_SOURCES, np.uint64)
    file_places = dict[int, Ids]()
    for i, prepared in enumerate(inputs):
        rank[prepared.number] = i
        numbers = [file.number for file in load_listing(folder, prepared.listing)]
        places = np.zeros(max(numbers) + 1, np.uint64)
        places[numbers] = np.arange(len(numbers))
        file_places[prepared.number] = places
    return Order(rank, file_places)


def decisions_key(recipe: Recipe, clustered: Done, inputs: list[Prepared]) -> str:
    order = [[prepared.number, prepared.listing] for prepared in inputs]
    return stage_key("decisions", VERSION, [recipe.dedup.scope, order], clustered.identity)


@stage_task("decisions", key=decisions_key)
def decisions(recipe: Recipe, clustered: Done, inputs: list[Prepared]) -> Manifest:
    """Decide for all clusters who stays."""
    folder = corpus_folder(recipe)
    found = load_manifest(folder, clustered).shards[0]
    order = preference(folder, inputs)
    best = best_of_each(lambda: cluster_rows(folder, found), order)

    def fill(scratch: Path) -> None:
        with parquet_writer(scratch, DECISIONS, use_dictionary=False) as writer:
            for doc_ids, cluster_ids in cluster_rows(folder, found):
                priority = order.priority(doc_ids)
                writer.write_table(best.decide(doc_ids, cluster_ids, priority, recipe.dedup.scope))

    path = shard_path("decisions", None, "all", decisions_key(recipe, clustered, inputs))
    return Manifest(stage="decisions", shards=(write_shard(folder, path, "all", fill),))


def cluster_rows(folder: Folder, clustered: Shard) -> Iterator[tuple[Ids, Ids]]:
    """Read documents and their clusters, some MiB at a time: (n,) uint64 each."""
    for table in tables_of(folder, clustered):
        doc_ids, cluster_ids = table.columns
        yield doc_ids.to_numpy(), cluster_ids.to_numpy()


@dataclass(frozen=True)
class Job:
    """One shard whose removals are to be found, on whichever worker."""

    folder: Folder
    source: str
    shard: Shard
    decisions: Shard

    @property
    def path(self) -> str:
        key = stage_key("removals", VERSION, None, self.shard.digest, self.decisions.digest)
        return shard_path("removals", self.source, self.shard.name, key)


def decisions_between(folder: Folder, decided: Shard, first: int, last: int) -> pa.Table:
    """Read the decisions about the documents from `first` to `last`: the row groups that hold them."""
    footer = footer_of(folder, decided)
    ids = [footer.row_group(group).column(0).statistics for group in range(footer.num_row_groups)]
    groups = [i for i, found in enumerate(ids) if found.min <= last and found.max >= first]
    with opened(folder, decided) as parquet:
        table = parquet.read_row_groups(groups)
    low, high = np.searchsorted(table.column("doc_id").to_numpy(), np.array([first, last + 1], np.uint64))
    return table.slice(low, high - low)


def remove_from_shard(job: Job) -> Shard:
    """Find which documents of one shard go, unless that was done before."""
    if done := finished_shard(job.folder, job.path):
        return done
    counted = read_table(job.folder, job.shard, ["doc_id", "n_tokens", "n_bytes"])
    ids = counted.column("doc_id").to_numpy()
    decided = decisions_between(job.folder, job.decisions, int(ids[0]), int(ids[-1]))
    removed = counts_of(counted, going(decided).column("doc_id").to_numpy())
    left = job.shard.counts - removed
    return write_table(job.folder, job.path, job.shard.name, decided, counts=left, removed=removed)


def going(decided: pa.Table) -> pa.Table:
    """Return the decisions by which a document goes."""
    return decided.filter(pc.is_valid(decided.column("kept_doc_id")))


def gone_ids(folder: Folder, removed: Shard) -> pa.Array:
    """Read which documents of a shard deduplication removed: (n,) uint64, sorted."""
    decided = read_table(folder, removed, ["doc_id", "kept_doc_id"])
    return going(decided).column("doc_id").combine_chunks()


def counts_of(counted: pa.Table, doc_ids: Ids) -> Counts:
    """Add up some of the documents of a shard; `counted` and `doc_ids` are sorted by doc_id."""
    places = np.searchsorted(counted.column("doc_id").to_numpy(), doc_ids)
    some = counted.take(pa.array(places))
    sums = {name: pc.sum(some.column(f"n_{name}")).as_py() or 0 for name in ("tokens", "bytes")}
    return Counts(documents=len(doc_ids), **sums)


def key(recipe: Recipe, ingested: Done, decided: Done) -> str:
    return stage_key("removals", VERSION, None, ingested.identity, decided.identity)


@stage_task("removals", key=key)
def removals(recipe: Recipe, ingested: Done, decided: Done) -> Manifest:
    """Find which documents of a source go."""
    folder = corpus_folder(recipe)
    decision = load_manifest(folder, decided).shards[0]
    source = str(ingested.source)
    jobs = [Job(folder, source, shard, decision) for shard in load_manifest(folder, ingested).shards]
    shards = fan_out(remove_from_shard, jobs, stage="removals", source=source)
    return stage_of_removals("removals", source, ingested, shards)


def stage_of_removals(stage: str, source: str, before: Done, shards: Sequence[Shard]) -> Manifest:
    """Make the manifest of a stage that removes documents, from its shards' counts."""
    return Manifest(
        stage=stage,
        source=source,
        shards=tuple(shards),
        entering=before.out,
        out=total(shard.counts for shard in shards),
        removed=total(shard.removed for shard in shards),
    )
