"""Exchange: rows that each file has for others, grouped by part, so that a task holds one part in memory.

A part is a range of names. The names of documents, and of clusters, are invertible hashes of their ids: ranges of
equal width have about equally many rows, for any ids.

Each part is read from each file: F files and P parts need F x P reads. So if there are many files, groups of about
the square root of F files are first gathered into one, for some neighbouring parts at a time, which leaves about 2
x P x sqrt(F) reads. Files with many parts are gathered, too, because their footers are large.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.part_tables import PART, PLACE, columns_of, write_numbers
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.stage.jobs import ArtifactJob, Job, Made
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import WORK, Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import rows_of_part
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record
from zyda_flows.tasks.storage.tables import footer_of, read_table

VERSION = 1
MOST_FILES = 64  # from which a part is read: more are gathered first
MOST_PARTS = 1024  # in a file: readers of a part decode the footer, 260 bytes for each part

RunOnWorkers = Callable[[Sequence[Any]], list[Any]]  # runs jobs on the workers and returns their results
Choose = Callable[[pa.Table], pa.Table]


def all_rows(table: pa.Table) -> pa.Table:
    return table


class FileList(Record):
    """Files that each job of a step reads."""

    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class Files:
    """A list of files that is stored in a record, because thousands of jobs refer to thousands of files."""

    folder: Annotated[Folder, NotInKey("where it lies")]
    path: str

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        return files_in(self)

    @property
    def rows(self) -> int:
        return sum(artifact.rows for artifact in self.artifacts)

    def part(self, number: int, choose: Choose = all_rows) -> tuple[list[pa.Table], NDArray[np.uint32]]:
        """Read a part of all files: its rows, and for each row the index of its file in the list, (n,).

        choose: returns the rows of a table to read.
        """
        tables_by_file = read_files(self.folder, self.artifacts, number, choose=choose)
        tables = [table for tables in tables_by_file for table in tables]
        if not (tables and PLACE.name in tables[0].column_names):
            return tables, places_of(tables_by_file)
        places = np.concatenate([table.column(PLACE.name).to_numpy() for table in tables])
        return [table.drop_columns(PLACE.name) for table in tables], places


def read_files(
    folder: Folder, artifacts: Sequence[Artifact], number: int, shift: int = 0, choose: Choose = all_rows
) -> list[list[pa.Table]]:
    """Read a part of some files, or 2**shift parts with this common number: the tables of each file."""

    def read(artifact: Artifact) -> list[pa.Table]:
        return [*map(choose, rows_of_part(folder, [artifact], number, shift))]

    return folder.map(read, artifacts)


def places_of(tables_by_file: Sequence[Sequence[pa.Table]], first: int = 0) -> NDArray[np.uint32]:
    """Return the index of the file of each row: (n,). first: the index of the first file."""
    sizes = [sum(map(len, tables)) for tables in tables_by_file]
    return np.repeat(np.arange(first, first + len(sizes)), sizes).astype(np.uint32)


@lru_cache(maxsize=8)
def files_in(files: Files) -> tuple[Artifact, ...]:
    file_list = read_record(files.folder, files.path, FileList)
    if file_list is None:
        raise Damaged(f"{files.folder.url}/{files.path} is missing", files.path)
    return file_list.artifacts


def list_files(folder: Folder, artifacts: Iterable[Artifact]) -> Files:
    """Write the list of files that a step reads."""
    listed = FileList(artifacts=tuple(artifacts))
    digest = digest_of([[artifact.path, artifact.digest] for artifact in listed.artifacts])
    path = f"{WORK}/files/{digest}.json"
    write_record(folder, path, listed)
    return Files(folder, path)


@dataclass(frozen=True)
class PartJob(Job[Made]):
    """The work of a step on a part, or on the rows that a file has for all parts.

    naming: of the parts. artifacts: files to read whole. shared_files: files from which its part is read. shift:
    the readers of its rows read 2**shift parts together.
    """

    version = VERSION
    stage = "clusters"

    naming: Naming
    part: int
    artifacts: tuple[Artifact, ...] = ()
    shared_files: Files | None = None
    shift: int = field(default=0, kw_only=True)

    @property
    def name(self) -> str:
        return f"{self.naming.number}-{type(self).__name__.lower()}-{self.part:05d}"

    def own_columns(self, schema: pa.Schema) -> list[Any]:
        """Read its artifacts: their columns except PART, (n,) each."""
        return columns_of([read_table(self.folder, artifact) for artifact in self.artifacts], schema)

    def part_columns(self, schema: pa.Schema) -> tuple[list[Any], NDArray[np.uint32]]:
        """Read its part of the shared files: columns except PART, and the index of each row's file, (n,) each."""
        tables, places = (
            self.shared_files.part(self.part) if self.shared_files else ([], np.zeros(0, np.uint32))
        )
        return columns_of(tables, schema), places


@dataclass(frozen=True)
class RowsByPart(PartJob[Artifact], ArtifactJob):
    """Rows of a file for other parts, or for other files, by their index in the list."""

    @abstractmethod
    def rows(self) -> pa.Table:
        """Return the rows, with PART as the first column, sorted by it."""

    def make(self) -> Artifact:
        return write_numbers(self.folder, self.path, self.name, self.rows(), self.shift)


@dataclass(frozen=True)
class GatheredRows(PartJob[Artifact], ArtifactJob):
    """The rows of some files for 2**shift neighbouring parts; `part` is their common number.

    shared_files: the files. first: the index of their first file among all files.
    """

    first: int = field(kw_only=True)

    @property
    def name(self) -> str:
        return f"{super().name}-{self.first:05d}"

    def make(self) -> Artifact:
        return write_numbers(self.folder, self.path, self.name, self.rows())

    def rows(self) -> pa.Table:
        """Return the rows, sorted by PART."""
        assert self.shared_files
        artifacts = self.shared_files.artifacts
        tables_by_file = read_files(self.folder, artifacts, self.part, self.shift)
        none = footer_of(self.folder, artifacts[0]).schema.to_arrow_schema().empty_table()
        rows = pa.concat_tables([none, *(table for tables in tables_by_file for table in tables)])
        rows = self.merged(rows.append_column(PLACE, pa.array(places_of(tables_by_file, self.first))))
        # Within a part in the order of the files, as without gathering.
        return rows.take(np.argsort(rows.column(PART.name).to_numpy(), kind="stable"))

    def merged(self, rows: pa.Table) -> pa.Table:
        """Return fewer rows with the same meaning, if a step can merge rows of several files."""
        return rows


@dataclass(frozen=True)
class Exchange:
    """The files from which parts are read: a list for each 2**shift parts, or one list for all."""

    file_lists: tuple[Files, ...]
    shift: int = 0

    @property
    def artifacts(self) -> list[Artifact]:
        return [artifact for files in self.file_lists for artifact in files.artifacts]

    def files(self, part: int) -> Files:
        return self.file_lists[part >> self.shift if len(self.file_lists) > 1 else 0]


RowsJob = TypeVar("RowsJob", bound=PartJob[Any])


def with_common_shift(jobs: Sequence[RowsJob], parts: int) -> list[RowsJob]:
    """Return jobs that write the rows of 2**shift parts together, as `gather_files` reads them. parts: in all."""
    shift = shift_of(len(jobs), parts)
    return [replace(job, shift=shift) for job in jobs]


def exchange_parts(
    jobs: Sequence[PartJob[Artifact]],
    parts: int,
    run_jobs: RunOnWorkers,
    gathering: type[GatheredRows] = GatheredRows,
) -> Exchange:
    """Run jobs that have rows for each part, and return the files from which to read the parts."""
    return gather_files(jobs[0], run_jobs(with_common_shift(jobs, parts)), parts, run_jobs, gathering)


def gather_files(
    job: PartJob[Any],
    artifacts: Sequence[Artifact],
    parts: int,
    run_jobs: RunOnWorkers,
    gathering: type[GatheredRows] = GatheredRows,
) -> Exchange:
    """Gather files if they, or their parts, are many. job: a job that made them. parts: their number of parts."""
    if not are_gathered(len(artifacts), parts):
        return Exchange((list_files(job.folder, artifacts),))
    count, shift = files_together(len(artifacts)), shift_of(len(artifacts), parts)
    firsts = range(0, len(artifacts), count)
    groups = [list_files(job.folder, artifacts[first : first + count]) for first in firsts]
    numbers = range((parts - 1 >> shift) + 1)
    made = run_jobs(
        [
            gathering(job.folder, None, job.naming, number, (), files, shift=shift, first=first)
            for number in numbers
            for first, files in zip(firsts, groups, strict=True)
        ]
    )
    file_lists = [made[at : at + len(firsts)] for at in range(0, len(made), len(firsts))]
    return Exchange(tuple(list_files(job.folder, some) for some in file_lists), shift)


def are_gathered(files: int, parts: int) -> bool:
    return files > MOST_FILES or parts > MOST_PARTS


def gathering_jobs(files: int, parts: int) -> int:
    """Return the number of jobs that `gather_files` runs."""
    if not are_gathered(files, parts):
        return 0
    return -(-files // files_together(files)) * ((parts - 1 >> shift_of(files, parts)) + 1)


def files_together(files: int) -> int:
    """Return the number of files that a job gathers into one: about the square root of all."""
    return 1 << files.bit_length() // 2


def shift_of(files: int, parts: int) -> int:
    """Return s such that 2**s parts are read together, with no more rows than a part of all files, or a file."""
    if not are_gathered(files, parts):
        return 0
    most_parts = min(MOST_PARTS, max(1, max(files, parts) // files_together(files)))
    return min(most_parts.bit_length() - 1, (parts - 1).bit_length())


def group_neighbours(artifacts: Sequence[Artifact], most_rows: int) -> list[tuple[Artifact, ...]]:
    """Group neighbouring files while a task can hold their rows."""
    groups, rows = [list[Artifact]()], 0
    for artifact in artifacts:
        rows += artifact.rows
        if groups[-1] and rows > most_rows:
            groups.append([])
            rows = artifact.rows
        groups[-1].append(artifact)
    return [tuple(group) for group in groups]
