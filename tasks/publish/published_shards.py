"""Write the published files of consecutive shards: the kept documents, and the list of removed documents.

The shards are written one after another in row groups of some MiB, so that memory does not depend on their number.
`tasks.publish.published_tables` has the rows.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.components import (
    CATEGORY,
    COUNTED,
    MOST_ROWS,
    added_up,
    check_names,
    count_components,
    count_names,
)
from zyda_flows.tasks.documents.planning import STATISTICS
from zyda_flows.tasks.errors import NotConserved, bad_input
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.publish.cut_texts import load_cuts, with_cut_counts
from zyda_flows.tasks.publish.published_columns import for_readers
from zyda_flows.tasks.publish.published_tables import kept_rows, removed_rows
from zyda_flows.tasks.publish.rows_by_folder import divide_rows
from zyda_flows.tasks.sources.document_components import COMPONENT, folder_name
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.verdicts import ShardHistory, counts_of, load_added_columns, with_columns
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.counts import Counts, total
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS, ROW_GROUP_BYTES, row_groups
from zyda_flows.tasks.storage.records import Record, unpack
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, write_artifact, write_table

VERSION = 1
COUNTS = "counts"  # folder and fan-out of the counts by component, licence and language
MOST_FOLDERS = 1000  # of the components of a shard


class PublishedShards(Record):
    """The published files of consecutive shards. kept, removed: None if there are no such documents.

    by_folder: the kept documents if each component has a folder. documents: the number of kept documents of each
    shard. counted: the documents of each component, licence and language, COUNTED, if the recipe has these
    categories.
    """

    kept: Artifact | None
    removed: Artifact | None
    by_folder: tuple[Artifact, ...] = ()
    documents: tuple[int, ...] = ()
    counted: Artifact | None = None

    @property
    def files(self) -> tuple[Artifact, ...]:
        """The files of kept documents."""
        return (self.kept,) if self.kept else self.by_folder


@dataclass(frozen=True)
class ShardsToPublish(RecordJob[PublishedShards]):
    """Consecutive shards to publish in a file, with the verdicts of the stages.

    table_schema: of the columns of the source. removed_schema: of the list of removed documents. added_to_removed:
    the columns that stages add to removed documents. histories: of the shards, ascending by their documents.
    in_folders: whether each component or bucket has a folder. named: (category, column of STATISTICS) by which
    documents are counted: licences or languages. bucket: the column of buckets; "" if there are none.
    """

    stage, version, kind = "publish", VERSION, PublishedShards

    source: str
    table_schema: str
    removed_schema: pa.Schema
    added_to_removed: tuple[str, ...]
    histories: tuple[ShardHistory, ...]
    in_folders: bool = False
    named: tuple[tuple[str, str], ...] = ()
    bucket: str = ""

    @property
    def name(self) -> str:
        return self.histories[0].shard.name

    def make(self) -> PublishedShards:
        return self.recorded(publish_shards(self))


@dataclass(frozen=True)
class KeptOfShard:
    """The kept documents of a shard in a file. ids: (n,), ascending."""

    history: ShardHistory
    ids: Ids
    counts: Counts


@dataclass(frozen=True)
class Decisions:
    """The decisions about documents, collected while shards are read.

    kept: the shards with documents in each file, by the folder of the file below the source's; "" without folders.
    documents: see `PublishedShards`. counted_by: tables of counts to be added up, by category of COUNTED_BY.
    """

    job: ShardsToPublish
    kept: dict[str, list[KeptOfShard]] = field(default_factory=dict)
    documents: list[int] = field(default_factory=list)
    counted_by: dict[str, list[pa.Table]] = field(default_factory=dict)

    def removed_tables(self) -> Iterator[pa.Table]:
        """Yield the removed documents of each shard, and collect the decisions about the shard."""
        job = self.job
        own = [COMPONENT.name] if COMPONENT.name in unpack(job.table_schema).names else []
        for history in job.histories:
            counted = read_table(job.folder, history.shard, [*DOCUMENT_COUNTS.names, *own])
            counted = with_cut_counts(counted, load_cuts(job.folder, history))
            removed = removed_rows(
                job.folder, job.source, history, counted, job.removed_schema, job.added_to_removed
            )
            all_ids, removed_ids = (table.column("doc_id").to_numpy() for table in (counted, removed))
            kept_ids = np.setdiff1d(all_ids, removed_ids, assume_unique=True)
            self.documents.append(len(kept_ids))
            buckets = named_by_bucket(job, history, counted) if job.bucket else None
            named = counted if own or buckets is None else with_folders(buckets, job.bucket)
            in_folders = by_folder(job, named, kept_ids) if job.in_folders else {"": kept_ids}
            for folder, ids in in_folders.items():
                if len(ids):
                    part = KeptOfShard(history, ids, counts_of(counted, ids))
                    self.kept.setdefault(folder, []).append(part)
            for category, column in job.named:
                self.count(category, count_names(named_by(job, history, column, counted), removed))
            if buckets is not None:
                self.count("buckets", count_components(buckets, removed))
            if own:
                self.count("components", count_components(counted, removed))
            yield removed

    def count(self, category: str, ends: pa.Table) -> None:
        """Add the counts of a shard: ENDS."""
        waiting = self.counted_by.setdefault(category, [])
        waiting.append(ends)
        if sum(map(len, waiting)) > MOST_ROWS:
            waiting[:] = [added_up(waiting)]


def publish_shards(job: ShardsToPublish) -> PublishedShards:
    """Write the files of consecutive shards."""
    decisions = Decisions(job)
    removed = write_removed(job, decisions.removed_tables())
    files = dict(write_folders(job, decisions.kept))
    return PublishedShards(
        kept=files.pop("", None),
        removed=removed,
        by_folder=tuple(files.values()),
        documents=tuple(decisions.documents),
        counted=write_counts(job, decisions.counted_by) if decisions.counted_by else None,
    )


def write_counts(job: ShardsToPublish, counted_by: dict[str, list[pa.Table]]) -> Artifact:
    """Write the counts of the shards by category: COUNTED. Raises BadInput for too many components."""
    tables = [COUNTED.empty_table()]
    for category, waiting in sorted(counted_by.items()):
        ends = added_up(waiting)
        tables.append(ends.add_column(0, CATEGORY, pa.repeat(pa.scalar(category, CATEGORY.type), len(ends))))
    counted = pa.concat_tables(tables)
    check_names(job.source, counted)
    path = artifact_path(COUNTS, job.source, job.name, job.key)
    return write_table(job.folder, path, job.name, counted)


def named_by(job: ShardsToPublish, history: ShardHistory, column: str, counted: pa.Table) -> pa.Table:
    """Return the documents of a shard, with the values of a column of STATISTICS as `component`."""
    statistics = read_table(job.folder, history.shard, [STATISTICS]).column(STATISTICS).combine_chunks()
    names = statistics.field(column)
    return counted.select(DOCUMENT_COUNTS.names).append_column("component", names)


def named_by_bucket(job: ShardsToPublish, history: ShardHistory, counted: pa.Table) -> pa.Table:
    """Return the documents of a shard that entered the buckets, with the number of their bucket as `component`."""
    tables = load_added_columns(job.folder, history)
    numbers = next(table for table in tables if job.bucket in table.column_names)
    names = pc.utf8_lpad(numbers.column(job.bucket).cast(pa.string()), width=2, padding="0")
    ids = counted.column("doc_id").to_numpy()
    entered = counted.filter(pa.array(np.isin(ids, numbers.column("doc_id").to_numpy(), assume_unique=True)))
    return with_columns(
        entered.select(DOCUMENT_COUNTS.names),
        pa.table({"doc_id": numbers.column("doc_id"), "component": names}),
    )


def with_folders(buckets: pa.Table, column: str) -> pa.Table:
    """Return documents with the folders of their buckets as `component`: `bucket-07`."""
    folders = pc.binary_join_element_wise(column, buckets.column("component"), "-")
    return buckets.set_column(buckets.column_names.index("component"), "component", folders)


def by_folder(job: ShardsToPublish, counted: pa.Table, kept_ids: Ids) -> dict[str, Ids]:
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
    return {str(name): ids[row_places == place] for place, name in enumerate(names)}


def write_folders(job: ShardsToPublish, kept: dict[str, list[KeptOfShard]]) -> Iterator[tuple[str, Artifact]]:
    """Write the kept documents; yield the folders, sorted, and their files. kept: see `Decisions`."""
    read = partial(kept_rows, job.folder, job.source, schema=unpack(job.table_schema))
    if len(kept) == 1:
        ((folder, parts),) = kept.items()
        tables = chain.from_iterable(read(part.history, part.ids) for part in parts)
        yield folder, write_documents(job, parts, folder, tables)
    elif kept:
        by_shard = {history: dict[str, Ids]() for history in job.histories}
        for folder, parts in kept.items():
            for part in parts:
                by_shard[part.history][folder] = part.ids
        with job.folder.scratch_file() as scratch:
            for folder, rows in sorted(divide_rows(by_shard, read, scratch).items()):
                yield folder, write_documents(job, kept[folder], folder, rows)


def write_documents(
    job: ShardsToPublish, parts: list[KeptOfShard], in_folder: str, tables: Iterator[pa.Table]
) -> Artifact:
    """Write the kept documents of a file. in_folder: below the folder of the source; may be empty."""
    name = f"{in_folder}/{job.name}".removeprefix("/")
    path = artifact_path(job.stage, job.source, name, job.key)
    shard = write_rows(job, path, name, tables, total(part.counts for part in parts))
    if shard.rows != shard.counts.documents:
        raise NotConserved(f"{path}: {shard.rows:,} rows written, expected {shard.counts.documents:,}")
    return shard


def write_removed(job: ShardsToPublish, tables: Iterator[pa.Table]) -> Artifact | None:
    """Write the removed documents; return None if there are none. All tables are read."""
    removed = (table for table in tables if len(table))
    if (first := next(removed, None)) is None:
        return None
    path = artifact_path("removed", job.source, job.name, job.key)
    return write_rows(
        job, path, job.name, (table.cast(for_readers(table.schema)) for table in chain([first], removed))
    )


def write_rows(
    job: ShardsToPublish, path: str, name: str, tables: Iterator[pa.Table], counts: Counts | None = None
) -> Artifact:
    """Write tables of one schema in row groups of some MiB."""

    def fill(scratch: Path) -> None:
        with ExitStack() as stack:
            writer = None
            for table in row_groups(tables, ROW_GROUP_BYTES):
                writer = writer or stack.enter_context(parquet_writer(scratch, table.schema))
                writer.write_table(table, row_group_size=len(table))

    return write_artifact(job.folder, path, name, fill, **({"counts": counts} if counts else {}))
