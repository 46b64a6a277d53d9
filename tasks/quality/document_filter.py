"""A stage made of one function, which reads the remaining documents of a source and says which to remove.

The function takes a table of documents and returns a table of those to remove: `doc_id`, `reason`, and its
evidence. Its documents have `doc_id`, the counts, the columns of the source that it asks for, as far as the
source has them, and all columns that stages before it added. It is never given an empty table.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.quality.ingested import ingested
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
    """A function that removes documents, and what it reads.

    verdicts: from a table of documents to one of those to remove: `doc_id`, `reason`, the columns of `evidence`.
    version: raised when it answers otherwise. reasons: why it removes documents, each with a sentence about such a
    document. params: all that its answers depend on besides the documents, as a JSON value. columns: the names of
    the columns of the source that it reads.
    """

    stage: str
    version: int
    verdicts: Callable[[pa.Table], pa.Table]
    reasons: dict[str, str]
    evidence: pa.Schema = NO_EVIDENCE
    params: Any = None
    columns: tuple[str, ...] = ("text",)

    def key(self, _: Recipe, trail: Trail) -> str:
        """Return the key of a stage that runs this filter, whatever the recipe says."""
        return stage_key(self.stage, self.version, [self.params, list(self.columns)], *trail.identities)


@dataclass(frozen=True)
class FilterShard(VerdictJob):
    """Which documents of what is left of one shard go. table_schema: of the columns that are shown."""

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
        shown = remaining_documents(self.folder, self.history, self.table_schema)
        # Each part gets the types of the whole: a column of nulls alone would have none.
        parts = [
            self.checked(self.document_filter.verdicts(documents), documents)
            for documents in shown
            if len(documents)
        ]
        verdicts = pa.concat_tables([self.schema.empty_table(), *parts])
        if verdicts.column(REASON.name).null_count:
            raise NotConserved(f"{self.whose}: a document goes without a reason")
        return verdicts


def remaining_documents(folder: Folder, history: ShardHistory, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the documents that are left of a shard, some MiB at a time, with what was said beside them."""
    gone_ids, tables_beside = removed_ids(folder, history), load_added_columns(folder, history)
    with open_table(folder, history.shard) as parquet:
        names = [name for name in schema.names if name in parquet.schema_arrow.names]
        for part in parts_of(parquet, names):
            documents = conform(part, schema)
            is_remaining = ~np.isin(documents.column("doc_id").to_numpy(), gone_ids, assume_unique=True)
            documents = documents.filter(pa.array(is_remaining))
            for table in tables_beside:
                documents = with_columns(documents, table)
            yield documents


def run_filter(recipe: Recipe, trail: Trail, document_filter: DocumentFilter) -> Manifest:
    """Run a filter on the remaining documents of a source, over the cluster."""
    folder = recipe.folder
    wanted = {*document_filter.columns, *DOCUMENT_COUNTS.names}
    schema = pa.schema([field for field in ingested(folder, trail).columns if field.name in wanted])
    jobs = [
        FilterShard(folder, trail.source, history, document_filter, schema)
        for history in load_histories(folder, trail)
    ]
    return run_jobs(document_filter.stage, trail, jobs)
