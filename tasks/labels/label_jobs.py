"""The jobs of a join that read labels: their types, and their rows by the hash of their key.

Each key has one row for some MiB of labels, so that a key of very many labels takes no more memory than others.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import GatheredRows, PartJob
from zyda_flows.tasks.dedup.part_tables import PART, run_starts
from zyda_flows.tasks.labels.label_tables import LabelColumns, check_columns, halves, naming_file
from zyda_flows.tasks.recipe.joins import Many
from zyda_flows.tasks.sources.columns import conform, unify
from zyda_flows.tasks.sources.input_files import WHOLE, FilePiece, InputFile
from zyda_flows.tasks.sources.reading import first_table, has_schema, inspect, read_table_rows, version_of
from zyda_flows.tasks.stage.jobs import ArtifactJob, RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.parts import row_groups
from zyda_flows.tasks.storage.records import Record, pack
from zyda_flows.tasks.storage.tables import parquet_writer, write_artifact

VERSION = 2
STAGE = "join"
BATCH_BYTES = 64 << 20  # of labels that are sorted at once
PIECE_BYTES = 256 << 20  # of a file, all its columns, that a job reads
KEY = pa.schema([PART, ("high", pa.uint64()), ("low", pa.uint64())])
# Each key of some labels: its first row in the file, and the number of its rows. The taken columns follow, with
# their places as names.
LABELS = pa.schema([*KEY, ("row", pa.int64()), ("rows", pa.int64())])


def columns_to_take(schema: pa.Schema) -> list[str]:
    """Return the names of the taken columns in a table of LABELS or JOINED: their places."""
    return [name for name in schema.names if name.isdecimal()]


def sorted_by_part(naming: Naming, keys: pa.Array, rows: pa.Table) -> pa.Table:
    """Return rows with their keys, by part and key; rows of equal keys remain in their order. keys: (n,)."""
    high, low = halves(keys)
    order = np.lexsort((low, high))  # parts are ranges of the first half
    columns = [naming.parts(high[order]), high[order], low[order]]
    table = rows.take(pa.array(order))
    for place, (column, key_field) in enumerate(zip(columns, KEY, strict=True)):
        table = table.add_column(place, key_field, pa.array(column))
    return table


def each_key_once(labels: pa.Table, many: Many) -> pa.Table:
    """Return LABELS with each key once. labels: sorted by key; equal keys in the order of files and rows."""
    starts = run_starts(labels.column("high").to_numpy(), labels.column("low").to_numpy())
    if len(starts) == len(labels):
        return labels
    first = labels.take(pa.array(starts))
    rows = np.add.reduceat(labels.column("rows").to_numpy(), starts)
    first = first.set_column(first.schema.get_field_index("rows"), "rows", pa.array(rows))
    if many != "max":
        return first
    groups = pa.array(np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(labels)))))
    names = columns_to_take(labels.schema)
    largest = (
        labels.select(names)
        .append_column("group", groups)
        .group_by("group", use_threads=False)
        .aggregate([(name, "max") for name in names])
        .sort_by("group")
    )
    for name in names:
        place = first.schema.get_field_index(name)
        first = first.set_column(place, first.schema.field(place), largest.column(f"{name}_max"))
    return first


@dataclass(frozen=True)
class JoinJob(PartJob[Any]):
    """A job of a join."""

    stage, version = STAGE, VERSION


@dataclass(frozen=True)
class GatheredRowsOfJoin(GatheredRows):
    """Rows of some files."""

    stage, version = STAGE, VERSION

    def make(self) -> Artifact:
        return write_artifact(self.folder, self.path, self.name, self.fill)

    def fill(self, scratch: Path) -> None:
        rows = self.rows()
        with part_writer(scratch, rows.schema) as writer:
            for group in row_groups(rows):
                writer.write_table(group)


def part_writer(scratch: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return parquet_writer(scratch, schema, write_statistics=[PART.name], use_dictionary=[PART.name])


class FileTypes(Record):
    """The columns to take of a file of labels, packed; its rows; their bytes in memory, about; and its pieces."""

    packed: str
    rows: int
    size: int
    pieces: tuple[FilePiece, ...] = (WHOLE,)


@dataclass(frozen=True)
class TypesOfFile(RecordJob[FileTypes]):
    """The types of the columns to take of a file of labels; JSON Lines are read for them.

    reader: the source that takes the columns, for messages.
    """

    stage, version, kind = STAGE, VERSION, FileTypes

    file: Annotated[InputFile, NotInKey("its identity is in the key")]
    columns: LabelColumns
    reader: Annotated[str, NotInKey("for messages")]

    @property
    def name(self) -> str:
        return "types"

    @property
    def also_in_key(self) -> Any:
        return [self.file.url, self.file.version, version_of(self.reader, self.file)]

    def make(self) -> FileTypes:
        if has_schema(self.reader, self.file):
            return self.recorded(self.by_footer())
        schemas, rows, size = list[pa.Schema](), 0, 0
        for numbers, taken, _ in label_rows(self.reader, self.file, self.columns):
            schemas.append(taken.schema)
            rows, size = rows + len(numbers), size + taken.nbytes
        return self.recorded(FileTypes(packed=pack(unify(schemas)), rows=rows, size=size))

    def by_footer(self) -> FileTypes:
        """Return the types from the first rows, and the number of rows from the file's footer, if any."""
        file = self.file
        inspected = inspect(self.reader, file, "", PIECE_BYTES, may_be_bad=False).file
        first = first_table(self.reader, file)
        with naming_file(self.reader, file):
            check_columns(self.reader, file, self.columns, first)
            taken = self.columns.taken(first)
        known = [piece.rows for piece in inspected.pieces]
        rows = sum(row or 0 for row in known) or file.size * len(first) // max(1, first.nbytes)
        size = rows * taken.nbytes // max(1, len(first))
        return FileTypes(packed=pack(taken.schema), rows=rows, size=size, pieces=inspected.pieces)


def label_rows(
    reader: str, file: InputFile, columns: LabelColumns, piece: FilePiece = WHOLE
) -> Iterator[tuple[NDArray[np.int64], pa.Table, pa.Array]]:
    """Yield the numbers of some MiB of rows, (n,), their columns to take, and their keys: (n,). Raises BadInput."""
    names = columns.names(first_table(reader, file).column_names)
    if not has_schema(reader, file):
        paths = (columns.key, *columns.paths)
        names += [name for path in paths for name in (path, path.partition(".")[0])]
    for numbers, table in read_table_rows(reader, file, [*dict.fromkeys(names)], piece):
        if not table.num_columns:  # no row of JSON Lines has a column
            table = pa.table({columns.key: pa.nulls(len(numbers))})
        with naming_file(reader, file, numbers):
            yield numbers, columns.taken(table), columns.keys(table)


@dataclass(frozen=True, kw_only=True)
class LabelsOfFile(JoinJob, ArtifactJob):
    """The rows of a piece of a file of labels by part: LABELS, and the columns to take.

    table_schema: of the columns to take, in all files. reader: the source that takes them, for messages.
    """

    file: Annotated[InputFile, NotInKey("its identity is in the key")]
    piece: FilePiece
    columns: LabelColumns
    many: Many
    table_schema: pa.Schema
    reader: Annotated[str, NotInKey("for messages")]
    part: Annotated[int, NotInKey("the output does not contain it")]

    @property
    def name(self) -> str:
        return "labels"

    @property
    def also_in_key(self) -> Any:
        return [self.file.url, self.file.version, version_of(self.reader, self.file)]

    def make(self) -> Artifact:
        return write_artifact(self.folder, self.path, self.name, self.fill)

    def fill(self, scratch: Path) -> Counts:
        """Write the rows with keys; return the number of all rows."""
        schema, counts = pa.schema([*LABELS, *self.table_schema]), Counter[str]()
        with part_writer(scratch, schema) as writer:
            for rows, keys in self.batches(counts):
                labels = each_key_once(sorted_by_part(self.naming, keys, rows), self.many)
                for group in row_groups(labels.cast(schema), self.shift):
                    writer.write_table(group)
        return Counts(documents=counts["rows"])

    def batches(self, counts: Counter[str]) -> Iterator[tuple[pa.Table, pa.Array]]:
        """Yield the rows with keys of some MiB, without these keys, and the keys; count all rows."""
        tables, all_keys, size = list[pa.Table](), list[pa.Array](), 0
        for numbers, taken, keys in label_rows(self.reader, self.file, self.columns, self.piece):
            counts["rows"] += len(numbers)
            with naming_file(self.reader, self.file):
                taken = conform(taken, self.table_schema)
            rows = pa.table({"row": numbers, "rows": np.ones(len(numbers), np.int64)})
            for field, column in zip(taken.schema, taken.columns, strict=True):
                rows = rows.append_column(field, column)
            has_key = keys.is_valid()
            tables.append(rows.filter(has_key))
            all_keys.append(keys.drop_null())
            size += tables[-1].nbytes
            if size > BATCH_BYTES:
                yield pa.concat_tables(tables), pa.concat_arrays(all_keys)
                tables, all_keys, size = [], [], 0
        if tables:
            yield pa.concat_tables(tables), pa.concat_arrays(all_keys)
