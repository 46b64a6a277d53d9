"""Read rows of a published corpus with pyarrow: some columns of the rows that a filter keeps, in batches.

pyarrow skips the row groups and the columns that are not needed. The manifest has the size and the footer of each
file, and pages have checksums, so that the error for a damaged file names the file.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRequest, Denied, ZydaError, first_line
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import NOT_DECODED, footer_of, tables_of

BATCH_ROWS = 4096
READ_AHEAD = {"batch_readahead": 4, "fragment_readahead": 1}  # batches and files


class StoreFiles(pafs.FSSpecHandler):
    """Opens files of a store for pyarrow by `Folder`, so that failures of the store raise the errors of zyda."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder.fs)
        self.folder = folder

    def open_input_file(self, path: str) -> Any:
        name = path.removeprefix(self.folder.path("")).lstrip("/")
        return pa.PythonFile(self.folder.open(name), mode="r")


def file_system(folder: Folder) -> pafs.FileSystem:
    """Return the file system for pyarrow to read a folder; for local files pyarrow's own file system."""
    return pafs.LocalFileSystem() if folder.is_local else pafs.PyFileSystem(StoreFiles(folder))


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows of some files of a published corpus, which are read as they are used.

    files: sorted as they are read. base: the schema where there is no file.
    columns: the names of the columns to read; None means all.
    filter: an expression of pyarrow.compute over any columns.
    """

    corpus: PublishedCorpus
    files: Sequence[Artifact]
    base: pa.Schema
    columns: Sequence[str] | None = None
    filter: Any = None

    def __post_init__(self) -> None:
        self.corpus.expect_listed(self.files)
        if self.columns is not None or self.filter is not None:
            self.scanner()  # raises for an unknown column

    @cached_property
    def dataset(self) -> ds.FileSystemDataset:
        """All rows and columns of the files, as a pyarrow dataset.

        It raises errors of pyarrow for damaged files.
        """
        folder = self.corpus.folder
        reading = ds.ParquetFragmentScanOptions(
            page_checksum_verification=True, pre_buffer=not folder.is_local
        )
        files, form = file_system(folder), ds.ParquetFileFormat(default_fragment_scan_options=reading)
        fragments = [
            form.make_fragment(folder.path(file.path), files, file_size=file.size) for file in self.files
        ]
        return ds.FileSystemDataset(fragments, self.whole_schema, form, files)

    @cached_property
    def whole_schema(self) -> pa.Schema:
        """The columns of all files. All files of a source have the same columns. Raises BadRequest, Denied."""
        with self.corpus.reading():
            schemas = [
                footer_of(self.corpus.folder, file).schema.to_arrow_schema()
                for file in first_files(self.files)
            ]
        return pa.schema([*self.unified([schema.remove_metadata() for schema in schemas or [self.base]])])

    def unified(self, schemas: Sequence[pa.Schema]) -> Iterator[pa.Field]:
        """Yield each column in a type that holds the values of all sources.

        A column without such a type is left out if it was not chosen. Raises BadRequest otherwise.
        """
        for name in dict.fromkeys(name for schema in schemas for name in schema.names):
            fields = [pa.schema([schema.field(name)]) for schema in schemas if name in schema.names]
            try:
                yield pa.unify_schemas(fields, promote_options="permissive").field(0)
            except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
                if self.columns is None or name in self.columns:
                    raise BadRequest(
                        f"{self.corpus.url}: column {name} has different types in two sources; name other columns, "
                        f"or read each source by itself (sources=): {first_line(error)}"
                    ) from error

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        return self.scanner().projected_schema

    def scanner(self, columns: Sequence[str] | None = None) -> ds.Scanner:
        """Return a pyarrow scanner. Raises BadRequest if the files do not have a column."""
        chosen = self.columns if columns is None else columns
        columns = self.whole_schema.names if chosen is None else [*chosen]
        try:
            return self.dataset.scanner(
                columns=columns, filter=self.filter, batch_size=BATCH_ROWS, **READ_AHEAD
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
            known = ", ".join(self.whole_schema.names)
            raise BadRequest(
                f"{self.corpus.url}: {first_line(error).partition(' in doc_id:')[0]}; the columns are {known}"
            ) from error

    def to_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of the files, in batches. Raises Denied if a file is damaged."""
        unchecked, scanner = deque(self.files), self.scanner(columns)
        with self.damage_named(unchecked):
            for tagged in scanner.scan_batches():
                self.check_up_to(tagged.fragment.path, unchecked)
                yield tagged.record_batch
            self.check_up_to("", unchecked)

    def check_up_to(self, path: str, unchecked: deque[Artifact]) -> None:
        """Compare the footers of files with the manifest, up to `path`, or of all files."""
        folder = self.corpus.folder
        while unchecked and folder.path(unchecked[0].path) != path:
            footer_of(folder, unchecked[0])
            unchecked.popleft()
        if unchecked:
            footer_of(folder, unchecked[0])

    @contextmanager
    def damage_named(self, unread: Iterable[Artifact]) -> Iterator[None]:
        """Turn pyarrow's errors into Denied with the name of the damaged file.

        unread: the files that may be damaged; they are read again to find the damaged file.
        """
        try:
            with self.corpus.reading():
                yield
        except NOT_DECODED as error:
            if isinstance(error, ZydaError):
                raise
            with self.corpus.reading():
                for file in unread:
                    deque(tables_of(self.corpus.folder, file), maxlen=0)
            raise Denied(f"{self.corpus.url}: cannot be read: {first_line(error)}") from error

    def count_rows(self) -> int:
        """Count the rows that the filter keeps, by the footers of the files where there is no filter."""
        if self.filter is not None:
            return sum(batch.num_rows for batch in self.to_batches([]))
        with self.corpus.reading():
            return sum(footer_of(self.corpus.folder, file).num_rows for file in self.files)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the batches, as many libraries take it."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the batches to a library that reads Arrow's streams: DuckDB, polars, pandas."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def head(self, rows: int = 5) -> pa.Table:
        """Return the first rows as a table."""
        batches, left = list[pa.RecordBatch](), rows
        for batch in self.to_batches():
            batches.append(batch.slice(0, left))
            left -= batches[-1].num_rows
            if not left:
                break
        return pa.Table.from_batches(batches, self.schema)

    def to_table(self) -> pa.Table:
        """Read all rows into memory."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_pandas(self, **options: Any) -> Any:
        """Read all rows into memory as a DataFrame of pandas, which has to be installed.

        Integers of 64 bits become Int64 and UInt64, so that ids stay exact in columns with nulls.
        """
        import pandas as pd  # no dependency of ours

        exact = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
        return self.to_table().to_pandas(**({"types_mapper": exact.get} | options))

    def __repr__(self) -> str:
        return f"<rows of {len(self.files):,} files of {self.corpus.url}>"


def first_files(files: Iterable[Artifact]) -> Iterator[Artifact]:
    """Yield the first file of each source, in the folder of the source or in its folder in `removed/`."""
    return iter({source_of(file): file for file in reversed([*files])}.values())


def source_of(file: Artifact) -> str:
    folder, source, *_ = file.path.split("/")
    return f"{folder}/{source}" if folder == "removed" else folder
