"""Decisions: who stays of each cluster and who goes, for the whole corpus.

Rows out: `doc_id`, `cluster_id`, `kept_doc_id` (uint64), sorted by doc_id, for every clustered
document; `kept_doc_id` is null for those that stay.

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
from numpy.typing import NDArray

from tasks.ids import FILE_SHIFT, MAX_ROWS, MAX_SOURCES, SOURCE_SHIFT, files_of, sources_of
from tasks.kernels import forest
from tasks.recipe.fields import Recipe
from tasks.sources.listing import NumberedSource, load_listing
from tasks.stage.jobs import ShardJob
from tasks.stage.task import BY_MANIFEST, STAGE, leaves_manifest, task
from tasks.storage.artifacts import Manifest, Receipt, Shard, load_manifest, stage_key
from tasks.storage.folder import Folder
from tasks.storage.tables import footer_of, opened, parquet_writer, tables_of, write_shard

VERSION = 2
DECISIONS = pa.schema([("doc_id", pa.uint64()), ("cluster_id", pa.uint64()), ("kept_doc_id", pa.uint64())])

Ids = NDArray[np.uint64]
Scope = Literal["across", "global"]


@dataclass(frozen=True)
class Preference:
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
        for number, places_of_files in self.file_places.items():
            is_of_source = sources == number
            places[is_of_source] = places_of_files[files[is_of_source]]
        rows = doc_ids & np.uint64(MAX_ROWS - 1)
        # Laid out as a doc_id is, with the source's rank and the file's place where their numbers stand.
        return self.rank[sources] << np.uint64(SOURCE_SHIFT) | places << np.uint64(FILE_SHIFT) | rows


@dataclass(frozen=True)
class Winners:
    """The best document of each cluster: `clusters` (c,) uint64, ascending, and two arrays beside it."""

    clusters: Ids
    priority: Ids
    doc_ids: Ids

    def places(self, cluster_ids: Ids) -> NDArray[np.int64]:
        """Return the place of each cluster among `clusters`: (n,) to (n,)."""
        distinct_ids, inverse = np.unique(cluster_ids, return_inverse=True)
        return np.searchsorted(self.clusters, distinct_ids)[inverse]

    def decide(self, doc_ids: Ids, cluster_ids: Ids, priority: Ids, scope: Scope) -> pa.Table:
        """Decide about documents: (n,) uint64 each, to DECISIONS."""
        places = self.places(cluster_ids)
        # Of the priority only the source's rank counts for "across", so all documents of that source stay.
        shift = np.uint64(SOURCE_SHIFT if scope == "across" else 0)
        is_kept = priority >> shift == self.priority[places] >> shift
        kept_ids = pa.array(self.doc_ids[places], mask=is_kept)
        return pa.table([pa.array(doc_ids), pa.array(cluster_ids), kept_ids], schema=DECISIONS)


def winners_of(rows: Callable[[], Iterator[tuple[Ids, Ids]]], order: Preference) -> Winners:
    """Find the best document of each cluster, in two readings of the rows of CLUSTERS.

    All that is ever in memory are 24 bytes for each cluster, and the rows of one row group.
    """
    # A cluster's id is its smallest doc_id, so these rows have each cluster once, ascending.
    first_ids = [cluster_ids[doc_ids == cluster_ids] for doc_ids, cluster_ids in rows()]
    clusters = np.concatenate([np.empty(0, np.uint64), *first_ids])
    # The sentinel is the worst priority there can be; a cluster's first document takes its place.
    winners = Winners(clusters, np.full(len(clusters), np.iinfo(np.uint64).max), np.zeros_like(clusters))
    for doc_ids, cluster_ids in rows():
        places, priority = winners.places(cluster_ids), order.priority(doc_ids)
        forest.keep_smallest(winners.priority, winners.doc_ids, places, priority, doc_ids)
    return winners


@dataclass(frozen=True)
class AllDecisions(ShardJob):
    """The decisions about all clusters. of_stage: the key of the stage."""

    stage, version, name = "decisions", VERSION, "all"

    cluster_table: Shard
    order: Preference
    scope: Scope
    of_stage: str

    @property
    def key(self) -> str:
        return self.of_stage

    def make(self) -> Shard:
        winners = winners_of(lambda: cluster_rows(self.folder, self.cluster_table), self.order)

        def fill(scratch: Path) -> None:
            with parquet_writer(scratch, DECISIONS, use_dictionary=False) as writer:
                for doc_ids, cluster_ids in cluster_rows(self.folder, self.cluster_table):
                    priority = self.order.priority(doc_ids)
                    writer.write_table(winners.decide(doc_ids, cluster_ids, priority, self.scope))

        return write_shard(self.folder, self.path, self.name, fill)


def preference_of(folder: Folder, sources: Sequence[NumberedSource]) -> Preference:
    """Return the order of the recipe's sources and of the files in each."""
    rank = np.zeros(MAX_SOURCES, np.uint64)
    file_places = dict[int, Ids]()
    for i, source in enumerate(sources):
        rank[source.number] = i
        numbers = [file.number for file in load_listing(folder, source.listing)]
        places = np.zeros(max(numbers) + 1, np.uint64)
        places[numbers] = np.arange(len(numbers))
        file_places[source.number] = places
    return Preference(rank, file_places)


def key(recipe: Recipe, clustered: Receipt, sources: list[NumberedSource]) -> str:
    order = [[source.number, source.listing] for source in sources]
    return stage_key("decisions", VERSION, [recipe.dedup.scope, order], clustered.identity)


@task(cache_policy=BY_MANIFEST, **STAGE)
@leaves_manifest("decisions", key, of_all=True)
def decisions(recipe: Recipe, clustered: Receipt, sources: list[NumberedSource]) -> Manifest:
    """Decide for all clusters who stays."""
    folder = recipe.folder
    cluster_table = load_manifest(folder, clustered).shards[0]
    order, its_key = preference_of(folder, sources), key(recipe, clustered, sources)
    job = AllDecisions(folder, None, cluster_table, order, recipe.dedup.scope, its_key)
    return Manifest(stage="decisions", shards=(job(),))


def cluster_rows(folder: Folder, clustered: Shard) -> Iterator[tuple[Ids, Ids]]:
    """Read documents and their clusters, some MiB at a time: (n,) uint64 each."""
    for table in tables_of(folder, clustered):
        doc_ids, cluster_ids = table.columns
        yield doc_ids.to_numpy(), cluster_ids.to_numpy()


def decisions_between(folder: Folder, decided: Shard, first: int, last: int) -> pa.Table:
    """Read the decisions about the documents from `first` to `last`: the row groups that hold them."""
    footer = footer_of(folder, decided)
    statistics = [footer.row_group(group).column(0).statistics for group in range(footer.num_row_groups)]
    groups = [i for i, of_group in enumerate(statistics) if of_group.min <= last and of_group.max >= first]
    with opened(folder, decided) as parquet:
        table = parquet.read_row_groups(groups)
    # As uint64: beside signed numbers NumPy would compare ids as floats, which cannot tell large ones apart.
    low, high = np.searchsorted(table.column("doc_id").to_numpy(), np.array([first, last + 1], np.uint64))
    return table.slice(low, high - low)
