"""The rows of published files: the kept documents of a shard, and its removed documents.

Rows of the kept files: `doc_id`, `source`, the source's columns, each with one type in all files of the source,
`n_tokens`, and the columns that stages added (`cluster_id`, and the columns of a quality model). Rows of the
removed files: REMOVED, the evidence that stages declare, and the scores, labels and bucket of a document that later
stages removed.
"""

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.publish.cut_texts import load_cuts, with_cut_counts, with_cut_texts
from zyda_flows.tasks.publish.published_columns import SOURCE, for_readers
from zyda_flows.tasks.sources.columns import conform
from zyda_flows.tasks.stage.verdicts import (
    ShardHistory,
    StageOutput,
    load_added_columns,
    removals_in,
    with_columns,
)
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table, tables_of


def removed_rows(
    folder: Folder,
    source: str,
    history: ShardHistory,
    counted: pa.Table,
    schema: pa.Schema,
    added: Collection[str],
) -> pa.Table:
    """Return the removed documents of a shard, with stage, reason and evidence, sorted by doc_id.

    counted: the documents of the shard with their counts. schema: of the removed files. added: its columns that
    stages add to documents; null if the document was removed before.
    """
    tables = [schema.empty_table()]
    columns = [counted.select([name for name in counted.column_names if name != "n_bytes"])]
    if not history.is_whole:
        published = {"doc_id", "cluster_id", *added}
        columns += [
            table.select([name for name in table.column_names if name in published])
            for table in load_added_columns(folder, history)
        ]
    for output in history.outputs:
        if output.artifact.removed.documents:
            verdicts = removals_in(read_table(folder, output.artifact))
            tables.append(as_removed(source, output, verdicts, columns, schema))
    return pa.concat_tables(tables).sort_by("doc_id")


def as_removed(
    source: str, output: StageOutput, verdicts: pa.Table, columns: list[pa.Table], schema: pa.Schema
) -> pa.Table:
    """Return the verdicts of a stage as rows of the removed files.

    columns: tables with other columns of the documents. Null for evidence that the stage does not have.
    """
    rows = verdicts.select([name for name in verdicts.column_names if name in schema.names])
    rows = rows.append_column("source", pa.array([source] * len(rows), pa.string()))
    rows = rows.append_column("stage", pa.array([output.stage] * len(rows), pa.string()))
    for table in columns:
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


def kept_rows(
    folder: Folder, source: str, history: ShardHistory, kept_ids: Ids, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yield tables of some MiB of the documents in kept_ids, with the published columns.

    kept_ids: (n,), ascending. schema: of the columns of the source.
    """
    added, cuts = load_added_columns(folder, history), load_cuts(folder, history)
    for stored in tables_of(folder, history.shard):
        table = conform(stored, schema)
        is_remaining = np.isin(table.column("doc_id").to_numpy(), kept_ids, assume_unique=True)
        if not is_remaining.any():
            continue
        if not is_remaining.all():
            table = table.filter(pa.array(is_remaining))
        expect_whole_texts(source, table)
        table = with_cut_texts(with_cut_counts(table, cuts), cuts)
        tokens = table.column("n_tokens")
        table = table.drop_columns(["n_tokens", "n_bytes"]).append_column("n_tokens", tokens)
        table = table.add_column(1, SOURCE, pa.array([source] * len(table), SOURCE.type))
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
