"""The job that writes the contexts of a shard's repeated fingerprints, a few MiB at a time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow.parquet import ParquetFile, ParquetWriter

from zyda_flows.tasks.dedup.part_tables import PART
from zyda_flows.tasks.passages.contexts import CONTEXTS, combined_contexts, contexts_of
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
        with self.folder.scratch_file() as spool:
            with context_writer(spool, "none") as writer:
                for tables in tables_together(self.tables()):
                    self.write(writer, tables)
            with ParquetFile(spool) as spooled, context_writer(scratch, "zstd") as writer:
                for groups in groups_by_part(spooled, self.shift):
                    self.write(writer, spooled.read_row_groups(groups).drop_columns(PART.name))

    def write(self, writer: ParquetWriter, tables: pa.Table) -> None:
        """Write contexts of consecutive documents, combined, by part."""
        contexts = combined_contexts(tables)
        numbers = self.naming.parts(contexts.column("fingerprint").to_numpy())
        rows = contexts.add_column(0, PART, pa.array(numbers)).cast(CONTEXTS)
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
            ranks = self.shard.order.priority(doc_ids)
            yield from contexts_of(units, self.passages, fingerprints, doc_ids, ranks)


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


def context_writer(scratch: Path, compression: str) -> ParquetWriter:
    return parquet_writer(
        scratch,
        CONTEXTS,
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
