"""Decisions: who stays of each cluster and who goes, for the whole corpus.

Rows out: `doc_id`, `cluster_id`, `kept_doc_id` (uint64), sorted by doc_id, for every clustered
document; `kept_doc_id` is null for those that stay.

across: in a cluster with documents of several sources, those of the best-ranked source stay, all of
them, and the others go; other clusters are left alone. global: one document of each cluster stays,
of the best-ranked source, and among those the first by file name and row. With `verify` a cluster only
proposes; see `tasks.dedup.verify`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.dedup.clusters import CLUSTERS, cluster_rows
from tasks.dedup.preference import Preference, preference_of
from tasks.dedup.verify import rule_of, verified
from tasks.ids import SOURCE_SHIFT
from tasks.kernels import forest
from tasks.recipe.fields import Recipe
from tasks.sources.listing import NumberedSource
from tasks.stage.jobs import ShardJob
from tasks.stage.task import BY_MANIFEST, STAGE, leaves_manifest, task
from tasks.stage.verdicts import shards_so_far, trail_of
from tasks.storage.artifacts import Manifest, Receipt, Shard, load_manifest, stage_key
from tasks.storage.records import digest_of
from tasks.storage.tables import parquet_writer, write_shard

VERSION = 2
DECISIONS = pa.schema([*CLUSTERS, ("kept_doc_id", pa.uint64())])

Ids = NDArray[np.uint64]
Scope = Literal["across", "global"]


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


def key(
    recipe: Recipe, trails: list[list[Receipt]], clustered: Receipt, sources: list[NumberedSource]
) -> str:
    order = order_of(sources)
    if not recipe.dedup.verify:
        return stage_key("decisions", VERSION, [recipe.dedup.scope, order], clustered.identity)
    identities = [receipt.identity for trail in trails for receipt in trail]
    return stage_key("decisions", VERSION, [rule_of(recipe.dedup), order], clustered.identity, *identities)


def order_of(sources: list[NumberedSource]) -> list[list[object]]:
    """Return what the order of preference depends on."""
    return [[source.number, source.listing] for source in sources]


@task(cache_policy=BY_MANIFEST, **STAGE)
@leaves_manifest("decisions", key, of_all=True)
def decisions(
    recipe: Recipe, trails: list[list[Receipt]], clustered: Receipt, sources: list[NumberedSource]
) -> Manifest:
    """Decide for all clusters who stays. trails: of each source, what was said before near-duplicates are."""
    folder = recipe.folder
    cluster_table = load_manifest(folder, clustered).shards[0]
    order = preference_of(folder, sources)
    if not recipe.dedup.verify:
        its_key = key(recipe, trails, clustered, sources)
        job = AllDecisions(folder, None, cluster_table, order, recipe.dedup.scope, its_key)
        return Manifest(stage="decisions", shards=(job(),))
    shards = [so_far.shard for trail in trails for so_far in shards_so_far(folder, trail_of(trail))]
    decided, on_the_way = verified(
        folder, shards, cluster_table, order, digest_of(order_of(sources)), recipe.dedup
    )
    return Manifest(
        stage="decisions", shards=tuple(decided), intermediate=tuple(shard.path for shard in on_the_way)
    )
