"""Judging: a stage that reads what is left of a source and says which documents go, and why (its verdicts).

A judge is a function from a table of documents to a table of those that go: `doc_id`, `reason`, and whatever
it found. It sees `doc_id`, the counts, the columns of the source that it asks for, and all that stages
before have put beside the documents.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import NotConserved
from tasks.recipe.fields import Recipe
from tasks.sources.columns import conform, pack, unpack
from tasks.stage.jobs import ShardJob
from tasks.stage.spread import fan_out
from tasks.stage.verdicts import (
    REASON,
    JobSoFar,
    ShardSoFar,
    Trail,
    counts_of,
    ids_gone,
    manifest_of,
    said_beside,
    shards_so_far,
    with_columns,
)
from tasks.storage.artifacts import Manifest, Shard, load_manifest
from tasks.storage.documents import COUNTED
from tasks.storage.folder import Folder
from tasks.storage.tables import opened, parts_of, write_table

VERDICTS = pa.schema([("doc_id", pa.uint64()), REASON])


@dataclass(frozen=True)
class Judge:
    """Who judges, and what it is shown.

    judges: the function, with what it was asked. asked: all that its answers depend on besides the
    documents, as a JSON value. columns: the names of the columns of the source that it sees.
    """

    stage: str
    version: int
    judges: Callable[[pa.Table], pa.Table]
    asked: Any
    columns: tuple[str, ...]


@dataclass(frozen=True)
class JudgedShard(JobSoFar):
    """Which documents of what is left of one shard go. table_schema: of the columns that are shown."""

    judge: Judge
    table_schema: pa.Schema

    @property
    def stage(self) -> str:
        return self.judge.stage

    @property
    def version(self) -> int:
        return self.judge.version

    @property
    def asked(self) -> list[Any]:
        return [self.judge.asked, pack(self.table_schema)]

    def make(self) -> Shard:
        verdicts, counted = list[pa.Table](), list[pa.Table]()
        for documents in documents_left(self.folder, self.so_far, self.table_schema):
            counted.append(documents.select(COUNTED.names))
            verdicts.append(self.checked(self.judge.judges(documents), documents))
        table, all_counted = pa.concat_tables(verdicts), pa.concat_tables(counted)
        removed = counts_of(all_counted, table.column("doc_id").to_numpy())
        counts_left = self.so_far.counts - removed
        return write_table(self.folder, self.path, self.name, table, counts=counts_left, removed=removed)

    def checked(self, verdicts: pa.Table, documents: pa.Table) -> pa.Table:
        """Return a judge's verdicts. Raises NotConserved where they are not about documents that it was shown."""
        ids, shown_ids = (table.column("doc_id").to_numpy() for table in (verdicts, documents))
        if np.any(ids[1:] <= ids[:-1]) or not np.isin(ids, shown_ids, assume_unique=True).all():
            raise NotConserved(
                f"{self.stage} {self.source}, {self.name}: verdicts are expected about documents that are left, "
                "each once and in their order"
            )
        if verdicts.column(REASON.name).null_count:
            raise NotConserved(f"{self.stage} {self.source}, {self.name}: a document goes without a reason")
        return verdicts


def documents_left(folder: Folder, so_far: ShardSoFar, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the documents that are left of a shard, some MiB at a time, with what was said beside them."""
    gone_ids, tables_beside = ids_gone(folder, so_far), said_beside(folder, so_far)
    with opened(folder, so_far.shard) as parquet:
        names = [name for name in schema.names if name in parquet.schema_arrow.names]
        for part in parts_of(parquet, names):
            documents = conform(part, schema)
            is_left = ~np.isin(documents.column("doc_id").to_numpy(), gone_ids, assume_unique=True)
            documents = documents.filter(pa.array(is_left))
            for table in tables_beside:
                documents = with_columns(documents, table)
            yield documents


def judged(recipe: Recipe, trail: Trail, judge: Judge) -> Manifest:
    """Have what is left of a source judged, over the cluster."""
    folder = recipe.folder
    stored = unpack(load_manifest(folder, trail.receipts[0]).facts["schema"])
    schema = pa.schema([field for field in stored if field.name in {*judge.columns, *COUNTED.names}])
    jobs = [
        JudgedShard(folder, trail.source, so_far, judge, schema) for so_far in shards_so_far(folder, trail)
    ]
    shards = fan_out(ShardJob.__call__, jobs, stage=judge.stage, source=trail.source)
    return manifest_of(judge.stage, trail, shards)
