"""Publish: a source's text once more, without what was removed, and the list of what was.

Rows out, in a source's files: `doc_id`, the source's own columns with one type each over all its
files, `n_tokens`, `cluster_id` (null outside any cluster) and the quality model's columns. Rows out,
in the removed files: REMOVED. `tasks.corpus` makes the published folder of these files.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.artifacts import (
    Done,
    Manifest,
    Shard,
    corpus_folder,
    finished,
    load_manifest,
    shard_path,
    stage_key,
    total,
)
from tasks.cluster import fan_out
from tasks.columns import conform, unpack
from tasks.errors import NotConserved
from tasks.filter import Reason
from tasks.recipe import Recipe
from tasks.records import Record, write_record
from tasks.removals import counts_of, going
from tasks.shards import COUNTED
from tasks.stage import stage_task
from tasks.storage import Folder
from tasks.tables import parquet_writer, read_table, tables_of, write_shard, write_table

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
class Job:
    """One shard to publish, on whichever worker, with what the stages found about it."""

    folder: Folder
    source: str
    table_schema: str
    shard: Shard
    removed: Shard
    answers: Shard | None
    filtered: Shard | None

    @property
    def key(self) -> str:
        found = [s.digest if s else "" for s in (self.removed, self.answers, self.filtered)]
        return stage_key("publish", VERSION, [self.source, self.table_schema], self.shard.digest, *found)


class Published(Record):
    """The files of one shard: what stays, and what was removed; None where that is nothing."""

    kept: Shard | None
    removed: Shard | None


def publish_shard(job: Job) -> Published:
    """Write the files of one shard, unless that was done before."""
    path = shard_path("publish", job.source, job.shard.name, job.key)
    record = path.removesuffix(".parquet") + ".json"
    if done := finished(job.folder, record, Published):
        return done
    counted = read_table(job.folder, job.shard, [field.name for field in COUNTED])
    ids = counted.column("doc_id").to_numpy()
    decided = read_table(job.folder, job.removed)
    removed = removed_rows(job, decided, counted)
    gone = removed.column("doc_id").to_numpy()
    left = np.setdiff1d(ids, gone, assume_unique=True)
    done = Published(
        kept=write_kept(job, path, left, decided, counted) if len(left) else None,
        removed=write_removed(job, removed) if len(gone) else None,
    )
    write_record(job.folder, record, done)
    return done


def removed_rows(job: Job, decided: pa.Table, counted: pa.Table) -> pa.Table:
    """Return every document of the shard that goes, with the reason: REMOVED, sorted by doc_id."""
    tables = [explained_rows(job, going(decided), "removals", Reason.DUPLICATE, counted)]
    if job.filtered:
        filtered = beside(read_table(job.folder, job.filtered), decided, ["cluster_id"])
        for reason in (Reason.QUALITY, Reason.KEEP):
            rows = filtered.filter(pc.field("reason") == reason.value)
            tables.append(explained_rows(job, rows, "filter", reason, counted))
    return pa.concat_tables(tables).sort_by("doc_id")


def explained_rows(job: Job, rows: pa.Table, stage: str, reason: Reason, counted: pa.Table) -> pa.Table:
    n = len(rows)
    kept = rows.column("kept_doc_id") if "kept_doc_id" in rows.column_names else pa.nulls(n, pa.uint64())
    columns = [
        rows.column("doc_id"),
        pa.array([job.source] * n, pa.string()),
        pa.array([stage] * n, pa.string()),
        pa.array([reason.value] * n, pa.string()),
        rows.column("cluster_id"),
        kept,
        beside(rows.select(["doc_id"]), counted, ["n_tokens"]).column("n_tokens"),
    ]
    return pa.table(columns, schema=REMOVED)


def beside(rows: pa.Table, found: pa.Table, names: list[str]) -> pa.Table:
    """Append columns of `found` to `rows` by doc_id, null where `found` says nothing."""
    ids, theirs = rows.column("doc_id").to_numpy(), found.column("doc_id").to_numpy()
    places = np.searchsorted(theirs, ids)
    is_there = np.isin(ids, theirs, assume_unique=True)
    indices = pa.array(np.where(is_there, places, 0).astype(np.int64), mask=~is_there)
    for name in names:
        values = found.column(name).take(indices)
        rows = rows.append_column(found.schema.field(name), values)
    return rows


def write_kept(job: Job, path: str, left: NDArray[np.uint64], decided: pa.Table, counted: pa.Table) -> Shard:
    """Write the documents that stay."""

    def fill(scratch: Path) -> None:
        with ExitStack() as stack:
            writer = None
            for table in kept_tables(job, left, decided):
                writer = writer or stack.enter_context(parquet_writer(scratch, table.schema))
                writer.write_table(table)

    shard = write_shard(job.folder, path, job.shard.name, fill, counts=counts_of(counted, left))
    if shard.rows != shard.counts.documents:
        raise NotConserved(f"{path}: {shard.rows:,} rows written, expected {shard.counts.documents:,}")
    return shard


def kept_tables(job: Job, left: NDArray[np.uint64], decided: pa.Table) -> Iterator[pa.Table]:
    """Yield the documents that stay as they are published, some MiB at a time."""
    schema = unpack(job.table_schema)
    answers = read_table(job.folder, job.answers) if job.answers else None
    for whole in tables_of(job.folder, job.shard):
        table = conform(whole, schema)
        stays = np.isin(table.column("doc_id").to_numpy(), left, assume_unique=True)
        if not stays.any():
            continue
        if not stays.all():
            table = table.filter(pa.array(stays))
        tokens = table.column("n_tokens")
        table = table.drop_columns(["n_tokens", "n_bytes"]).append_column("n_tokens", tokens)
        table = beside(table, decided, ["cluster_id"])
        if answers is not None:
            table = beside(table, answers, [n for n in answers.column_names if n != "doc_id"])
        yield table


def write_removed(job: Job, removed: pa.Table) -> Shard:
    path = shard_path("removed", job.source, job.shard.name, job.key)
    return write_table(job.folder, path, job.shard.name, removed)


def key(recipe: Recipe, ingested: Done, removed: Done, classified: Done, filtered: Done) -> str:
    inputs = (ingested, removed, classified, filtered)
    return stage_key("publish", VERSION, None, *(done.identity for done in inputs))


@stage_task("publish", key=key)
def publish(recipe: Recipe, ingested: Done, removed: Done, classified: Done, filtered: Done) -> Manifest:
    """Write the published files of a source."""
    folder, source = corpus_folder(recipe), str(ingested.source)
    whole = load_manifest(folder, ingested)
    schema = whole.facts["schema"]
    nothing = [None] * len(whole.shards)
    rows = zip(
        whole.shards,
        load_manifest(folder, removed).shards,
        load_manifest(folder, classified).shards or nothing,
        load_manifest(folder, filtered).shards or nothing,
        strict=True,
    )
    jobs = [Job(folder, source, schema, *row) for row in rows]
    files = fan_out(publish_shard, jobs, stage="publish", source=source)
    kept = tuple(file.kept for file in files if file.kept)
    return Manifest(
        stage="publish",
        source=source,
        shards=kept,
        entering=filtered.out,
        out=total(shard.counts for shard in kept),
        facts={"removed": [file.removed.model_dump() for file in files if file.removed]},
    )
