"""Filter: what a source's labels and its `keep` expression let go.

Rows out: `doc_id` (uint64), `reason` (`quality` or `keep`), sorted by doc_id, for every document
that deduplication left and that goes now. A document that both would let go goes for `quality`.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.artifacts import (
    Done,
    Manifest,
    Shard,
    corpus_folder,
    finished_shard,
    load_manifest,
    opened,
    parts_of,
    read_table,
    shard_path,
    stage_key,
    write_table,
)
from tasks.cluster import fan_out
from tasks.keep import kept
from tasks.recipe import Recipe, Source
from tasks.removals import counts_of, gone_ids, stage_of_removals
from tasks.stage import stage_task
from tasks.storage import Folder

VERSION = 1
FILTERED = pa.schema([("doc_id", pa.uint64()), ("reason", pa.string())])


class Reason(StrEnum):
    """Why a document is not in the corpus."""

    DUPLICATE = "duplicate"
    QUALITY = "quality"
    KEEP = "keep"


@dataclass(frozen=True)
class Job:
    """One shard to filter, on whichever worker. `answers` is what the classifier said, if any."""

    folder: Folder
    source: Source
    shard: Shard
    removed: Shard
    answers: Shard | None

    @property
    def path(self) -> str:
        answers = self.answers.digest if self.answers else ""
        key = stage_key(
            "filter", VERSION, asked_of(self.source), self.shard.digest, self.removed.digest, answers
        )
        return shard_path("filter", self.source.name, self.shard.name, key)


def asked_of(source: Source) -> list[object]:
    """Return what a source's filter depends on, besides its data."""
    return [source.keep, source.text, source.classify.keep if source.classify else None]


def reasons_to_go(source: Source, table: pa.Table) -> pa.Table:
    """Judge each row: a table with the columns of a source and those of its model, to FILTERED."""
    bad_quality = np.zeros(len(table), np.bool_)
    if source.classify and source.classify.keep:
        labels = pa.array(source.classify.keep)
        bad_quality = ~pc.is_in(table.column("quality_pred"), labels).to_numpy()
    stays = kept(source.keep, table) if source.keep else np.ones(len(table), np.bool_)
    goes = bad_quality | ~stays
    reasons = np.where(bad_quality[goes], Reason.QUALITY, Reason.KEEP)
    ids = table.column("doc_id").filter(pa.array(goes))
    return pa.table([ids, pa.array(reasons, pa.string())], schema=FILTERED)


def filter_shard(job: Job) -> Shard:
    """Filter one shard, unless that was done before."""
    if done := finished_shard(job.folder, job.path):
        return done
    gone = gone_ids(job.folder, job.removed)
    answers = read_table(job.folder, job.answers) if job.answers else None
    found, counted = list[pa.Table](), list[pa.Table]()
    with opened(job.folder, job.shard) as parquet:
        for table in parts_of(parquet, needed_columns(job.source, parquet.schema_arrow.names)):
            left = table.filter(pc.invert(pc.is_in(table.column("doc_id"), gone)))
            counted.append(left.select(["doc_id", "n_tokens", "n_bytes"]))
            found.append(reasons_to_go(job.source, judged(job.source, left, answers)))
    going, counts = pa.concat_tables(found), pa.concat_tables(counted)
    removed = counts_of(counts, going.column("doc_id").to_numpy())
    left = job.removed.counts - removed
    return write_table(job.folder, job.path, job.shard.name, going, counts=left, removed=removed)


def needed_columns(source: Source, names: list[str]) -> list[str]:
    """Return the columns to read: all but the text, unless the expression may name it."""
    keep = source.keep or ""
    if "text" in keep or source.text in keep:
        return names
    return [name for name in names if name != "text"]


def judged(source: Source, table: pa.Table, answers: pa.Table | None) -> pa.Table:
    """Put what a judge may name beside each row: the model's columns and the text's own name."""
    if answers is not None:
        ids = answers.column("doc_id").to_numpy()
        places = np.searchsorted(ids, table.column("doc_id").to_numpy())
        mine = answers.take(pa.array(places)).drop_columns("doc_id")
        for name in mine.column_names:
            table = table.append_column(name, mine.column(name))
    if source.text != "text" and "text" in table.column_names:
        table = table.append_column(source.text, table.column("text"))
    return table


def key(recipe: Recipe, ingested: Done, removed: Done, classified: Done) -> str:
    asked = asked_of(recipe.source(str(ingested.source)))
    return stage_key("filter", VERSION, asked, ingested.identity, removed.identity, classified.identity)


@stage_task("filter", key=key)
def filter_documents(recipe: Recipe, ingested: Done, removed: Done, classified: Done) -> Manifest:
    """Filter a source, if the recipe asks for it."""
    folder, source = corpus_folder(recipe), recipe.source(str(ingested.source))
    if not source.keep and not (source.classify and source.classify.keep):
        return Manifest(stage="filter", source=source.name, entering=removed.out, out=removed.out)
    shards = load_manifest(folder, ingested).shards
    gone = load_manifest(folder, removed).shards
    answers = load_manifest(folder, classified).shards or [None] * len(shards)
    jobs = [Job(folder, source, *three) for three in zip(shards, gone, answers, strict=True)]
    filtered = fan_out(filter_shard, jobs, stage="filter", source=source.name)
    return stage_of_removals("filter", source.name, removed, filtered)
