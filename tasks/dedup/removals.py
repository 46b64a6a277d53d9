"""Removals: the decisions about near-duplicates, shard by shard, as verdicts.

Rows out: `doc_id`, `cluster_id`, `kept_doc_id` (uint64) and `reason`, sorted by doc_id, for every clustered
document of a shard; `reason` and `kept_doc_id` are null for those that stay. One table for each shard, so
that a shard about which nothing has changed is known by its digest.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tasks.dedup.decisions import decisions_between
from tasks.recipe.fields import Recipe
from tasks.stage.jobs import ShardJob
from tasks.stage.spread import fan_out
from tasks.stage.task import BY_MANIFEST, STAGE, leaves_manifest, task
from tasks.stage.verdicts import (
    REASON,
    JobSoFar,
    Trail,
    counts_of,
    manifest_of,
    rows_that_go,
    shards_so_far,
)
from tasks.storage.artifacts import Manifest, Receipt, Shard, load_manifest, stage_key
from tasks.storage.tables import read_table, write_table

VERSION = 3
DUPLICATE = "duplicate"
REASONS = {DUPLICATE: "it is a near-duplicate of a document that is preferred"}


@dataclass(frozen=True)
class RemovalsOfShard(JobSoFar):
    """Which documents of one shard go for a near-duplicate, and the clusters of those that stay."""

    stage, version = "removals", VERSION

    decisions: Shard

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.so_far.digests, self.decisions.digest)

    def make(self) -> Shard:
        counted = read_table(self.folder, self.so_far.shard, ["doc_id", "n_tokens", "n_bytes"])
        ids = counted.column("doc_id").to_numpy()
        table = with_reasons(decisions_between(self.folder, self.decisions, int(ids[0]), int(ids[-1])))
        removed = counts_of(counted, rows_that_go(table).column("doc_id").to_numpy())
        counts_left = self.so_far.counts - removed
        return write_table(self.folder, self.path, self.name, table, counts=counts_left, removed=removed)


def with_reasons(decided: pa.Table) -> pa.Table:
    """Give each decision by which a document goes its reason."""
    is_gone = pc.is_valid(decided.column("kept_doc_id"))
    reasons = pc.if_else(is_gone, pa.scalar(DUPLICATE), pa.scalar(None, pa.string()))
    return decided.append_column(REASON, reasons)


def key(recipe: Recipe, trail: Trail, decided: Receipt) -> str:
    return stage_key("removals", VERSION, None, *trail.identities, decided.identity)


@task(cache_policy=BY_MANIFEST, **STAGE)
@leaves_manifest("removals", key, REASONS)
def removals(recipe: Recipe, trail: Trail, decided: Receipt) -> Manifest:
    """Find which documents of a source go."""
    folder = recipe.folder
    decisions = load_manifest(folder, decided).shards[0]
    jobs = [
        RemovalsOfShard(folder, trail.source, so_far, decisions) for so_far in shards_so_far(folder, trail)
    ]
    shards = fan_out(ShardJob.__call__, jobs, stage="removals", source=trail.source)
    return manifest_of("removals", trail, shards, beside=["cluster_id"])
