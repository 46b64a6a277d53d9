"""Judging: a stage that reads what is left of a source and says which documents go, and why (its verdicts).

A judge is a function from a table of documents to a table of those that go: `doc_id`, `reason`, and its
evidence. It sees `doc_id`, the counts, the columns of the source that it asks for, as far as the source has
them, and all that stages before have put beside the documents. It is never shown an empty table.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import NotConserved
from tasks.recipe.fields import Recipe
from tasks.sources.columns import conform
from tasks.stage.verdicts import (
    REASON,
    VERDICTS,
    JobSoFar,
    ShardSoFar,
    Trail,
    ids_gone,
    said_beside,
    said_by,
    shards_so_far,
    with_columns,
)
from tasks.storage.artifacts import Manifest, load_manifest, stage_key
from tasks.storage.documents import COUNTED
from tasks.storage.folder import Folder
from tasks.storage.records import pack, unpack
from tasks.storage.tables import opened, parts_of

NO_EVIDENCE = pa.schema([])


@dataclass(frozen=True)
class Judge:
    """Who judges, and what it is shown.

    judges: the function, with what it was asked. version: raised when it answers otherwise. reasons: for which
    it lets documents go, each with a sentence that says it of a document. evidence: the columns that it gives
    beside `doc_id` and `reason`. asked: all that its answers depend on besides the documents, as a JSON value.
    columns: the names of the columns of the source that it sees.
    """

    stage: str
    version: int
    judges: Callable[[pa.Table], pa.Table]
    reasons: dict[str, str]
    evidence: pa.Schema = NO_EVIDENCE
    asked: Any = None
    columns: tuple[str, ...] = ("text",)

    def key(self, _: Recipe, trail: Trail) -> str:
        """Return the key of a stage that asks this judge, whatever the recipe says."""
        return stage_key(self.stage, self.version, [self.asked, list(self.columns)], *trail.identities)


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

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*VERDICTS, *self.judge.evidence])

    @property
    def reasons(self) -> Collection[str]:
        return self.judge.reasons

    def say(self, left: pa.Table) -> pa.Table:
        shown = documents_left(self.folder, self.so_far, self.table_schema)
        # Each part gets the types of the whole: a column of nulls alone would have none.
        parts = [
            self.checked(self.judge.judges(documents), documents) for documents in shown if len(documents)
        ]
        verdicts = pa.concat_tables([self.schema.empty_table(), *parts])
        if verdicts.column(REASON.name).null_count:
            raise NotConserved(f"{self.whose}: a document goes without a reason")
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
    return said_by(judge.stage, trail, jobs)
