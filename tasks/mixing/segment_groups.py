"""Gather the segments of many published files, so that an output file reads few segments.

Each output file reads from each segment. Up to MOST_SEGMENTS segments are read directly. More are first gathered:
the pieces of a group of files for some neighbouring output files are written to one segment. Then an output file
reads one segment for each group, and ids and texts pass through storage once more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.dedup.exchange import Files, files_together, list_files
from zyda_flows.tasks.mixing.scattering import PLAIN, SEGMENT, groups_of
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import footer_of, open_table, parquet_writer, write_artifact

VERSION = 1
MOST_SEGMENTS = 4096  # that an output file reads
GATHERED_BYTES = 128 << 20  # of ids or texts in a gathered segment, about


@dataclass(frozen=True)
class GatheredSegments(ArtifactJob):
    """Gather the pieces of some segments for neighbouring output files: SEGMENT, with row groups by output file.

    number: of the range of output files, each of `outputs_together` files.
    """

    stage, version = "segments", VERSION

    segments: Files
    number: int
    outputs_together: int

    @property
    def name(self) -> str:
        return f"gathered-{self.number:05d}"

    def make(self) -> Artifact:
        tables = [SEGMENT.empty_table()]
        for segment in self.segments.artifacts:
            if groups := row_groups_of(self.folder, segment, self.number, self.outputs_together):
                with open_table(self.folder, segment) as parquet:
                    tables.append(parquet.read_row_groups(groups))
        table = pa.concat_tables(tables)
        del tables
        table = table.take(pa.array(np.argsort(table.column("output").to_numpy(), kind="stable")))
        sizes = pc.binary_length(table.column("content")).to_numpy()

        def fill(scratch: Path) -> None:
            with parquet_writer(scratch, SEGMENT, **PLAIN) as writer:
                for start, stop in groups_of(table.column("output").to_numpy(), sizes):
                    writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)

        return write_artifact(self.folder, self.path, self.name, fill)


@dataclass(frozen=True)
class ListedSegments:
    """The segments that output files read: a list for each `outputs_together` files, or one list for all."""

    lists: tuple[Files, ...]
    outputs_together: int

    def of(self, output: int) -> Files:
        return self.lists[output // self.outputs_together if len(self.lists) > 1 else 0]


def row_groups_of(folder: Folder, segment: Artifact, number: int, together: int = 1) -> list[int]:
    """Return the row groups of a segment for an output file, or for the range of `together` files."""
    footer = footer_of(folder, segment)
    return [
        group
        for group in range(footer.num_row_groups)
        if footer.row_group(group).column(0).statistics.min // together == number
    ]


def outputs_together(files: int, outputs: int, size: int) -> int:
    """Return the number of output files that share row groups: 1 if segments are not gathered.

    files, outputs: numbers of segments and of output files. size: bytes in all segments.
    """
    if files <= MOST_SEGMENTS:
        return 1
    return max(1, GATHERED_BYTES * files * outputs // (max(1, size) * files_together(files)))


def gathered_segments(
    folder: Folder,
    segments: Sequence[Artifact],
    outputs: int,
    together: int,
    run_jobs: Callable[[Sequence[Any], str], list[Any]],
) -> ListedSegments:
    """Gather segments if they are many, and return what each output file reads. outputs: number of output files."""
    if len(segments) <= MOST_SEGMENTS:
        return ListedSegments((list_files(folder, segments),), 1)
    count = files_together(len(segments))
    groups = [list_files(folder, segments[at : at + count]) for at in range(0, len(segments), count)]
    numbers = range(-(-outputs // together))
    jobs = [GatheredSegments(folder, None, group, number, together) for number in numbers for group in groups]
    made = run_jobs(jobs, "gathering of segments")
    lists = [made[at : at + len(groups)] for at in range(0, len(made), len(groups))]
    return ListedSegments(tuple(list_files(folder, listed) for listed in lists), together)
