"""Decisions: who stays of each cluster and who goes, for the whole corpus.

Rows out: CLUSTERS and `kept_doc_id` (uint64), sorted by doc_id, for every clustered document; `kept_doc_id` is
null for those that stay.

across: in a cluster with documents of several sources, those of the best-ranked source stay, all of
them, and the others go; other clusters are left alone. global: one document of each cluster stays,
of the best-ranked source, and among those the first by file name and row. Documents of protected sources stay in
any case, and are the best of their cluster. With `verify`, or a `prefer` that looks at the documents, see
`tasks.dedup.by_documents`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.accounts.audited import Decided
from tasks.dedup.by_documents import decided_by_documents
from tasks.dedup.clusters import CLUSTERS, cluster_rows
from tasks.dedup.preference import Preference, order_of, preference_of
from tasks.dedup.verify import judging_of
from tasks.ids import SOURCE_SHIFT
from tasks.log import warn
from tasks.recipe.rounds import Round
from tasks.sources.listing import NumberedSource
from tasks.stage.jobs import ShardJob
from tasks.stage.stage import stage
from tasks.stage.verdicts import load_histories, trail_of
from tasks.storage.artifacts import Manifest, Receipt, Shard, load_manifest, stage_key
from tasks.storage.records import digest_of
from tasks.storage.tables import parquet_writer, tables_of, write_shard
from textkernels import forest

VERSION = 3
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

    def decide(self, rows: pa.Table, order: Preference, scope: Scope) -> pa.Table:
        """Decide about documents: CLUSTERS to DECISIONS."""
        doc_ids, cluster_ids = (rows.column(name).to_numpy() for name in ("doc_id", "cluster_id"))
        places, priority = self.places(cluster_ids), order.priority(doc_ids)
        # Of the priority only the source's rank counts for "across", so all documents of that source stay.
        shift = np.uint64(SOURCE_SHIFT if scope == "across" else 0)
        is_kept = priority >> shift == self.priority[places] >> shift
        is_kept |= order.is_protected(doc_ids)
        kept_ids = pa.array(self.doc_ids[places], mask=is_kept)
        return rows.append_column(DECISIONS.field("kept_doc_id"), kept_ids)


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
                for rows in tables_of(self.folder, self.cluster_table):
                    writer.write_table(winners.decide(rows, self.order, self.scope))

        return write_shard(self.folder, self.path, self.name, fill)


def key(
    of_round: Round, trails: list[list[Receipt]], clustered: Receipt, sources: list[NumberedSource]
) -> str:
    judging, order = judging_of(of_round.dedup), order_of(of_round, sources)
    if judging.is_by_ids:
        return stage_key("decisions", VERSION, [of_round.dedup.scope, order], clustered.identity)
    identities = [receipt.identity for trail in trails for receipt in trail]
    return stage_key("decisions", VERSION, [judging.rule, order], clustered.identity, *identities)


@stage("decisions", key, scope="corpus", inputs=("trails", "clusters", "sources"))
def decisions(
    of_round: Round, trails: list[list[Receipt]], clustered: Receipt, sources: list[NumberedSource]
) -> Manifest:
    """Decide for all clusters who stays. trails: of each source, what was said before near-duplicates are."""
    folder = of_round.folder
    cluster_table = load_manifest(folder, clustered).shards[0]
    order = preference_of(of_round, sources)
    if judging_of(of_round.dedup).is_by_ids:
        its_key = key(of_round, trails, clustered, sources)
        job = AllDecisions(folder, None, cluster_table, order, of_round.dedup.scope, its_key)
        return Manifest(stage="decisions", shards=(job(),))
    taking_part = [
        trail for trail in map(trail_of, trails) if not of_round.recipe.source(trail.source).exempt
    ]
    shards = [history.shard for trail in taking_part for history in load_histories(folder, trail)]
    its_key = digest_of(order_of(of_round, sources))
    decided, on_the_way, by_index = decided_by_documents(of_round, shards, cluster_table, order, its_key)
    if by_index.clusters:
        warn(f"{of_round.name_of('decisions')}: {by_index.sentence()}")
    return Manifest(
        stage="decisions",
        shards=tuple(decided),
        intermediate=tuple(shard.path for shard in on_the_way),
        facts=Decided(by_index=by_index if by_index.clusters else None).written(),
    )
