"""The table of the files of a published corpus, `files-*.parquet`, sorted by path.

A corpus may have hundreds of thousands of files. The table has a row for each file, in row groups whose statistics
have the first and the last path: looking for a document or a folder reads only a few row groups. The manifest lists
the table beside the accounts.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from zyda_flows.tasks.accounts.published import File, TableFile
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import open_table

GROUP_ROWS = 4096  # of a row group
# Of a file of documents: the number of its first input file, and the numbers of its first shard.
NAME_OF_SHARD = r"^(?P<folder>.*)/(?P<file>\d{1,9})-(?P<piece>\d{1,9})-(?P<shard>\d{1,9})-[^/]*$"
SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False), pa.field("sha256", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False), ("rows", pa.int64()), ("footer", pa.int64()),
        ("footer_sha256", pa.string()), ("text", pa.int64()), ("checked_at", pa.string()),
    ]
)  # fmt: skip


def make_file_table(files: Iterable[File]) -> pa.Table:
    """Return the entries of files as SCHEMA, sorted by path."""
    rows = [file.model_dump(include=set(SCHEMA.names)) for file in files]
    return pa.Table.from_pylist(rows, SCHEMA).sort_by("path")


def as_parquet(table: pa.Table, rows: int | None = None) -> bytes:
    """Write a table as Parquet, with checksums of its pages; `rows` of a row group."""
    content = BytesIO()
    pq.write_table(table, content, write_page_checksum=True, row_group_size=rows, compression="zstd")
    return content.getvalue()


def rows_below(parquet: pq.ParquetFile, prefix: str, columns: list[str] | None = None) -> pa.Table:
    """Read the rows whose path begins with `prefix`, from a table that is sorted by `path`."""
    tables = [parquet.schema_arrow.empty_table().select(columns or parquet.schema_arrow.names)]
    for group in range(parquet.num_row_groups):
        paths = parquet.metadata.row_group(group).column(0).statistics
        if paths is None or (paths.min[: len(prefix)] <= prefix <= paths.max):
            table = parquet.read_row_group(group, columns)
            tables.append(table.filter(pc.starts_with(table.column("path"), prefix)))
    return pa.concat_tables(tables)


def folders_in(parquet: pq.ParquetFile) -> Iterator[str]:
    """Yield the folders in a table that is sorted by `path`; row groups with one folder are not read."""
    for group in range(parquet.num_row_groups):
        paths = parquet.metadata.row_group(group).column(0).statistics
        if paths is not None and folder_of(paths.min) == folder_of(paths.max):
            yield folder_of(paths.min)
        else:
            yield from map(folder_of, parquet.read_row_group(group, ["path"]).column("path").to_pylist())


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def places_input_numbers(paths: pa.ChunkedArray, numbers: NDArray[np.int64]) -> list[list[int]]:
    """Return which files of a source may have documents of each input file, as positions in `paths`.

    A file has consecutive documents, and its name begins with its first input file. In each folder, the documents
    of an input file begin in the last file that begins before them or with them.
    """
    names = pc.extract_regex(paths, NAME_OF_SHARD).combine_chunks()
    folders, *parts = (pc.fill_null(names.field(part), "-1") for part in ("folder", "file", "piece", "shard"))
    folder = folders.dictionary_encode().indices.to_numpy()
    file, piece, shard = (part.cast(pa.int64()).to_numpy() for part in parts)
    order = np.lexsort([shard, piece, file, folder])
    begins = (2 * file + (piece + shard > 0))[order]  # even: with the first document of an input file
    bounds = [0, *(np.flatnonzero(np.diff(folder[order])) + 1).tolist(), len(order)]
    found: list[list[int]] = [[] for _ in numbers]
    for start, end in pairwise(bounds):
        first = start + np.maximum(np.searchsorted(begins[start:end], 2 * numbers, side="right") - 1, 0)
        last = start + np.searchsorted(begins[start:end], 2 * numbers + 1, side="right")
        for places, low, high in zip(found, first, last, strict=True):
            places.extend(order[low:high].tolist())
    return found


@dataclass(frozen=True)
class FileTable:
    """The table of the files of a published corpus, without the manifest, the table itself and the accounts.

    published: the published folder. table: the entry of the table in the manifest. All methods raise Damaged if the
    table is not as it was published.
    """

    published: Folder
    table: TableFile

    def rows(self, prefix: str, columns: list[str] | None = None) -> pa.Table:
        """Return the entries of the files whose paths begin with `prefix`: SCHEMA, or some of its columns."""
        with self.open() as parquet:
            return rows_below(parquet, prefix, columns)

    def below(self, prefix: str = "") -> list[TableFile]:
        """Return the files whose paths begin with `prefix`; all without it."""
        return self.listed(self.rows(prefix))

    def listed(self, rows: pa.Table) -> list[TableFile]:
        """Return the files of some rows of the table. Raises Damaged if a row lacks a value."""
        try:
            return [TableFile(**row) for row in rows.to_pylist()]
        except ValidationError as error:
            path = self.table.path
            raise Damaged(
                f"{self.published.url}/{path} lists files without their rows or footers", path
            ) from error

    def of_files(self, place: str, numbers: Iterable[int]) -> dict[int, list[TableFile]]:
        """Return the files below a folder that may have documents of input files, by the numbers of these files."""
        rows, input_numbers = self.rows(f"{place}/"), np.array(sorted(numbers), np.int64)
        found = places_input_numbers(rows.column("path"), input_numbers)
        return {
            number: self.listed(rows.take(pa.array(places, pa.int64())))
            for number, places in zip(input_numbers.tolist(), found, strict=True)
        }

    def folders(self) -> list[str]:
        """Return the folders that have files, sorted: a folder for each source, or for each component of it."""
        with self.open() as parquet:
            return sorted(set(folders_in(parquet)))

    @contextmanager
    def open(self) -> Iterator[pq.ParquetFile]:
        """Open the table as Parquet."""
        with open_table(self.published, self.table.to_read()) as parquet:
            yield parquet
