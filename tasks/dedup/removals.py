"""Removals: the decisions about duplicates, shard by shard, as verdicts.

Rows out: `doc_id`, `cluster_id`, `kept_doc_id` (uint64) and `reason`, sorted by doc_id, for every clustered
document of a shard; `reason` and `kept_doc_id` are null for those that stay. One table for each shard, so
that a shard about which nothing has changed is known by its digest.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tasks.dedup.decisions import DECISIONS
from tasks.dedup.verify import SIMILARITIES
from tasks.recipe.fields import Recipe
from tasks.stage.task import BY_MANIFEST, STAGE, leaves_manifest, task
from tasks.stage.verdicts import REASON, JobSoFar, Trail, said_by, shards_so_far
from tasks.storage.artifacts import Manifest, Receipt, Shard, load_manifest, stage_key
from tasks.storage.tables import rows_between

VERSION = 3
REASONS = {
    "duplicate": "it is a near-duplicate of a document that is preferred",
    "exact_duplicate": "its text is that of a document that is preferred",
    "same_words": "its words are those of a document that is preferred, in the same order",
}
OF_EXACT = {None: "duplicate", "text": "exact_duplicate", "normalised": "same_words"}


@dataclass(frozen=True)
class RemovalsOfShard(JobSoFar):
    """Which documents of one shard go for a duplicate, and the clusters of those that stay.

    cluster_column: what the cluster is called beside a document that stays.
    """

    stage, version = "removals", VERSION

    decisions: tuple[Shard, ...]
    evidence: tuple[pa.Field, ...]
    reason: str
    cluster_column: str

    reasons = REASONS

    @property
    def beside(self) -> tuple[str, ...]:
        return (self.cluster_column,)

    @property
    def asked(self) -> list[str] | None:
        others = [self.reason, self.cluster_column]
        return None if others == ["duplicate", "cluster_id"] else others

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.so_far.digests, *(shard.digest for shard in self.decisions))

    @property
    def schema(self) -> pa.Schema:
        of_round = (
            () if self.cluster_column == "cluster_id" else (pa.field(self.cluster_column, pa.uint64()),)
        )
        return pa.schema([*DECISIONS, *of_round, *self.evidence, REASON])

    def say(self, left: pa.Table) -> pa.Table:
        ids = left.column("doc_id").to_numpy()
        if not len(ids):
            return self.schema.empty_table()
        decided = rows_between(self.folder, self.decisions, int(ids[0]), int(ids[-1]))
        is_gone = pc.is_valid(decided.column("kept_doc_id"))
        decided = decided.append_column(
            REASON, pc.if_else(is_gone, self.reason, pa.scalar(None, pa.string()))
        )
        if self.cluster_column not in decided.column_names:
            decided = decided.append_column(self.cluster_column, decided.column("cluster_id"))
        return decided


def evidence_of(recipe: Recipe) -> pa.Schema | None:
    """Return what is published of a document that goes beside the one that is kept for it."""
    return SIMILARITIES if recipe.dedup.verify else None


def key(recipe: Recipe, trail: Trail, decided: Receipt) -> str:
    reason = recipe.dedup.exact and OF_EXACT[recipe.dedup.exact]
    return stage_key("removals", VERSION, reason, *trail.identities, decided.identity)


@task(cache_policy=BY_MANIFEST, **STAGE)
@leaves_manifest("removals", key, REASONS, evidence=evidence_of)
def removals(recipe: Recipe, trail: Trail, decided: Receipt) -> Manifest:
    """Find which documents of a source go."""
    folder = recipe.folder
    decisions, evidence = load_manifest(folder, decided).shards, tuple(evidence_of(recipe) or ())
    reason, column = OF_EXACT[recipe.dedup.exact], recipe.called("cluster_id")
    jobs = [
        RemovalsOfShard(folder, trail.source, so_far, decisions, evidence, reason, column)
        for so_far in shards_so_far(folder, trail)
    ]
    return said_by(recipe.called("removals"), trail, jobs)
