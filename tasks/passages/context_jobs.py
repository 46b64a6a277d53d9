"""The job that writes the contexts of a shard's repeated fingerprints, a few MiB at a time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow.parquet import ParquetFile, ParquetWriter

from zyda_flows.tasks.dedup.part_tables import PART
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.passages.contexts import CONTEXTS, combined_contexts, contexts_of
from zyda_flows.tasks.passages.ranks import documents_ranked, ranked_columns
from zyda_flows.tasks.passages.search_jobs import ShardJob
from zyda_flows.tasks.passages.units import units_of
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.parts import row_groups
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, write_artifact

HELD_BYTES = 48 << 20  # of contexts that the job holds, about


@dataclass(frozen=True)
class ContextsOfShard(ShardJob):
    """The distinct contexts of a shard's repeated fingerprints: CONTEXTS. artifacts: its RowsOfShard.

    Contexts can be many times the text: some MiB at a time are written to a local file by part, and combined part
    by part.
    """

    def make(self) -> Artifact:
        return write_artifact(self.folder, self.path, self.name, self.fill)

    def fill(self, scratch: Path) -> None:
        combined = map(combined_contexts, tables_together(self.tables()))
        first = [*islice(combined, 2)]
        if len(first) < 2:
            with context_writer(scratch, self.schema, "zstd") as writer:
                for contexts in first:
                    self.write(writer, self.ranked(contexts))
            return
        with self.folder.scratch_file() as spool:
            with context_writer(spool, CONTEXTS, "none") as writer:
                for contexts in chain(first, combined):
                    self.write(writer, contexts)
            with ParquetFile(spool) as spooled, context_writer(scratch, self.schema, "zstd") as writer:
                for groups in groups_by_part(spooled, self.shift):
                    contexts = spooled.read_row_groups(groups).drop_columns(PART.name)
                    self.write(writer, self.ranked(combined_contexts(contexts)))

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*CONTEXTS, *ranked_columns(self.passages)])

    @cached_property
    def documents(self) -> pa.Table:
        """The documents of the shard, with their ranks."""
        order = replace(self.shard.order, prefer=self.passages.preference)
        return documents_ranked(self.folder, self.shard.history.shard, order)

    def ranks(self, doc_ids: Ids) -> Ids:
        """Return numbers of documents of the shard that are smaller for preferred documents: (n,)."""
        if self.passages.is_by_source:
            return self.shard.order.priority(doc_ids)
        places = np.searchsorted(self.documents.column("doc_id").to_numpy(), doc_ids)
        return np.asarray(self.documents.column("rank").to_numpy()[places])

    def ranked(self, contexts: pa.Table) -> pa.Table:
        """Add the columns by which the best documents of contexts are ordered, if `prefer` depends on them."""
        if columns := ranked_columns(self.passages):
            ids = self.documents.column("doc_id").to_numpy()
            places = pa.array(np.searchsorted(ids, contexts.column("doc_id").to_numpy()))
            for field in columns:
                contexts = contexts.append_column(field, self.documents.column(field.name).take(places))
        return contexts

    def write(self, writer: ParquetWriter, contexts: pa.Table) -> None:
        """Write contexts by part."""
        numbers = self.naming.parts(contexts.column("fingerprint").to_numpy())
        rows = contexts.add_column(0, PART, pa.array(numbers)).cast(writer.schema)
        for group in row_groups(rows, self.shift):
            writer.write_table(group, row_group_size=len(group))

    def tables(self) -> Iterator[pa.Table]:
        """Yield the contexts of some documents at a time."""
        (repeated,) = self.artifacts
        fingerprints = np.sort(read_table(self.folder, repeated).column("fingerprint").to_numpy())
        if not len(fingerprints):
            return
        for texts, doc_ids in self.shard.batches(self.folder):
            units = units_of(texts, self.passages, self.engine)
            yield from contexts_of(units, self.passages, fingerprints, doc_ids, self.ranks(doc_ids))


def tables_together(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Concatenate consecutive tables to about HELD_BYTES."""
    held, size = list[pa.Table](), 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size > HELD_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)


def context_writer(scratch: Path, schema: pa.Schema, compression: str) -> ParquetWriter:
    return parquet_writer(
        scratch,
        schema,
        write_statistics=[PART.name],
        use_dictionary=[PART.name],
        compression=compression,
    )


def groups_by_part(parquet: ParquetFile, shift: int) -> list[list[int]]:
    """Return the row groups of each 2**shift parts, in the order of the file."""
    groups = defaultdict[int, list[int]](list)
    for number in range(parquet.num_row_groups):
        groups[parquet.metadata.row_group(number).column(0).statistics.min >> shift].append(number)
    return [groups[number] for number in sorted(groups)]
