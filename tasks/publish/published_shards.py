"""Write the published files of a shard: the kept documents, and the list of removed documents.

Rows of the kept files: `doc_id`, `source`, the source's columns, each with one type in all files of the source,
`n_tokens`, and the columns that stages added (`cluster_id`, and the columns of a quality model). Rows of the
removed files: REMOVED, and the evidence that stages declare.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.components import (
    CATEGORY,
    COUNTED,
    check_names,
    count_components,
    count_names,
)
from zyda_flows.tasks.documents.planning import STATISTICS
from zyda_flows.tasks.errors import NotConserved, bad_input
from zyda_flows.tasks.publish.published_columns import (
    SOURCE,
    for_readers,
)
from zyda_flows.tasks.sources.columns import conform
from zyda_flows.tasks.sources.document_components import COMPONENT, folder_name
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.verdicts import (
    ShardHistory,
    StageOutput,
    counts_of,
    load_added_columns,
    removals_in,
    with_columns,
)
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.records import Record, unpack
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, tables_of, write_artifact, write_table

VERSION = 1
MOST_FOLDERS = 1000  # of the components of a shard


class PublishedShard(Record):
    """The published files of a shard. kept, removed: None if there are no such documents.

    by_folder: the kept documents if each component has a folder. counted: the documents of each component, licence
    and language, COUNTED, if the recipe has these categories.
    """

    kept: Artifact | None
    removed: Artifact | None
    by_folder: tuple[Artifact, ...] = ()
    counted: Artifact | None = None

    @property
    def files(self) -> tuple[Artifact, ...]:
        """The files of kept documents."""
        return (self.kept,) if self.kept else self.by_folder


@dataclass(frozen=True)
class ShardToPublish(RecordJob[PublishedShard]):
    """A shard to publish, with the verdicts of the stages.

    table_schema: of the columns of the source. removed_schema: of the list of removed documents. in_folders:
    whether each component has a folder. named: (category, column of STATISTICS) by which documents are counted:
    licences or languages.
    """

    stage, version, kind = "publish", VERSION, PublishedShard

    source: str
    table_schema: str
    removed_schema: pa.Schema
    history: ShardHistory
    in_folders: bool = False
    named: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.history.shard.name

    def make(self) -> PublishedShard:
        return self.recorded(publish_shard(self))


def publish_shard(job: ShardToPublish) -> PublishedShard:
    """Write the files of a shard."""
    has_components = COMPONENT.name in unpack(job.table_schema).names
    names = [*DOCUMENT_COUNTS.names, *([COMPONENT.name] if has_components else [])]
    counted = read_table(job.folder, job.history.shard, names)
    added = load_added_columns(job.folder, job.history)
    removed = removed_rows(job, added, counted)
    removed_ids = removed.column("doc_id").to_numpy()
    kept_ids = np.setdiff1d(counted.column("doc_id").to_numpy(), removed_ids, assume_unique=True)
    files = dict[str, Artifact]()
    if job.in_folders:
        for name, folder_ids in by_folder(job, counted, kept_ids).items():
            files[name] = write_documents(job, folder_ids, added, counted, name)
    elif len(kept_ids):
        files[""] = write_documents(job, kept_ids, added, counted)
    counted_by = {
        category: count_names(named_by(job, column, counted), removed) for category, column in job.named
    }
    if has_components:
        counted_by["components"] = count_components(counted, removed)
    return PublishedShard(
        counted=write_counts(job, counted_by) if counted_by else None,
        kept=files.pop("", None),
        removed=write_removed(job, removed) if len(removed_ids) else None,
        by_folder=tuple(files.values()),
    )


def write_counts(job: ShardToPublish, counted_by: dict[str, pa.Table]) -> Artifact:
    """Write the counts of the shard by category: COUNTED. Raises BadInput for too many components."""
    tables = [
        ends.add_column(0, CATEGORY, pa.repeat(pa.scalar(category, CATEGORY.type), len(ends)))
        for category, ends in sorted(counted_by.items())
    ]
    counted = pa.concat_tables([COUNTED.empty_table(), *tables])
    check_names(str(job.source), counted)
    path = artifact_path("counts", job.source, job.name, job.key)
    return write_table(job.folder, path, job.name, counted)


def named_by(job: ShardToPublish, column: str, counted: pa.Table) -> pa.Table:
    """Return the documents of a shard, with the values of a column of STATISTICS as `component`."""
    statistics = read_table(job.folder, job.history.shard, [STATISTICS]).column(STATISTICS).combine_chunks()
    names = statistics.field(column)
    return counted.select(DOCUMENT_COUNTS.names).append_column("component", names)


def by_folder(
    job: ShardToPublish, counted: pa.Table, kept_ids: NDArray[np.uint64]
) -> dict[str, NDArray[np.uint64]]:
    """Return the kept documents, (n,) ascending, by the folder of their component. Raises BadInput."""
    kept = counted.filter(
        pa.array(np.isin(counted.column("doc_id").to_numpy(), kept_ids, assume_unique=True))
    )
    encoded = kept.column(COMPONENT.name).combine_chunks().dictionary_encode(null_encoding="encode")
    folders = [folder_name(name) for name in encoded.dictionary.to_pylist()]
    if len(set(folders)) > MOST_FOLDERS:
        raise bad_input(
            job.source,
            f"component.folders: a shard has documents of {len(set(folders)):,} components ({folders[0]}, "
            f"{folders[1]}, ...), expected at most {MOST_FOLDERS:,}; remove `folders`",
        )
    names, places = np.unique(np.array(folders or [""]), return_inverse=True)
    row_places = places[encoded.indices.to_numpy()] if len(kept) else np.zeros(0, np.int64)
    ids = kept.column("doc_id").to_numpy()
    return {
        str(name): ids[row_places == place] for place, name in enumerate(names) if (row_places == place).any()
    }


def removed_rows(job: ShardToPublish, added: list[pa.Table], counted: pa.Table) -> pa.Table:
    """Return the removed documents of the shard, with stage, reason and evidence, sorted by doc_id."""
    tables = [job.removed_schema.empty_table()]
    for output in job.history.outputs:
        if output.artifact.removed.documents:
            verdicts = removals_in(read_table(job.folder, output.artifact))
            tables.append(as_removed(job, output, verdicts, added, counted))
    return pa.concat_tables(tables).sort_by("doc_id")


def as_removed(
    job: ShardToPublish, output: StageOutput, verdicts: pa.Table, added: list[pa.Table], counted: pa.Table
) -> pa.Table:
    """Return the verdicts of a stage as rows of the removed files.

    Null for evidence that the stage does not have.
    """
    schema = job.removed_schema
    rows = verdicts.select([name for name in verdicts.column_names if name in schema.names])
    rows = rows.append_column("source", pa.array([job.source] * len(rows), pa.string()))
    rows = rows.append_column("stage", pa.array([output.stage] * len(rows), pa.string()))
    beside = [name for name in ("n_tokens", COMPONENT.name) if name in counted.column_names]
    rows = with_columns(rows, counted.select(["doc_id", *beside]))
    for table in added:
        # The evidence of this stage takes precedence over columns that other stages added.
        names = [
            name for name in table.column_names if name in schema.names and name not in rows.column_names
        ]
        rows = with_columns(rows, table.select(["doc_id", *names]))
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    cluster_ids = pc.coalesce(rows.column("cluster_id"), rows.column("doc_id"))
    rows = rows.set_column(rows.schema.get_field_index("cluster_id"), "cluster_id", cluster_ids)
    return rows.select(schema.names).cast(schema)


def write_documents(
    job: ShardToPublish,
    kept_ids: NDArray[np.uint64],
    added: list[pa.Table],
    counted: pa.Table,
    in_folder: str = "",
) -> Artifact:
    """Write the kept documents.

    kept_ids: (n,), ascending. in_folder: below the folder of the source; may be empty.
    """

    def fill(scratch: Path) -> None:
        with ExitStack() as stack:
            writer = None
            for table in published_tables(job, kept_ids, added):
                writer = writer or stack.enter_context(parquet_writer(scratch, table.schema))
                writer.write_table(table)

    name = f"{in_folder}/{job.name}" if in_folder else job.name
    path = artifact_path(job.stage, job.source, name, job.key)
    shard = write_artifact(job.folder, path, name, fill, counts=counts_of(counted, kept_ids))
    if shard.rows != shard.counts.documents:
        raise NotConserved(f"{path}: {shard.rows:,} rows written, expected {shard.counts.documents:,}")
    return shard


def published_tables(
    job: ShardToPublish, kept_ids: NDArray[np.uint64], added: list[pa.Table]
) -> Iterator[pa.Table]:
    """Yield tables of some MiB of the documents in kept_ids, with the published columns."""
    schema = unpack(job.table_schema)
    for stored in tables_of(job.folder, job.history.shard):
        table = conform(stored, schema)
        is_remaining = np.isin(table.column("doc_id").to_numpy(), kept_ids, assume_unique=True)
        if not is_remaining.any():
            continue
        if not is_remaining.all():
            table = table.filter(pa.array(is_remaining))
        expect_whole_texts(job.source, table)
        tokens = table.column("n_tokens")
        table = table.drop_columns(["n_tokens", "n_bytes"]).append_column("n_tokens", tokens)
        table = table.add_column(1, SOURCE, pa.array([job.source] * len(table), SOURCE.type))
        for added_table in added:
            table = with_columns(table, added_table)
        yield table.cast(for_readers(table.schema))


def expect_whole_texts(source: str, table: pa.Table) -> None:
    """Raise NotConserved if the size of a text differs from its count: ingest removed it, and no rule does now."""
    sizes, counted = pc.binary_length(table.column("text")).to_numpy(), table.column("n_bytes").to_numpy()
    if len(others := np.flatnonzero(sizes != counted)):
        first = others[0]
        raise NotConserved(
            f"source {source}: document {table.column('doc_id')[first]} has {sizes[first]:,} bytes of text, "
            f"expected {counted[first]:,}: the result of a rule has changed since it was ingested; build again"
        )


def write_removed(job: ShardToPublish, removed: pa.Table) -> Artifact:
    path = artifact_path("removed", job.source, job.name, job.key)
    return write_table(job.folder, path, job.name, removed.cast(for_readers(removed.schema)))
