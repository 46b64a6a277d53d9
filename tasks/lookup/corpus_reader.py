"""A published corpus, read: rows by a value, whole folders, and where a document came from."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zyda_flows.tasks.accounts.published import PUBLISHED, TableFile, corpus_with_ids
from zyda_flows.tasks.accounts.published_files import PublishedFiles
from zyda_flows.tasks.documents.extraction import extracted
from zyda_flows.tasks.errors import BadInput, BadRequest, Damaged, Denied
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.planning.last_build import last_build, whole_register
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.listing import InputFile, load_listing
from zyda_flows.tasks.sources.reading import read
from zyda_flows.tasks.sources.register import Register
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import open_table

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
        self.files = PublishedFiles(self.folder, self.manifest)
        self.register: Register = whole_register(self.folder)

    def published(self, doc_id: int) -> pa.Table:
        """Return the row of a document that is published, if it is."""
        source, number = self.file_of(doc_id)[0], split(doc_id)[1]
        with self.explained():
            files = self.files.of_file(source, number)
        return self.rows(files, "doc_id", doc_id)

    def rows(
        self, files: Iterable[TableFile], column: str, value: int, columns: list[str] | None = None
    ) -> pa.Table:
        """Return the rows with a value in a column, from some files of the corpus."""
        tables, condition = [], pc.field(column) == pa.scalar(value, pa.uint64())
        for file in files:
            with self.opened(file) as parquet:
                tables += [table.filter(condition) for table in groups_with(parquet, column, value, columns)]
        tables = [table for table in tables if len(table)]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    def removed(self, doc_id: int) -> pa.Table:
        """Return the row of a document that was removed, if it was."""
        source = self.file_of(doc_id)[0]
        return self.rows(self.below(f"removed/{source}-{file_prefix(doc_id)}"), "doc_id", doc_id)

    def tables(self, place: str, columns: list[str]) -> Iterator[pa.Table]:
        """Read the files of a folder of the corpus, some at once, with those of the columns that they have."""
        files = self.below(f"{place}/")

        def read_columns(file: TableFile) -> pa.Table:
            with self.opened(file) as parquet:
                return parquet.read([name for name in columns if name in parquet.schema_arrow.names])

        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(files), READERS):
                yield from readers.map(read_columns, files[start : start + READERS])

    def blocks(self, place: str, columns: list[str]) -> Iterator[pa.Table]:
        """Read a folder of the corpus by row group, with those of the columns that its files have."""
        for file in self.below(f"{place}/"):
            with self.opened(file) as parquet:
                names = [name for name in columns if name in parquet.schema_arrow.names]
                for group in range(parquet.num_row_groups):
                    if parquet.metadata.row_group(group).num_rows:
                        yield parquet.read_row_group(group, names)

    def below(self, prefix: str) -> list[TableFile]:
        """Return the files of the corpus whose paths begin so. Raises Denied where their table is damaged."""
        with self.explained():
            return self.files.below(prefix)

    def places(self) -> list[str]:
        """Return the folders of the corpus. Raises Denied where their table is damaged."""
        with self.explained():
            return self.files.places()

    @contextmanager
    def opened(self, file: TableFile) -> Iterator[pq.ParquetFile]:
        """Open a published file. Raises Denied where it is damaged."""
        with self.explained(), open_table(self.folder, file.to_read(f"{PUBLISHED}/")) as parquet:
            yield parquet

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except Damaged as error:
            raise Denied(f"{error}; zyda verify --repair mends it") from error

    def file_of(self, doc_id: int) -> tuple[str, InputFile, int]:
        """Return the source, file and row of a document. Raises BadInput where there is none."""
        source, number, row = split(doc_id)
        name = next((name for name, n in self.register.sources.items() if n == source), None)
        files = self.register.files.get(name, ()) if name else ()
        if name is None or number >= len(files):
            raise BadRequest(f"{doc_id}: no document of this corpus has this id")
        return name, files[number], row

    def place(self, doc_id: int) -> Place:
        source, file, row = self.file_of(doc_id)
        return Place(doc_id=doc_id, source=source, file=file.url, row=row)

    def text(self, doc_id: int) -> str:
        """Read a document's text from its source, extracted as it was. Raises BadInput where it is no more.

        What cannot be extracted is given as it was read.
        """
        text = str(self.source_row(doc_id)[self.source_of(doc_id).text])
        if not (name := self.extractor_of(doc_id)):
            return text
        return str(extracted(pa.array([text], pa.large_string()), name).texts[0].as_py()) or text

    def extractor_of(self, doc_id: int) -> str:
        """Return the extractor of ours that made the text of a document, "" where none did."""
        steps = self.recipe.steps_of(self.source_of(doc_id).name)
        return next((step.extractor for step in steps if step.extractor), "")

    def source_of(self, doc_id: int) -> Source:
        """Return the source of a document as the recipe has it. Raises BadInput where it has it no more."""
        name = self.file_of(doc_id)[0]
        source = next((one for one in self.recipe.sources if one.name == name), None)
        if source is None:
            raise BadInput(f"the recipe has no source {name} any more")
        return source

    def located(self, source: str, file: InputFile) -> InputFile:
        """Return a file as the last build read it: at a commit, or as a copy."""
        built = last_build(self.folder)
        if built is None or source not in built.listings:
            return file
        with suppress(Damaged):
            for one in load_listing(self.folder, built.listings[source]):
                if one.number == file.number:
                    return file.model_copy(update={"location": one.location})
        return file

    def source_row(self, doc_id: int) -> dict[str, Any]:
        """Read a document's row from its source, by column. Raises BadInput where it is not there any more."""
        source, file, row = self.file_of(doc_id)
        file = self.located(source, file)
        column = self.source_of(doc_id).text
        for piece in file.pieces:
            for chunk in read(source, file, piece, column):
                places = (chunk.rows == row).nonzero()[0]
                if len(places):
                    return dict(chunk.table.slice(int(places[0]), 1).to_pylist()[0])
        raise BadRequest(f"source {source}, file {file.url}, row {row}: there is no such document")


def file_prefix(doc_id: int) -> str:
    """Return how the names of what has the documents of a document's file begin."""
    return f"{split(doc_id)[1]:06d}-"


def groups_with(
    parquet: pq.ParquetFile, column: str, value: int, columns: list[str] | None
) -> Iterator[pa.Table]:
    """Read the row groups of a file that may hold a value in a column, by their statistics."""
    place = parquet.schema_arrow.get_field_index(column)
    for i in range(parquet.num_row_groups):
        statistics = parquet.metadata.row_group(i).column(place).statistics
        if statistics is None or not statistics.has_min_max or statistics.min <= value <= statistics.max:
            yield parquet.read_row_group(i, columns)
