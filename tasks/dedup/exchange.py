"""Exchange: rows that many files have for each other, by part, so that a task has one part of them in memory.

A part is a range of names. The names of documents, and of clusters, are hashes of their ids that can be undone:
ranges of one width have about as many rows, whatever the ids are.

Each part is read from each file: F files and P parts are F x P reads. So where there are many files, about the root
of F are first gathered to one, for some neighbouring parts at a time, and about 2 x P x root of F reads are left.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.ids import Ids, hash_ids, ids_of_hashes
from zyda_flows.tasks.stage.jobs import ArtifactJob, Job, Made
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import WORK, Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import rows_of_part, write_parts
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record
from zyda_flows.tasks.storage.tables import footer_of, parquet_writer, read_table, write_artifact

VERSION = 1
PART_ROWS = 6 << 20  # in one part at the most, about: 1.2 GiB of memory where all are of clusters of two
MOST_FILES = 64  # that a part is read from: more are gathered first
# Between the ids of one round and of the next: odd, so that all rounds are different.
STEP = 0x9E3779B97F4A7C15
PART = pa.field("part", pa.uint32())
PLACE = pa.field("place", pa.uint32())  # of the file that a row was gathered from, in the list of all

Spread = Callable[[Sequence[Any]], list[Any]]  # makes what some jobs make, on whichever workers


@dataclass(frozen=True)
class Naming:
    """How documents are named in a round, by its number, and the 2**bits parts that names are cut into."""

    number: int
    bits: int

    @classmethod
    def of_rows(cls, rows: int, number: int = 0) -> "Naming":
        """Return a naming with as many parts as so many rows need."""
        return cls(number, (rows // PART_ROWS).bit_length())

    def names(self, ids: Ids) -> Ids:
        """Name documents: (n,) to (n,)."""
        return hash_ids(ids + self.offset)

    def ids(self, names: Ids) -> Ids:
        """Return the documents that are named so: (n,) to (n,)."""
        return np.asarray(ids_of_hashes(names) - self.offset)

    def parts(self, names: Ids) -> NDArray[np.uint32]:
        """Return the part that each name belongs to, ascending as names are: (n,) to (n,)."""
        # In two steps: NumPy leaves a number that is shifted by all of its 64 bits as it is.
        return (names >> np.uint64(63 - self.bits) >> np.uint64(1)).astype(np.uint32)

    @property
    def offset(self) -> np.uint64:
        return np.uint64(self.number * STEP % (1 << 64))

    @property
    def numbers(self) -> range:
        """The numbers of all parts."""
        return range(1 << self.bits)


class FileList(Record):
    """Files that each job of a step reads."""

    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class Files:
    """A list of files, by the record in which it stands: jobs by the thousand name files by the thousand."""

    folder: Annotated[Folder, NotInKey("where it lies")]
    path: str

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        return files_in(self)

    @property
    def rows(self) -> int:
        return sum(artifact.rows for artifact in self.artifacts)

    def part(self, number: int) -> tuple[list[pa.Table], NDArray[np.uint32]]:
        """Read a part of all files: its rows, and for each the place of its file in the list, (n,)."""
        of_files = read_files(self.folder, self.artifacts, number)
        tables = [table for tables in of_files for table in tables]
        if not (tables and PLACE.name in tables[0].column_names):
            return tables, places_of(of_files)
        places = np.concatenate([table.column(PLACE.name).to_numpy() for table in tables])
        return [table.drop_columns(PLACE.name) for table in tables], places


def read_files(
    folder: Folder, artifacts: Sequence[Artifact], number: int, shift: int = 0
) -> list[list[pa.Table]]:
    """Read a part of some files, or of them the 2**shift parts of a number: the tables of each file."""

    def read(artifact: Artifact) -> list[pa.Table]:
        return [*rows_of_part(folder, [artifact], number, shift)]

    return folder.map(read, artifacts)


def places_of(of_files: Sequence[Sequence[pa.Table]], first: int = 0) -> NDArray[np.uint32]:
    """Return for each row the place of its file, of which that of the first is given: (n,)."""
    sizes = [sum(map(len, tables)) for tables in of_files]
    return np.repeat(np.arange(first, first + len(sizes)), sizes).astype(np.uint32)


@lru_cache(maxsize=8)
def files_in(files: Files) -> tuple[Artifact, ...]:
    file_list = read_record(files.folder, files.path, FileList)
    if file_list is None:
        raise Damaged(f"{files.folder.url}/{files.path} is gone", files.path)
    return file_list.artifacts


def list_files(folder: Folder, artifacts: Iterable[Artifact]) -> Files:
    """Write down which files a step reads."""
    listed = FileList(artifacts=tuple(artifacts))
    digest = digest_of([[artifact.path, artifact.digest] for artifact in listed.artifacts])
    path = f"{WORK}/files/{digest}.json"
    write_record(folder, path, listed)
    return Files(folder, path)


@dataclass(frozen=True)
class PartJob(Job[Made]):
    """The work of a step on one part, or on what one file has for all parts.

    naming: that of the parts. artifacts: to read whole. shared_files: those of which it reads its part. shift: of
    what it writes, 2**shift parts are read together.
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
        """Read its own files: their columns but PART, (n,) each."""
        return columns_of([read_table(self.folder, artifact) for artifact in self.artifacts], schema)

    def part_columns(self, schema: pa.Schema) -> tuple[list[Any], NDArray[np.uint32]]:
        """Read its part of all files: their columns but PART, (n,) each, and the place of each row's file, (n,)."""
        tables, places = (
            self.shared_files.part(self.part) if self.shared_files else ([], np.zeros(0, np.uint32))
        )
        return columns_of(tables, schema), places


@dataclass(frozen=True)
class RowsByPart(PartJob[Artifact], ArtifactJob):
    """Rows that a file has for other parts, or for other files, by their places in their list."""

    @abstractmethod
    def rows(self) -> pa.Table:
        """Return them, PART first, sorted by it."""

    def make(self) -> Artifact:
        return write_numbers(self.folder, self.path, self.name, self.rows(), self.shift)


@dataclass(frozen=True)
class GatheredRows(PartJob[Artifact], ArtifactJob):
    """What some files have for 2**shift neighbouring parts, of which `part` is the number.

    shared_files: all files, of which these are `count` from the `first` on.
    """

    first: int = field(kw_only=True)
    count: int = field(kw_only=True)

    @property
    def name(self) -> str:
        return f"{super().name}-{self.first:05d}"

    def make(self) -> Artifact:
        assert self.shared_files
        artifacts = self.shared_files.artifacts[self.first : self.first + self.count]
        of_files = read_files(self.folder, artifacts, self.part, self.shift)
        none = footer_of(self.folder, artifacts[0]).schema.to_arrow_schema().empty_table()
        rows = pa.concat_tables([none, *(table for tables in of_files for table in tables)])
        rows = rows.append_column(PLACE, pa.array(places_of(of_files, self.first)))
        # Within a part in the order of the files, as without gathering.
        rows = rows.take(np.argsort(rows.column(PART.name).to_numpy(), kind="stable"))
        return write_numbers(self.folder, self.path, self.name, rows)


@dataclass(frozen=True)
class Exchange:
    """The files that parts are read from: for each 2**shift parts their own, or the same for all."""

    of_parts: tuple[Files, ...]
    shift: int = 0

    def files(self, part: int) -> Files:
        return self.of_parts[part >> self.shift if len(self.of_parts) > 1 else 0]


RowsJob = TypeVar("RowsJob", bound=PartJob[Any])


def written_together(jobs: Sequence[RowsJob], parts: int) -> list[RowsJob]:
    """Have jobs that make rows for so many parts write as many parts together as `gathered` reads together."""
    shift = shift_of(len(jobs), parts)
    return [replace(job, shift=shift) for job in jobs]


def exchanged(jobs: Sequence[RowsByPart], parts: int, spread: Spread) -> Exchange:
    """Make the rows that jobs have for so many parts, and return the files to read each part from."""
    return gathered(jobs[0], spread(written_together(jobs, parts)), parts, spread)


def gathered(one: PartJob[Any], artifacts: Sequence[Artifact], parts: int, spread: Spread) -> Exchange:
    """Gather files, where they are many. one: of the jobs that made them. parts: how many they have rows for."""
    files = list_files(one.folder, artifacts)
    if len(artifacts) <= MOST_FILES:
        return Exchange((files,))
    count, shift = files_together(len(artifacts)), shift_of(len(artifacts), parts)
    firsts = range(0, len(artifacts), count)
    numbers = range((parts - 1 >> shift) + 1)
    made = spread(
        [
            GatheredRows(
                one.folder, None, one.naming, number, (), files, shift=shift, first=first, count=count
            )
            for number in numbers
            for first in firsts
        ]
    )
    of_parts = [made[at : at + len(firsts)] for at in range(0, len(made), len(firsts))]
    return Exchange(tuple(list_files(one.folder, some) for some in of_parts), shift)


def files_together(files: int) -> int:
    """Return how many of so many files are gathered to one: about their root."""
    return 1 << files.bit_length() // 2


def shift_of(files: int, parts: int) -> int:
    """Return s, where 2**s parts of so many files are read together: no more rows than a part of all files has."""
    if files <= MOST_FILES:
        return 0
    return min(max(1, files // files_together(files)).bit_length() - 1, (parts - 1).bit_length())


def columns_of(tables: Sequence[pa.Table], schema: pa.Schema) -> list[Any]:
    """Return the columns of some tables but PART: (n,) each."""
    rows = pa.concat_tables([schema.empty_table(), *tables])
    return [rows.column(name).to_numpy() for name in schema.names if name != PART.name]


def table_of(schema: pa.Schema, *columns: Any) -> pa.Table:
    return pa.table([pa.array(column) for column in columns], schema=schema)


def write_numbers(folder: Folder, path: str, name: str, rows: pa.Table, shift: int = 0) -> Artifact:
    """Write columns of hashes, which nothing makes smaller; 2**shift parts together where they have PART."""
    repeated = [column for column in (PART.name, PLACE.name) if column in rows.column_names]
    options = {"compression": "none", "use_dictionary": repeated or False}

    def fill(scratch: Path) -> None:
        if repeated:
            write_parts(scratch, rows, shift=shift, **options)
        else:
            with parquet_writer(scratch, rows.schema, **options) as writer:
                writer.write_table(rows)

    return write_artifact(folder, path, name, fill)


def run_starts(*columns: Any) -> NDArray[np.int64]:
    """Return the place at which each run of rows begins that are equal in some columns: (n,) each to (m,)."""
    is_first = np.ones(len(columns[0]), np.bool_)
    is_first[1:] = False
    for column in columns:
        is_first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_first)


def place_among(known: Ids, wanted: Ids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the place of each wanted name among those known, ascending, and whether it is there: (n,) twice."""
    places = np.searchsorted(known, wanted)
    places[places == len(known)] = 0
    return places, known[places] == wanted if len(known) else np.zeros(len(wanted), np.bool_)
