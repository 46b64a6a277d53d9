"""Publish: a source's text once more, without what was removed, and the list of what was.

Rows out, in a source's files: `doc_id`, the source's own columns with one type each over all its
files, `n_tokens`, and what stages said beside the documents (`cluster_id`, null outside any cluster, and
the quality model's columns). Rows out, in the removed files: REMOVED, and further evidence where a stage
has some. `tasks.publish.corpus` makes the published folder of these files.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.errors import NotConserved
from tasks.recipe.fields import Recipe
from tasks.sources.columns import conform, unpack
from tasks.stage.spread import fan_out
from tasks.stage.task import BY_MANIFEST, STAGE, leaves_manifest, task
from tasks.stage.verdicts import (
    Said,
    ShardSoFar,
    Trail,
    counts_of,
    rows_that_go,
    said_beside,
    shards_so_far,
    with_columns,
)
from tasks.storage.artifacts import Manifest, Shard, finished, load_manifest, shard_path, stage_key, total
from tasks.storage.documents import COUNTED
from tasks.storage.folder import Folder
from tasks.storage.records import Record, write_record
from tasks.storage.tables import parquet_writer, read_table, tables_of, write_shard, write_table

VERSION = 2
REMOVED = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("source", pa.string()),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("cluster_id", pa.uint64()),
        ("kept_doc_id", pa.uint64()),
        ("n_tokens", pa.uint32()),
    ]
)


@dataclass(frozen=True)
class ShardToPublish:
    """One shard to publish, on whichever worker, with what the stages said about it."""

    folder: Folder
    source: str
    table_schema: str
    so_far: ShardSoFar

    @property
    def key(self) -> str:
        beside = [list(said.beside) for said in self.so_far.said]
        asked = [self.source, self.table_schema, beside]
        return stage_key("publish", VERSION, asked, *self.so_far.digests)


class PublishedShard(Record):
    """The files of one shard: what stays, and what was removed; None where that is nothing."""

    kept: Shard | None
    removed: Shard | None


def publish_shard(job: ShardToPublish) -> PublishedShard:
    """Write the files of one shard, unless that was done before."""
    path = shard_path("publish", job.source, job.so_far.shard.name, job.key)
    record = path.removesuffix(".parquet") + ".json"
    if published := finished(job.folder, record, PublishedShard):
        return published
    counted = read_table(job.folder, job.so_far.shard, [field.name for field in COUNTED])
    beside = said_beside(job.folder, job.so_far)
    removed = removed_rows(job, beside, counted)
    gone_ids = removed.column("doc_id").to_numpy()
    left_ids = np.setdiff1d(counted.column("doc_id").to_numpy(), gone_ids, assume_unique=True)
    published = PublishedShard(
        kept=write_kept(job, path, left_ids, beside, counted) if len(left_ids) else None,
        removed=write_removed(job, removed) if len(gone_ids) else None,
    )
    write_record(job.folder, record, published)  # last: where it is, both files are
    return published


def removed_rows(job: ShardToPublish, beside: list[pa.Table], counted: pa.Table) -> pa.Table:
    """Return every document of the shard that goes, with who said so and why, sorted by doc_id."""
    tables = [REMOVED.empty_table()]
    for said in job.so_far.said:
        if said.shard.removed.documents:
            verdicts = rows_that_go(read_table(job.folder, said.shard))
            tables.append(explained(job.source, said, verdicts, beside, counted))
    return pa.concat_tables(tables, promote_options="default").sort_by("doc_id")


def explained(
    source: str, said: Said, verdicts: pa.Table, beside: list[pa.Table], counted: pa.Table
) -> pa.Table:
    """Write the verdicts of a stage as REMOVED, with its further evidence after that."""
    rows = verdicts.append_column("source", pa.array([source] * len(verdicts), pa.string()))
    rows = rows.append_column("stage", pa.array([said.stage] * len(verdicts), pa.string()))
    rows = with_columns(rows, counted.select(["doc_id", "n_tokens"]))
    for table in beside:
        # What this stage said of its documents itself goes before what others said beside them.
        names = [name for name in table.column_names if name == "doc_id" or name not in rows.column_names]
        rows = with_columns(
            rows, table.select([name for name in names if name in {"doc_id", *REMOVED.names}])
        )
    for field in REMOVED:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    evidence = [name for name in verdicts.column_names if name not in REMOVED.names]
    return rows.select([*REMOVED.names, *evidence])


def write_kept(
    job: ShardToPublish, path: str, left_ids: NDArray[np.uint64], beside: list[pa.Table], counted: pa.Table
) -> Shard:
    """Write the documents that stay."""

    def fill(scratch: Path) -> None:
        with ExitStack() as stack:
            writer = None
            for table in kept_tables(job, left_ids, beside):
                writer = writer or stack.enter_context(parquet_writer(scratch, table.schema))
                writer.write_table(table)

    shard = write_shard(job.folder, path, job.so_far.shard.name, fill, counts=counts_of(counted, left_ids))
    if shard.rows != shard.counts.documents:
        raise NotConserved(f"{path}: {shard.rows:,} rows written, expected {shard.counts.documents:,}")
    return shard


def kept_tables(
    job: ShardToPublish, left_ids: NDArray[np.uint64], beside: list[pa.Table]
) -> Iterator[pa.Table]:
    """Yield the documents that stay as they are published, some MiB at a time."""
    schema = unpack(job.table_schema)
    for stored in tables_of(job.folder, job.so_far.shard):
        table = conform(stored, schema)
        is_left = np.isin(table.column("doc_id").to_numpy(), left_ids, assume_unique=True)
        if not is_left.any():
            continue
        if not is_left.all():
            table = table.filter(pa.array(is_left))
        tokens = table.column("n_tokens")
        table = table.drop_columns(["n_tokens", "n_bytes"]).append_column("n_tokens", tokens)
        for table_beside in beside:
            table = with_columns(table, table_beside)
        yield table


def write_removed(job: ShardToPublish, removed: pa.Table) -> Shard:
    path = shard_path("removed", job.source, job.so_far.shard.name, job.key)
    return write_table(job.folder, path, job.so_far.shard.name, removed)


def key(recipe: Recipe, trail: Trail) -> str:
    return stage_key("publish", VERSION, None, *trail.identities)


@task(cache_policy=BY_MANIFEST, **STAGE)
@leaves_manifest("publish", key)
def publish(recipe: Recipe, trail: Trail) -> Manifest:
    """Write the published files of a source."""
    folder, source = recipe.folder, trail.source
    schema = load_manifest(folder, trail.receipts[0]).facts["schema"]
    jobs = [ShardToPublish(folder, source, schema, so_far) for so_far in shards_so_far(folder, trail)]
    files = fan_out(publish_shard, jobs, stage="publish", source=source)
    kept = tuple(file.kept for file in files if file.kept)
    return Manifest(
        stage="publish",
        source=source,
        shards=kept,
        entering=trail.left,
        out=total(shard.counts for shard in kept),
        facts={"removed": [file.removed.model_dump() for file in files if file.removed]},
    )
