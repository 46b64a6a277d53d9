"""Run a function as a stage that removes documents of a source.

The function takes a table of remaining documents, and returns a table of the documents to remove with the columns
`doc_id`, `reason` and its evidence. The documents have the columns `doc_id`, the counts, the requested columns that
the source has, and all columns that earlier stages added. The table is never empty.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.quality.ingested import read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.columns import conform
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import (
    REASON,
    VERDICTS,
    ShardHistory,
    Trail,
    load_added_columns,
    load_histories,
    removed_ids,
    with_columns,
)
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import open_table, parts_of

NO_EVIDENCE = pa.schema([])


@dataclass(frozen=True)
class DocumentFilter:
    """A function that removes documents, and its inputs.

    Attributes:
        stage: the name of the stage.
        version: increased when the function returns other documents than before.
        verdicts: takes a table of documents; returns `doc_id`, `reason` and `evidence` of those to remove.
        reasons: the reasons of the function, each with a sentence about a removed document.
        evidence: the schema of further columns of the returned table.
        params: a JSON value of all inputs of the function except the documents.
        columns: the names of the columns of the source that the function reads.
    """

    stage: str
    version: int
    verdicts: Callable[[pa.Table], pa.Table]
    reasons: dict[str, str]
    evidence: pa.Schema = NO_EVIDENCE
    params: Any = None
    columns: tuple[str, ...] = ("text",)

    def key(self, _: Recipe, trail: Trail) -> str:
        """Return the key of a stage that runs this filter, which does not depend on the recipe."""
        return stage_key(self.stage, self.version, [self.params, list(self.columns)], *trail.identities)


@dataclass(frozen=True)
class FilterShard(VerdictJob):
    """The documents that a filter removes from a shard. table_schema: of the columns that the filter reads."""

    document_filter: Annotated[DocumentFilter, NotInKey("its version and params are in the key")]
    table_schema: pa.Schema

    @property
    def stage(self) -> str:
        return self.document_filter.stage

    @property
    def version(self) -> int:
        return self.document_filter.version

    @property
    def also_in_key(self) -> Any:
        return self.document_filter.params

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*VERDICTS, *self.document_filter.evidence])

    @property
    def reasons(self) -> Collection[str]:
        return self.document_filter.reasons

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        tables = remaining_documents(self.folder, self.history, self.table_schema)
        parts = [
            self.checked(self.document_filter.verdicts(documents), documents)
            for documents in tables
            if len(documents)
        ]
        verdicts = pa.concat_tables([self.schema.empty_table(), *parts])
        if verdicts.column(REASON.name).null_count:
            raise NotConserved(f"{self.whose}: a document is removed without a reason")
        return verdicts


def remaining_documents(folder: Folder, history: ShardHistory, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the remaining documents of a shard, some MiB at a time, with the columns that earlier stages added."""
    ids_to_skip, added_columns = removed_ids(folder, history), load_added_columns(folder, history)
    with open_table(folder, history.shard) as parquet:
        names = [name for name in schema.names if name in parquet.schema_arrow.names]
        for part in parts_of(parquet, names):
            documents = conform(part, schema)
            is_remaining = ~np.isin(documents.column("doc_id").to_numpy(), ids_to_skip, assume_unique=True)
            documents = documents.filter(pa.array(is_remaining))
            for table in added_columns:
                documents = with_columns(documents, table)
            yield documents


def run_filter(recipe: Recipe, trail: Trail, document_filter: DocumentFilter) -> Manifest:
    """Run a filter on the remaining documents of a source, over the cluster."""
    folder = recipe.folder
    names = {*document_filter.columns, *DOCUMENT_COUNTS.names}
    schema = pa.schema([field for field in read_ingest_facts(folder, trail).columns if field.name in names])
    jobs = [
        FilterShard(folder, trail.source, history, document_filter, schema)
        for history in load_histories(folder, trail)
    ]
    return run_jobs(document_filter.stage, trail, jobs)
