"""A published corpus, read: rows by a value, whole folders, and where a document came from."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.accounts.published import PUBLISHED, corpus_with_ids
from tasks.errors import BadInput, Damaged, Denied
from tasks.ids import split
from tasks.planning.last_build import whole_register
from tasks.recipe.fields import Recipe
from tasks.sources.listing import InputFile
from tasks.sources.reading import read
from tasks.sources.register import Register
from tasks.storage.records import Record
from tasks.storage.tables import open_table

READERS = 8  # files that are read at once


class Place(Record):
    """Where a document came from."""

    doc_id: int
    source: str
    file: str
    row: int


class Corpus:
    """A published corpus, to look documents up in."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.folder, self.manifest = corpus_with_ids(recipe)
        self.files = {file.path: file for file in self.manifest.files}
        self.register: Register = whole_register(self.folder)

    def rows(self, place: str, column: str, value: int, columns: list[str] | None = None) -> pa.Table:
        """Return the rows with a value in a column, from the files of a folder of the corpus."""
        tables = []
        for path in self.files:
            if path.startswith(f"{place}/"):
                condition = pc.field(column) == pa.scalar(value, pa.uint64())
                with self.opened(path) as parquet:
                    tables += [
                        table.filter(condition) for table in groups_with(parquet, column, value, columns)
                    ]
        tables = [table for table in tables if len(table)]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    def tables(self, place: str, columns: list[str]) -> Iterator[pa.Table]:
        """Read the files of a folder of the corpus, some at once, with those of the columns that they have."""
        paths = [path for path in self.files if path.startswith(f"{place}/")]

        def read_columns(path: str) -> pa.Table:
            with self.opened(path) as parquet:
                return parquet.read([name for name in columns if name in parquet.schema_arrow.names])

        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(paths), READERS):
                yield from readers.map(read_columns, paths[start : start + READERS])

    def blocks(self, place: str, columns: list[str]) -> Iterator[pa.Table]:
        """Read a folder of the corpus by row group, with those of the columns that its files have."""
        for path in self.files:
            if path.startswith(f"{place}/"):
                with self.opened(path) as parquet:
                    names = [name for name in columns if name in parquet.schema_arrow.names]
                    for group in range(parquet.num_row_groups):
                        if parquet.metadata.row_group(group).num_rows:
                            yield parquet.read_row_group(group, names)

    @contextmanager
    def opened(self, path: str) -> Iterator[pq.ParquetFile]:
        """Open a published file. Raises Denied where it is damaged."""
        shard = self.files[path].to_read(f"{PUBLISHED}/")
        if shard is None:
            raise Denied(f"{self.folder.url}: it was published by an older version; build the corpus again")
        try:
            with open_table(self.folder, shard) as parquet:
                yield parquet
        except Damaged as error:
            raise Denied(f"{error}; zyda verify --repair mends it") from error

    def file_of(self, doc_id: int) -> tuple[str, InputFile, int]:
        """Return the source, file and row of a document. Raises BadInput where there is none."""
        source, number, row = split(doc_id)
        name = next((name for name, n in self.register.sources.items() if n == source), None)
        files = self.register.files.get(name, ()) if name else ()
        if name is None or number >= len(files):
            raise BadInput(f"{doc_id}: no document of this corpus has this id")
        return name, files[number], row

    def place(self, doc_id: int) -> Place:
        source, file, row = self.file_of(doc_id)
        return Place(doc_id=doc_id, source=source, file=file.url, row=row)

    def text(self, doc_id: int) -> str:
        """Read a document's text from its source. Raises BadInput where it is not there any more."""
        source, file, row = self.file_of(doc_id)
        column = next((one.text for one in self.recipe.sources if one.name == source), None)
        if column is None:
            raise BadInput(f"the recipe has no source {source} any more")
        for piece in file.pieces:
            for chunk in read(source, file, piece, column):
                places = (chunk.rows == row).nonzero()[0]
                if len(places):
                    return str(chunk.table.column(column)[int(places[0])].as_py())
        raise BadInput(f"source {source}, file {file.url}, row {row}: there is no such document")


def groups_with(
    parquet: pq.ParquetFile, column: str, value: int, columns: list[str] | None
) -> Iterator[pa.Table]:
    """Read the row groups of a file that may hold a value in a column, by their statistics."""
    place = parquet.schema_arrow.get_field_index(column)
    for i in range(parquet.num_row_groups):
        statistics = parquet.metadata.row_group(i).column(place).statistics
        if statistics is None or not statistics.has_min_max or statistics.min <= value <= statistics.max:
            yield parquet.read_row_group(i, columns)
