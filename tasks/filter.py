"""Filter: what a source's labels and its `keep` expression let go.

Rows out: `doc_id` (uint64), `reason` (`quality` or `keep`), sorted by doc_id, for every document
that deduplication left and that goes now. A document that both would let go goes for `quality`.

`tasks.keep` is imported where a source has an expression: polars takes a third of a second and starts threads.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.artifacts import (
    Done,
    Manifest,
    Shard,
    corpus_folder,
    finished_shard,
    load_manifest,
    shard_path,
    stage_key,
)
from tasks.cluster import fan_out
from tasks.columns import conform, pack, unpack
from tasks.errors import bad_input
from tasks.ids import split
from tasks.quality import Model
from tasks.recipe import Recipe, Source
from tasks.register import load_register
from tasks.removals import counts_of, gone_ids, stage_of_removals
from tasks.shards import COUNTED, names_of_text
from tasks.stage import stage_task
from tasks.storage import Folder
from tasks.tables import opened, parts_of, read_table, write_table

VERSION = 2
FILTERED = pa.schema([("doc_id", pa.uint64()), ("reason", pa.string())])


class Reason(StrEnum):
    """Why a document is not in the corpus."""

    DUPLICATE = "duplicate"
    QUALITY = "quality"
    KEEP = "keep"


@dataclass(frozen=True)
class Job:
    """One shard to filter, on whichever worker. `answers` is what the classifier said, if any.

    `table_schema` has the columns that are judged, with their types over all files of the source.
    """

    folder: Folder
    source: Source
    shard: Shard
    removed: Shard
    answers: Shard | None
    table_schema: pa.Schema

    @property
    def path(self) -> str:
        answers = self.answers.digest if self.answers else ""
        asked = [*asked_of(self.source), pack(self.table_schema)]
        key = stage_key("filter", VERSION, asked, self.shard.digest, self.removed.digest, answers)
        return shard_path("filter", self.source.name, self.shard.name, key)


def asked_of(source: Source) -> list[object]:
    """Return what a source's filter depends on, besides its data."""
    return [source.keep, source.text, source.classify.keep if source.classify else None]


def visible_columns(source: Source, stored: pa.Schema, model: Model | None) -> pa.Schema:
    """Return the columns that a `keep` can name, from those of a source's documents."""
    classified = source.classify is not None
    names = [name for name in names_of_text(source.text, classified=classified) if name not in stored.names]
    added = model.added_columns if model else []
    return pa.schema([*stored, *(pa.field(name, pa.large_string()) for name in names), *added])


def check_keep(source: Source, stored: pa.Schema, model: Model | None) -> None:
    """Raise BadInput where a source's `keep` cannot be evaluated on its documents, one by one."""
    if not source.keep:
        return
    from tasks.keep import fault

    if found := fault(source.keep, visible_columns(source, stored, model)):
        raise bad_input(source.name, f"keep: {source.keep}: {found}")


def judged_schema(source: Source, stored: pa.Schema) -> pa.Schema:
    """Return those columns of a source's documents that have to be read to judge them."""
    named = set[str]()
    if source.keep:
        from tasks.keep import columns_of

        named.update(columns_of(source.keep))
    if named & set(names_of_text(source.text, classified=source.classify is not None)):
        named |= {"text"}
    return pa.schema([field for field in stored if field.name in named or field.name in COUNTED.names])


def reasons_to_go(job: Job, table: pa.Table) -> pa.Table:
    """Judge each row: a table with the columns of a source and those of its model, to FILTERED."""
    source = job.source
    bad_quality = np.zeros(len(table), np.bool_)
    if source.classify and source.classify.keep:
        labels = pa.array(source.classify.keep)
        bad_quality = ~pc.is_in(table.column("quality_pred"), labels).to_numpy()
    stays = kept_rows(job, source.keep, table) if source.keep else np.ones(len(table), np.bool_)
    goes = bad_quality | ~stays
    reasons = np.where(bad_quality[goes], Reason.QUALITY, Reason.KEEP)
    ids = table.column("doc_id").filter(pa.array(goes))
    return pa.table([ids, pa.array(reasons, pa.string())], schema=FILTERED)


def kept_rows(job: Job, keep: str, table: pa.Table) -> NDArray[np.bool_]:
    """Say which rows `keep` is true for: (n,) bool. Raises BadInput that names the row it fails on."""
    from tasks.keep import BadKeep, kept

    try:
        return kept(keep, table)
    except BadKeep as error:
        found, name = f"keep: {keep}: {error.found}", job.source.name
        if error.row is None:
            raise bad_input(name, found) from error
        _, number, row = split(table.column("doc_id")[error.row].as_py())
        files = load_register(job.folder).files.get(name, ())
        url = next((file.url for file in files if file.number == number), "")
        raise bad_input(name, found, file=url, row=row) from error


def filter_shard(job: Job) -> Shard:
    """Filter one shard, unless that was done before."""
    if done := finished_shard(job.folder, job.path):
        return done
    gone = gone_ids(job.folder, job.removed)
    answers = read_table(job.folder, job.answers) if job.answers else None
    found, counted = list[pa.Table](), list[pa.Table]()
    with opened(job.folder, job.shard) as parquet:
        there = [name for name in job.table_schema.names if name in parquet.schema_arrow.names]
        for part in parts_of(parquet, there):
            table = conform(part, job.table_schema)
            left = table.filter(pc.invert(pc.is_in(table.column("doc_id"), gone)))
            counted.append(left.select(COUNTED.names))
            found.append(reasons_to_go(job, judged(job.source, left, answers)))
    going, counts = pa.concat_tables(found), pa.concat_tables(counted)
    removed = counts_of(counts, going.column("doc_id").to_numpy())
    left = job.removed.counts - removed
    return write_table(job.folder, job.path, job.shard.name, going, counts=left, removed=removed)


def judged(source: Source, table: pa.Table, answers: pa.Table | None) -> pa.Table:
    """Put what a judge may name beside each row: the model's columns and the text's own name."""
    if answers is not None:
        ids = answers.column("doc_id").to_numpy()
        places = np.searchsorted(ids, table.column("doc_id").to_numpy())
        mine = answers.take(pa.array(places)).drop_columns("doc_id")
        for name in mine.column_names:
            table = table.append_column(name, mine.column(name))
    for name in names_of_text(source.text, classified=source.classify is not None)[1:]:
        if "text" in table.column_names:
            table = table.append_column(name, table.column("text"))
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
    whole = load_manifest(folder, ingested)
    shards, stored = whole.shards, unpack(whole.facts["schema"])
    check_keep(source, stored, Model.model_validate(whole.facts["model"]) if source.classify else None)
    gone = load_manifest(folder, removed).shards
    answers = load_manifest(folder, classified).shards or [None] * len(shards)
    columns = judged_schema(source, stored)
    jobs = [Job(folder, source, *three, columns) for three in zip(shards, gone, answers, strict=True)]
    filtered = fan_out(filter_shard, jobs, stage="filter", source=source.name)
    return stage_of_removals("filter", source.name, removed, filtered)
