"""Publish: a source's text once more, without what was removed, and the list of what was.

Rows out, in a source's files: `doc_id`, `source`, the source's own columns with one type each over all its
files, `n_tokens`, and the columns that stages added (`cluster_id`, and the quality model's columns). Rows out, in
the removed files: REMOVED, and the evidence that stages declare.
`tasks.publish.corpus` makes the published folder of these files.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.components import (
    COUNTED_BY,
    ComponentCounts,
    added_up,
    count_components,
    count_names,
)
from zyda_flows.tasks.documents.deny import RowsAside
from zyda_flows.tasks.documents.planning import STATISTICS, naming_columns
from zyda_flows.tasks.errors import NotConserved, bad_input
from zyda_flows.tasks.publish.published_columns import (
    SOURCE,
    check_published_names,
    for_readers,
    removed_schema,
)
from zyda_flows.tasks.quality.ingested import Ingested, ingested
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.columns import conform
from zyda_flows.tasks.sources.document_components import COMPONENT, folder_name
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import (
    ShardHistory,
    StageOutput,
    Trail,
    counts_of,
    load_added_columns,
    load_histories,
    removals_in,
    with_columns,
)
from zyda_flows.tasks.storage.artifacts import (
    Artifact,
    Counts,
    Manifest,
    artifact_path,
    load_manifest,
    stage_key,
    total,
)
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.records import Record, unpack
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, tables_of, write_artifact, write_table

VERSION = 1
MOST_FOLDERS = 1000  # of the components of a shard


class PublishedShard(Record):
    """The files of one shard: what stays, and what was removed; None where that is nothing.

    by_folder: what stays, where each component has a folder. counted_by: the documents of each component, licence
    and language, by COUNTED_BY, as far as the recipe has these counted.
    """

    kept: Artifact | None
    removed: Artifact | None
    by_folder: tuple[Artifact, ...] = ()
    counted_by: dict[str, tuple[ComponentCounts, ...]] = {}

    @property
    def files(self) -> tuple[Artifact, ...]:
        """The files of what stays."""
        return (self.kept,) if self.kept else self.by_folder

    @property
    def seen(self) -> Counts:
        return total(file.counts for file in self.files)


class PublishedSource(Facts):
    """The facts of the manifest: the tables of removed documents and of rows that are set aside.

    counted_by: the documents of each component, licence and language, as far as the recipe has these counted.
    """

    removed: tuple[Artifact, ...] = ()
    set_aside: tuple[Artifact, ...] = ()
    counted_by: dict[str, tuple[ComponentCounts, ...]] = {}


@dataclass(frozen=True)
class ShardToPublish(RecordJob[PublishedShard]):
    """One shard to publish, with what the stages said about it.

    table_schema: of the source's own columns. removed_schema: of what is written about those that go. in_folders:
    whether each component has a folder. named: the columns of STATISTICS by whose names documents are counted, as
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
    """Write the files of one shard."""
    has_components = COMPONENT.name in unpack(job.table_schema).names
    names = [*DOCUMENT_COUNTS.names, *([COMPONENT.name] if has_components else [])]
    counted = read_table(job.folder, job.history.shard, names)
    added = load_added_columns(job.folder, job.history)
    removed = removed_rows(job, added, counted)
    gone_ids = removed.column("doc_id").to_numpy()
    left_ids = np.setdiff1d(counted.column("doc_id").to_numpy(), gone_ids, assume_unique=True)
    files = dict[str, Artifact]()
    if job.in_folders:
        for name, of_folder in by_folder(job, counted, left_ids).items():
            files[name] = write_documents(job, of_folder, added, counted, name)
    elif len(left_ids):
        files[""] = write_documents(job, left_ids, added, counted)
    counted_by = {what: count_names(named_by(job, column, counted), removed) for what, column in job.named}
    if has_components:
        counted_by["components"] = count_components(counted, removed)
    return PublishedShard(
        kept=files.pop("", None),
        removed=write_removed(job, removed) if len(gone_ids) else None,
        by_folder=tuple(files.values()),
        counted_by=counted_by,
    )


def named_by(job: ShardToPublish, column: str, counted: pa.Table) -> pa.Table:
    """Return the documents of a shard with what a column of STATISTICS names as `component`."""
    statistics = read_table(job.folder, job.history.shard, [STATISTICS]).column(STATISTICS).combine_chunks()
    of_each = statistics.field(column)
    return counted.select(DOCUMENT_COUNTS.names).append_column("component", of_each)


def by_folder(
    job: ShardToPublish, counted: pa.Table, left_ids: NDArray[np.uint64]
) -> dict[str, NDArray[np.uint64]]:
    """Return the documents that stay, (n,) ascending, by the folder of their component. Raises BadInput."""
    left = counted.filter(
        pa.array(np.isin(counted.column("doc_id").to_numpy(), left_ids, assume_unique=True))
    )
    encoded = left.column(COMPONENT.name).combine_chunks().dictionary_encode(null_encoding="encode")
    folders = [folder_name(name) for name in encoded.dictionary.to_pylist()]
    if len(set(folders)) > MOST_FOLDERS:
        raise bad_input(
            job.source,
            f"component.folders: a shard has documents of {len(set(folders)):,} components ({folders[0]}, "
            f"{folders[1]}, ...), expected at most {MOST_FOLDERS:,}; leave folders out",
        )
    names, places = np.unique(np.array(folders or [""]), return_inverse=True)
    of_rows = places[encoded.indices.to_numpy()] if len(left) else np.zeros(0, np.int64)
    ids = left.column("doc_id").to_numpy()
    return {str(name): ids[of_rows == place] for place, name in enumerate(names) if (of_rows == place).any()}


def removed_rows(job: ShardToPublish, added: list[pa.Table], counted: pa.Table) -> pa.Table:
    """Return every document of the shard that goes, with who said so and why, sorted by doc_id."""
    tables = [job.removed_schema.empty_table()]
    for output in job.history.outputs:
        if output.artifact.removed.documents:
            verdicts = removals_in(read_table(job.folder, output.artifact))
            tables.append(as_removed(job, output, verdicts, added, counted))
    return pa.concat_tables(tables).sort_by("doc_id")


def as_removed(
    job: ShardToPublish, output: StageOutput, verdicts: pa.Table, added: list[pa.Table], counted: pa.Table
) -> pa.Table:
    """Write the verdicts of a stage as the rows of the removed files, null where it has no such evidence."""
    schema = job.removed_schema
    rows = verdicts.select([name for name in verdicts.column_names if name in schema.names])
    rows = rows.append_column("source", pa.array([job.source] * len(rows), pa.string()))
    rows = rows.append_column("stage", pa.array([output.stage] * len(rows), pa.string()))
    beside = [name for name in ("n_tokens", COMPONENT.name) if name in counted.column_names]
    rows = with_columns(rows, counted.select(["doc_id", *beside]))
    for table in added:
        # What this stage said of its documents itself goes before what others said beside them.
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
    left_ids: NDArray[np.uint64],
    added: list[pa.Table],
    counted: pa.Table,
    in_folder: str = "",
) -> Artifact:
    """Write the documents that stay. left_ids: (n,), ascending. in_folder: below the source's, if in any."""

    def fill(scratch: Path) -> None:
        with ExitStack() as stack:
            writer = None
            for table in published_tables(job, left_ids, added):
                writer = writer or stack.enter_context(parquet_writer(scratch, table.schema))
                writer.write_table(table)

    name = f"{in_folder}/{job.name}" if in_folder else job.name
    path = artifact_path(job.stage, job.source, name, job.key)
    shard = write_artifact(job.folder, path, name, fill, counts=counts_of(counted, left_ids))
    if shard.rows != shard.counts.documents:
        raise NotConserved(f"{path}: {shard.rows:,} rows written, expected {shard.counts.documents:,}")
    return shard


def published_tables(
    job: ShardToPublish, left_ids: NDArray[np.uint64], added: list[pa.Table]
) -> Iterator[pa.Table]:
    """Yield the documents that stay, (n,) of left_ids, as they are published, some MiB at a time."""
    schema = unpack(job.table_schema)
    for stored in tables_of(job.folder, job.history.shard):
        table = conform(stored, schema)
        is_remaining = np.isin(table.column("doc_id").to_numpy(), left_ids, assume_unique=True)
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
    """Raise NotConserved where a text is another than was counted: ingest let it go, and no rule since."""
    sizes, counted = pc.binary_length(table.column("text")).to_numpy(), table.column("n_bytes").to_numpy()
    if len(others := np.flatnonzero(sizes != counted)):
        first = others[0]
        raise NotConserved(
            f"source {source}: document {table.column('doc_id')[first]} has {sizes[first]:,} bytes of text, "
            f"expected {counted[first]:,}: what the rules say of it has changed since it was ingested; build again"
        )


def write_removed(job: ShardToPublish, removed: pa.Table) -> Artifact:
    path = artifact_path("removed", job.source, job.name, job.key)
    return write_table(job.folder, path, job.name, removed.cast(for_readers(removed.schema)))


def key(recipe: Recipe, trail: Trail) -> str:
    component, named = recipe.source(trail.source).component, naming_columns(recipe, trail.source)
    params = [bool(component and component.folders), named]
    return stage_key("publish", VERSION, params, *trail.identities)


@stage("publish", key, extends_trail=False)
def publish(recipe: Recipe, trail: Trail) -> Manifest:
    """Write the published files of a source."""
    folder, source = recipe.folder, trail.source
    facts = ingested(folder, trail)
    later_manifests = [load_manifest(folder, receipt) for receipt in trail.receipts[1:]]
    check_published_names(source, facts.columns, later_manifests)
    about_removed = removed_schema(later_manifests)
    component = recipe.source(source).component
    if component:
        about_removed = about_removed.append(COMPONENT)
    in_folders, named = bool(component and component.folders), naming_columns(recipe, source)
    jobs = [
        ShardToPublish(
            folder=folder,
            source=source,
            table_schema=facts.packed,
            removed_schema=about_removed,
            history=history,
            in_folders=in_folders,
            named=tuple(named.items()),
        )
        for history in load_histories(folder, trail)
    ]
    files = fan_out(ShardToPublish.__call__, jobs, stage="publish", source=source)
    kept = tuple(sorted((file for shard in files for file in shard.files), key=lambda file: file.name))
    counted = [what for what in COUNTED_BY if what in named or (what == "components" and component)]
    counted_by = {what: added_up(shard.counted_by[what] for shard in files) for what in counted}
    for what, counts in counted_by.items():
        check_components(source, what, counts, trail)
    return Manifest(
        stage="publish",
        source=source,
        artifacts=kept,
        entering=trail.remaining,
        out=total(shard.counts for shard in kept),
        facts=PublishedSource(
            removed=tuple(file.removed for file in files if file.removed),
            set_aside=set_aside_of(facts, later_manifests),
            counted_by=counted_by,
        ).written(),
    )


def set_aside_of(facts: Ingested, later_manifests: Sequence[Manifest]) -> tuple[Artifact, ...]:
    """Return the tables of rows that are set aside, as deny lists have left them."""
    judged = [one.facts_as(RowsAside).set_aside for one in later_manifests if one.stage == "deny"]
    return next((tables for tables in judged if tables is not None), facts.set_aside)


def check_components(source: str, what: str, components: Sequence[ComponentCounts], trail: Trail) -> None:
    """Raise NotConserved where components or licences do not add up to what the source had, and to what is left."""
    everything = total(one.counts for one in components)
    left = total(one.counts for one in components if not one.stage)
    if everything != trail.receipts[0].out or left != trail.remaining:
        raise NotConserved(
            f"source {source}: its {what} have {everything.documents:,} documents, of which "
            f"{left.documents:,} stay; it has {trail.receipts[0].out.documents:,} and {trail.remaining.documents:,}"
        )
