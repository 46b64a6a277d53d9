"""The files of a published corpus, by need: a table of them beside the manifest, sorted by path.

A corpus may have hundreds of thousands of files. `files-*.parquet` has a row for each, in row groups whose
statistics say which paths they have, so that who looks for a document or a folder reads a few of them. The manifest
lists the table as it lists the accounts.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from zyda_flows.tasks.accounts.published import PUBLISHED, File, Published, TableFile
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import open_table

ROWS = 4096  # of a row group
SOURCES = "sources.parquet"
SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False), pa.field("sha256", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False), ("rows", pa.int64()), ("footer", pa.int64()),
        ("footer_sha256", pa.string()), ("checked_at", pa.string()),
    ]
)  # fmt: skip


def file_table(files: Iterable[File]) -> pa.Table:
    """Return the entries of files as SCHEMA, sorted by path."""
    rows = [file.model_dump(include=set(SCHEMA.names)) for file in files]
    return pa.Table.from_pylist(rows, SCHEMA).sort_by("path")


def as_parquet(table: pa.Table, rows: int | None = None) -> bytes:
    """Write a table as Parquet, with checksums of its pages; `rows` of a row group."""
    content = BytesIO()
    pq.write_table(table, content, write_page_checksum=True, row_group_size=rows, compression="zstd")
    return content.getvalue()


def rows_below(parquet: pq.ParquetFile, prefix: str, columns: list[str] | None = None) -> pa.Table:
    """Read the rows of a table that is sorted by `path` whose path begins so, from the row groups that have any."""
    tables = [parquet.schema_arrow.empty_table().select(columns or parquet.schema_arrow.names)]
    for group in range(parquet.num_row_groups):
        paths = parquet.metadata.row_group(group).column(0).statistics
        if paths is None or (paths.min[: len(prefix)] <= prefix <= paths.max):
            table = parquet.read_row_group(group, columns)
            tables.append(table.filter(pc.starts_with(table.column("path"), prefix)))
    return pa.concat_tables(tables)


def folders_in(parquet: pq.ParquetFile) -> Iterator[str]:
    """Yield the folders in a table that is sorted by `path`; read are the row groups that have several."""
    for group in range(parquet.num_row_groups):
        paths = parquet.metadata.row_group(group).column(0).statistics
        if paths is not None and folder_of(paths.min) == folder_of(paths.max):
            yield folder_of(paths.min)
        else:
            yield from map(folder_of, parquet.read_row_group(group, ["path"]).column("path").to_pylist())


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


@dataclass(frozen=True)
class PublishedFiles:
    """The files of a published corpus, without the manifest, the table and the accounts.

    place: where they are in `folder`, which is the corpus's or, with nothing, the published folder itself. Its
    methods raise Damaged where the table is not as it was published.
    """

    folder: Folder
    manifest: Published
    place: str = f"{PUBLISHED}/"

    def rows(self, prefix: str, columns: list[str] | None = None) -> pa.Table:
        """Return the entries of the files whose paths begin so: SCHEMA, or some of it."""
        with self.opened() as parquet:
            return rows_below(parquet, prefix, columns)

    def below(self, prefix: str) -> list[TableFile]:
        """Return the files whose paths begin so."""
        return self.listed(self.rows(prefix))

    def listed(self, rows: pa.Table) -> list[TableFile]:
        """Return the files of some rows of the table. Raises Damaged where one lacks a value."""
        try:
            return [TableFile(**row) for row in rows.to_pylist()]
        except ValidationError as error:
            path = f"{self.place}{self.manifest.table.path}"
            raise Damaged(
                f"{self.folder.url}/{path} lists files without their rows or footers", path
            ) from error

    def of_file(self, source: str, number: int) -> list[TableFile]:
        """Return the files with the documents of one of a source's files, in whatever folder they lie."""
        beginning = f"{number:06d}-"
        if files := self.below(f"{source}/{beginning}"):
            return files
        files = self.rows(f"{source}/")
        in_folders = files.filter(pc.match_substring_regex(files.column("path"), f"/{beginning}[^/]*$"))
        return self.listed(in_folders)

    def places(self) -> list[str]:
        """Return the folders that have files, sorted: of a source, or of a component in it."""
        with self.opened() as parquet:
            return sorted(set(folders_in(parquet)))

    def sources(self) -> pa.Table:
        """Return the files that the corpus was made of. Raises Damaged where they are not as published."""
        path = f"{self.place}{SOURCES}"
        content = self.folder.read(path)
        known = {file.sha256 for file in self.manifest.accounts if file.path == SOURCES}
        if sha256(content).hexdigest() not in known:
            raise Damaged(f"{self.folder.url}/{path} has another content than was written", path)
        return pq.read_table(pa.BufferReader(content))

    @contextmanager
    def opened(self) -> Iterator[pq.ParquetFile]:
        """Open the table of files."""
        with open_table(self.folder, self.manifest.table.to_read(self.place)) as parquet:
            yield parquet
