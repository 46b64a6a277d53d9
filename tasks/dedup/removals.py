"""Removals: the decisions about near-duplicates, shard by shard, as verdicts.

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
DUPLICATE = "duplicate"
REASONS = {DUPLICATE: "it is a near-duplicate of a document that is preferred"}


@dataclass(frozen=True)
class RemovalsOfShard(JobSoFar):
    """Which documents of one shard go for a near-duplicate, and the clusters of those that stay."""

    stage, version = "removals", VERSION

    decisions: tuple[Shard, ...]
    evidence: tuple[pa.Field, ...]

    reasons, beside = REASONS, ("cluster_id",)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.so_far.digests, *(shard.digest for shard in self.decisions))

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*DECISIONS, *self.evidence, REASON])

    def say(self, left: pa.Table) -> pa.Table:
        ids = left.column("doc_id").to_numpy()
        if not len(ids):
            return self.schema.empty_table()
        return with_reasons(rows_between(self.folder, self.decisions, int(ids[0]), int(ids[-1])))


def with_reasons(decided: pa.Table) -> pa.Table:
    """Give each decision by which a document goes its reason."""
    is_gone = pc.is_valid(decided.column("kept_doc_id"))
    reasons = pc.if_else(is_gone, pa.scalar(DUPLICATE), pa.scalar(None, pa.string()))
    return decided.append_column(REASON, reasons)


def evidence_of(recipe: Recipe) -> pa.Schema | None:
    """Return what is published of a document that goes beside the one that is kept for it."""
    return SIMILARITIES if recipe.dedup.verify else None


def key(recipe: Recipe, trail: Trail, decided: Receipt) -> str:
    return stage_key("removals", VERSION, None, *trail.identities, decided.identity)


@task(cache_policy=BY_MANIFEST, **STAGE)
@leaves_manifest("removals", key, REASONS, evidence=evidence_of)
def removals(recipe: Recipe, trail: Trail, decided: Receipt) -> Manifest:
    """Find which documents of a source go."""
    folder = recipe.folder
    decisions, evidence = load_manifest(folder, decided).shards, tuple(evidence_of(recipe) or ())
    jobs = [
        RemovalsOfShard(folder, trail.source, so_far, decisions, evidence)
        for so_far in shards_so_far(folder, trail)
    ]
    return said_by("removals", trail, jobs)
