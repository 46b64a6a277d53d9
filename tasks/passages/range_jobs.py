"""The jobs of the search for repeated windows on ranges of fingerprints."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.dedup.exchange import RowsByPart
from zyda_flows.tasks.dedup.part_tables import PART, PLACE
from zyda_flows.tasks.passages.context_jobs import tables_together
from zyda_flows.tasks.passages.fingerprints import FINGERPRINTS, repeated_fingerprints
from zyda_flows.tasks.passages.large_ranges import LargeRange
from zyda_flows.tasks.passages.runs import RUNS, distinct_contexts, find_repeated
from zyda_flows.tasks.passages.search_jobs import SearchJob, write_rows
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.parts import bytes_of_part, row_groups, rows_of_part
from zyda_flows.tasks.storage.tables import parquet_writer, write_artifact

RANGE_BYTES = 128 << 20  # of contexts that a job compares in memory, about
FILE_BYTES = 64 << 20  # of distinct contexts from local files that a job compares at once


@dataclass(frozen=True)
class RepeatedOfRange(SearchJob, RowsByPart):
    """The repeated fingerprints of a range, for each shard: REPEATED."""

    def rows(self) -> pa.Table:
        (fingerprints, parties), places = self.part_columns(FINGERPRINTS)
        return repeated_fingerprints(fingerprints, parties, places, self.passages)


@dataclass(frozen=True)
class RunsOfRange(SearchJob, RowsByPart):
    """The runs of repeated windows in a range of fingerprints, for each shard: RUNS.

    More than RANGE_BYTES of contexts, for example of a notice in all documents, are compared in local files.
    """

    @property
    def files(self) -> tuple[Artifact, ...]:
        assert self.shared_files
        return self.shared_files.artifacts

    def contexts(self, number: int) -> Iterator[pa.Table]:
        """Yield the contexts of a file, with PLACE."""
        for table in rows_of_part(self.folder, [self.files[number]], self.part):
            if PLACE.name not in table.column_names:
                table = table.append_column(PLACE, pa.array(np.full(len(table), number, np.uint32)))
            yield table.drop_columns(PART.name)

    def make(self) -> Artifact:
        if sum(bytes_of_part(self.folder, artifact, self.part) for artifact in self.files) > RANGE_BYTES:
            return write_artifact(self.folder, self.path, self.name, self.fill)
        return write_rows(self, self.rows(), [PART.name], shift=self.shift, compression="zstd")

    def rows(self) -> pa.Table:
        by_file = self.folder.map(lambda number: [*self.contexts(number)], range(len(self.files)))
        tables = [table for tables in by_file for table in tables]
        contexts = distinct_contexts(tables, self.passages, inf)
        if contexts is None:
            return RUNS.empty_table()
        return by_part(pa.concat_tables(find_repeated(contexts, self.passages).rows(tables)))

    def fill(self, scratch: Path) -> None:
        options = {"write_statistics": [PART.name], "use_dictionary": [PART.name], "compression": "zstd"}
        contexts = (table for number in range(len(self.files)) for table in self.contexts(number))
        with ExitStack() as files, parquet_writer(scratch, RUNS, **options) as writer:
            large = LargeRange(
                lambda: files.enter_context(self.folder.scratch_file()), self.passages, FILE_BYTES
            )
            for runs in tables_together(large.runs(contexts)):
                for group in row_groups(by_part(runs), self.shift):
                    writer.write_table(group, row_group_size=len(group))


def by_part(runs: pa.Table) -> pa.Table:
    return runs.take(np.argsort(runs.column(PART.name).to_numpy(), kind="stable"))
