"""Buckets: the percentiles of scores, and the bucket of each document.

`buckets` finds the percentiles among the documents that all filters kept, `bucket` adds the column of the buckets,
and `keep_bucket` removes documents by it. Rows out of `bucket`: `doc_id` and the number of the bucket, null without
a score.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.accounts.bucketed import BucketFacts, ScorePercentiles
from zyda_flows.tasks.labels.scores import (
    NO_SCORE,
    STAGE,
    VERSION,
    Percentiles,
    ScoresOfShard,
    percentiles_of,
    score_keys,
    scores_of_keys,
)
from zyda_flows.tasks.quality.conditions import bucket_keep
from zyda_flows.tasks.quality.document_filter import DocumentFilter, remaining_documents, run_filter
from zyda_flows.tasks.quality.filter import KEEP, removal_verdicts
from zyda_flows.tasks.quality.ingested import read_ingest_facts
from zyda_flows.tasks.recipe.buckets import Bucket
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import StageCost, Workload, shards_of
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.trees import jobs_of_tree
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.facts import Facts

BUCKET = pa.int64()


class FoundPercentiles(Facts):
    """The facts of the manifest: the percentiles of each score. keys: of each, see `keys_of_scores`."""

    scores: tuple[ScorePercentiles, ...] = ()
    keys: tuple[tuple[int, ...], ...] = ()

    def of(self, source: str) -> tuple[ScorePercentiles, ...]:
        """Return the percentiles for the documents of a source."""
        return tuple(score for score in self.scores if score.source in (None, source))

    def keys_of(self, source: str) -> tuple[tuple[int, ...], ...]:
        """Return the keys of the percentiles for the documents of a source, by column."""
        named = zip(self.scores, self.keys, strict=True)
        return tuple(keys for score, keys in named if score.source in (None, source))


def bucket_of(recipe: Recipe) -> Bucket:
    assert recipe.bucket is not None
    return recipe.bucket


def has_buckets(recipe: Recipe, _: str) -> bool:
    return recipe.bucket is not None


def params_of(bucket: Bucket) -> list[object]:
    return [bucket.name, bucket.of, bucket.count, bucket.weights, bucket.within]


def key(recipe: Recipe, trails: list[Trail]) -> str:
    identities = (identity for trail in trails for identity in trail.identities)
    return stage_key(STAGE, VERSION, params_of(bucket_of(recipe)), *identities)


def schema_to_read(recipe: Recipe, trail: Trail, columns: Sequence[str]) -> pa.Schema:
    """Return the columns of a source's shards to read: some of its own, and the counts."""
    names = {*columns, *DOCUMENT_COUNTS.names}
    return pa.schema(
        [field for field in read_ingest_facts(recipe.folder, trail).columns if field.name in names]
    )


def cost(workload: Workload, _: Subject, name: str) -> Iterator[StageCost]:
    """Yield the cost of the scores of all shards, and of adding up their counts."""
    shards = shards_of(workload)
    tried = workload.by_shard(name)
    yield StageCost(name, tried + Spent(calls=max(0, shards + jobs_of_tree(shards) - tried.calls)))


@stage(STAGE, key, scope="corpus", inputs=("trails",), enabled=has_buckets, cost=cost)
def buckets(recipe: Recipe, trails: list[Trail]) -> Manifest:
    """Find the percentiles of the scores of all documents."""
    folder, bucket = recipe.folder, bucket_of(recipe)
    run = partial(fan_out, Job.__call__, stage=STAGE, source=None)
    jobs = [
        ScoresOfShard(
            folder, trail.source, history, bucket.of, bucket.weights, schema_to_read(recipe, trail, bucket.of)
        )
        for trail in trails
        for history in load_histories(folder, trail)
    ]
    made: list[Artifact] = run(jobs)
    groups = dict[str | None, list[Artifact]]()
    for job, artifact in zip(jobs, made, strict=True):
        groups.setdefault(job.source if bucket.within == "source" else None, []).append(artifact)
    scores, keys = list[ScorePercentiles](), list[tuple[int, ...]]()
    for source, artifacts in groups.items():
        found = percentiles_of(folder, source, artifacts, len(bucket.of), bucket.count, run)
        keys += [each.keys for each in found]
        scores += [
            percentiles_account(source, column, each) for column, each in zip(bucket.of, found, strict=True)
        ]
    facts = FoundPercentiles(scores=tuple(scores), keys=tuple(keys))
    return Manifest(
        stage=STAGE, facts=facts.written(), intermediate=tuple(artifact.path for artifact in made)
    )


def percentiles_account(source: str | None, column: str, found: Percentiles) -> ScorePercentiles:
    return ScorePercentiles(
        source=source,
        column=column,
        percentiles=tuple(scores_of_keys(np.array(found.keys, np.uint64)).tolist()),
        weight=found.weight,
        documents=found.documents,
        without_score=found.without,
    )


@dataclass(frozen=True)
class BucketsOfShard(VerdictJob):
    """The bucket of each document of a shard.

    column: its name. scores: the columns with scores. keys: of the percentiles of each score. table_schema: of the
    columns of the source.
    """

    stage, version = "bucket", VERSION

    column: str
    scores: tuple[str, ...]
    keys: tuple[tuple[int, ...], ...]
    table_schema: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([DOCUMENT_COUNTS.field("doc_id"), (self.column, BUCKET)])

    @property
    def added_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        tables = [self.schema.empty_table()]
        for documents in remaining_documents(self.folder, self.history, self.table_schema):
            largest = np.full(len(documents), -1, np.int64)
            for name, percentiles in zip(self.scores, self.keys, strict=True):
                keys = score_keys(documents, name)
                numbers = np.searchsorted(np.array(percentiles, np.uint64), keys, side="right")
                largest = np.maximum(largest, np.where(keys == NO_SCORE, -1, numbers))
            numbers = pa.array(largest, BUCKET, mask=largest < 0)
            tables.append(pa.table([documents.column("doc_id"), numbers], schema=self.schema))
        return pa.concat_tables(tables)


def key_of_bucket(recipe: Recipe, trail: Trail, buckets_receipt: Receipt) -> str:
    params = params_of(bucket_of(recipe))
    return stage_key("bucket", VERSION, params, *trail.identities, buckets_receipt.identity)


@stage("bucket", key_of_bucket, inputs=("trail", STAGE), enabled=has_buckets)
def bucket(recipe: Recipe, trail: Trail, buckets_receipt: Receipt) -> Manifest:
    """Add the column of buckets to the documents of a source."""
    settings, folder = bucket_of(recipe), recipe.folder
    found = load_manifest(folder, buckets_receipt).facts_as(FoundPercentiles)
    schema = schema_to_read(recipe, trail, settings.of)
    jobs = [
        BucketsOfShard(
            folder, trail.source, history, settings.name, settings.of, found.keys_of(trail.source), schema
        )
        for history in load_histories(folder, trail)
    ]
    facts = BucketFacts(percentiles=found.of(trail.source))
    return run_jobs("bucket", trail, jobs).model_copy(update={"facts": facts.written()})


def key_of_keep(recipe: Recipe, trail: Trail) -> str:
    condition = bucket_keep(recipe, trail.source)
    assert condition is not None
    return stage_key("keep_bucket", VERSION, condition.params, *trail.identities)


def is_filtered_by_bucket(recipe: Recipe, _: str) -> bool:
    return recipe.bucket is not None and recipe.bucket.keep is not None


REASONS = {KEEP: "the `keep` of `bucket` is not true for it"}


@stage("keep_bucket", key_of_keep, enabled=is_filtered_by_bucket, reasons=REASONS)
def keep_bucket(recipe: Recipe, trail: Trail) -> Manifest:
    """Remove the documents of a source that the `keep` of its buckets rejects."""
    condition = bucket_keep(recipe, trail.source)
    assert condition is not None
    verdicts = partial(removal_verdicts, recipe.folder, condition, ())
    return run_filter(
        recipe,
        trail,
        DocumentFilter(
            "keep_bucket", VERSION, verdicts, REASONS, params=condition.params, columns=condition.columns
        ),
    )
