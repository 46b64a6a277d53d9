"""Publish: a source's text once more, without what was removed, and the list of what was.

Rows out, in a source's files: `doc_id`, the source's own columns with one type each over all its
files, `n_tokens`, and what stages said beside the documents (`cluster_id`, null outside any cluster, and
the quality model's columns). Rows out, in the removed files: REMOVED, and the evidence that stages declare.
`tasks.publish.corpus` makes the published folder of these files.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.errors import NotConserved
from tasks.publish.published_columns import REMOVED, check_published_names, removed_schema
from tasks.quality.ingested import ingested
from tasks.recipe.fields import Recipe
from tasks.sources.columns import conform
from tasks.stage.fan_out import fan_out
from tasks.stage.jobs import RecordJob
from tasks.stage.stage import stage
from tasks.stage.verdicts import (
    ShardHistory,
    StageOutput,
    Trail,
    counts_of,
    load_added_columns,
    load_histories,
    removals_in,
    with_columns,
)
from tasks.storage.artifacts import (
    Artifact,
    Counts,
    Manifest,
    artifact_path,
    load_manifest,
    stage_key,
    total,
)
from tasks.storage.documents import DOCUMENT_COUNTS
from tasks.storage.facts import Facts
from tasks.storage.records import Record, pack, unpack
from tasks.storage.tables import parquet_writer, read_table, tables_of, write_artifact, write_table

VERSION = 2


class PublishedShard(Record):
    """The files of one shard: what stays, and what was removed; None where that is nothing."""

    kept: Artifact | None
    removed: Artifact | None

    @property
    def seen(self) -> Counts:
        return self.kept.counts if self.kept else Counts()


class PublishedSource(Facts):
    """The facts of the manifest: the tables of removed documents."""

    removed: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class ShardToPublish(RecordJob[PublishedShard]):
    """One shard to publish, with what the stages said about it.

    table_schema: of the source's own columns. removed_schema: of what is written about those that go.
    """

    stage, version, kind = "publish", VERSION, PublishedShard

    source: str
    table_schema: str
    removed_schema: pa.Schema
    history: ShardHistory

    @property
    def name(self) -> str:
        return self.history.shard.name

    @property
    def params(self) -> list[Any]:
        added = [list(output.added_columns) for output in self.history.outputs]
        evidence = [pack(self.removed_schema)] if self.removed_schema != REMOVED else []
        return [self.source, self.table_schema, added, *evidence]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.history.digests

    def make(self) -> PublishedShard:
        return self.recorded(publish_shard(self))


def publish_shard(job: ShardToPublish) -> PublishedShard:
    """Write the files of one shard."""
    counted = read_table(job.folder, job.history.shard, DOCUMENT_COUNTS.names)
    added = load_added_columns(job.folder, job.history)
    removed = removed_rows(job, added, counted)
    gone_ids = removed.column("doc_id").to_numpy()
    left_ids = np.setdiff1d(counted.column("doc_id").to_numpy(), gone_ids, assume_unique=True)
    return PublishedShard(
        kept=write_documents(job, left_ids, added, counted) if len(left_ids) else None,
        removed=write_removed(job, removed) if len(gone_ids) else None,
    )


def removed_rows(job: ShardToPublish, added: list[pa.Table], counted: pa.Table) -> pa.Table:
    """Return every document of the shard that goes, with who said so and why, sorted by doc_id."""
    tables = [job.removed_schema.empty_table()]
    for output in job.history.outputs:
        if output.artifact.removed.documents:
            verdicts = removals_in(read_table(job.folder, output.artifact))
            tables.append(as_removed(job, output, verdicts, added, counted))
    return pa.concat_tables(tables).sort_by("doc_id")


def as_removed(
    job: ShardToPublish, output: StageOutput, verdicts: pa.Table, added: list[pa.Table], counted: pa.Table
) -> pa.Table:
    """Write the verdicts of a stage as the rows of the removed files, null where it has no such evidence."""
    schema = job.removed_schema
    rows = verdicts.select([name for name in verdicts.column_names if name in schema.names])
    rows = rows.append_column("source", pa.array([job.source] * len(rows), pa.string()))
    rows = rows.append_column("stage", pa.array([output.stage] * len(rows), pa.string()))
    rows = with_columns(rows, counted.select(["doc_id", "n_tokens"]))
    for table in added:
        # What this stage said of its documents itself goes before what others said beside them.
        names = [
            name for name in table.column_names if name in schema.names and name not in rows.column_names
        ]
        rows = with_columns(rows, table.select(["doc_id", *names]))
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(schema.names).cast(schema)


def write_documents(
    job: ShardToPublish, left_ids: NDArray[np.uint64], added: list[pa.Table], counted: pa.Table
) -> Artifact:
    """Write the documents that stay. left_ids: (n,), ascending."""

    def fill(scratch: Path) -> None:
        with ExitStack() as stack:
            writer = None
            for table in published_tables(job, left_ids, added):
                writer = writer or stack.enter_context(parquet_writer(scratch, table.schema))
                writer.write_table(table)

    shard = write_artifact(job.folder, job.path, job.name, fill, counts=counts_of(counted, left_ids))
    if shard.rows != shard.counts.documents:
        raise NotConserved(f"{job.path}: {shard.rows:,} rows written, expected {shard.counts.documents:,}")
    return shard


def published_tables(
    job: ShardToPublish, left_ids: NDArray[np.uint64], added: list[pa.Table]
) -> Iterator[pa.Table]:
    """Yield the documents that stay, (n,) of left_ids, as they are published, some MiB at a time."""
    schema = unpack(job.table_schema)
    for stored in tables_of(job.folder, job.history.shard):
        table = conform(stored, schema)
        is_remaining = np.isin(table.column("doc_id").to_numpy(), left_ids, assume_unique=True)
        if not is_remaining.any():
            continue
        if not is_remaining.all():
            table = table.filter(pa.array(is_remaining))
        tokens = table.column("n_tokens")
        table = table.drop_columns(["n_tokens", "n_bytes"]).append_column("n_tokens", tokens)
        for added_table in added:
            table = with_columns(table, added_table)
        yield table


def write_removed(job: ShardToPublish, removed: pa.Table) -> Artifact:
    return write_table(job.folder, artifact_path("removed", job.source, job.name, job.key), job.name, removed)


def key(recipe: Recipe, trail: Trail) -> str:
    return stage_key("publish", VERSION, None, *trail.identities)


@stage("publish", key, extends_trail=False)
def publish(recipe: Recipe, trail: Trail) -> Manifest:
    """Write the published files of a source."""
    folder, source = recipe.folder, trail.source
    facts = ingested(folder, trail)
    later_manifests = [load_manifest(folder, receipt) for receipt in trail.receipts[1:]]
    check_published_names(source, facts.columns, later_manifests)
    about_removed = removed_schema(later_manifests)
    jobs = [
        ShardToPublish(folder, source, facts.packed, about_removed, history)
        for history in load_histories(folder, trail)
    ]
    files = fan_out(ShardToPublish.__call__, jobs, stage="publish", source=source)
    kept = tuple(file.kept for file in files if file.kept)
    return Manifest(
        stage="publish",
        source=source,
        artifacts=kept,
        entering=trail.remaining,
        out=total(shard.counts for shard in kept),
        facts=PublishedSource(removed=tuple(file.removed for file in files if file.removed)).written(),
    )
