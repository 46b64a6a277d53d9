"""Export: the documents of a published corpus in files of another format, size and choice of columns.

Files are planned from the footers of what is published, and named by what they are made of: the same asked for
again is there already. `README.md` tells `datasets` how to read them. `exported.parquet` lists them with their
SHA-256, and names what the export is of. It is written last. Then files that it listed before and the export does
not have any more are removed.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from zyda_flows.tasks.accounts.published_files import as_parquet, folder_of
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, NotConserved, bad_input
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.publish.export_card import CARD, MADE_BY, export_card
from zyda_flows.tasks.publish.export_places import (
    EXPORTED,
    OF,
    TABLE,
    ExportedFile,
    ExportOf,
    expect_elsewhere,
    expect_no_corpus,
    listed_before,
)
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.columns import is_json
from zyda_flows.tasks.sources.json_text import plain_values
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, pack
from zyda_flows.tasks.storage.scratch import SCRATCH
from zyda_flows.tasks.storage.tables import footer_of, open_table, parquet_writer
from zyda_flows.tasks.words import counted

FORMATS = ("jsonl.zst", "jsonl", "parquet")
READERS = 8
LINES_AT_ONCE = 1 << 12
LEVEL = 3  # of zstd


class ExportOptions(Record):
    """What is asked for. columns, sources: all where there are none. file_mib: of Parquet, in one file.

    as_strings: columns of integers that JSON Lines get as strings, because many readers of JSON round above 2^53.
    """

    format: str = "jsonl.zst"
    columns: tuple[str, ...] = ()
    as_strings: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    file_mib: float = 256


@dataclass(frozen=True)
class FileToExport:
    """One file to write, on whichever worker: row groups of published files, in their order.

    parts: files with numbers of row groups. size: of these in Parquet, in bytes.
    """

    folder: Folder
    to: Folder
    source: str
    path: str
    parts: tuple[tuple[Artifact, tuple[int, ...]], ...]
    columns: tuple[str, ...]
    as_strings: tuple[str, ...]
    format: str
    rows: int
    size: int

    def __call__(self) -> ExportedFile:
        """Write it, unless it is there whole. Raises Damaged where what is published is not as it was."""
        found = whole_file(self.to, self.path, self.format, self.rows)
        if found is None:
            with self.to.scratch_file() as scratch:
                write_lines(self, scratch) if "jsonl" in self.format else write_parquet(self, scratch)
                with scratch.open("rb") as file:
                    found = scratch.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
                self.to.put(scratch, self.path)
        return ExportedFile(
            path=self.path, source=self.source, rows=self.rows, size=found[0], sha256=found[1]
        )

    def tables(self) -> Iterator[pa.Table]:
        """Read what goes into it, by row group."""
        for artifact, groups in self.parts:
            with open_table(self.folder, artifact) as parquet:
                names = parquet.schema_arrow.names
                columns = [name for name in self.columns if name in names] if self.columns else names
                for group in groups:
                    table = parquet.read_row_group(group, columns).select(columns)
                    yield table.cast(exported_schema(table.schema, self.as_strings))


def exported_schema(schema: pa.Schema, as_strings: Collection[str]) -> pa.Schema:
    """Return the types in which columns are exported: their own, or strings."""
    fields = [one.with_type(pa.string()) if one.name in as_strings else one for one in schema]
    return pa.schema(fields, schema.metadata)


def write_lines(job: FileToExport, scratch: Path) -> None:
    """Write JSON Lines: a row an object, with all its columns, of which JSON text is written as the value it is."""
    compressor = zstandard.ZstdCompressor(LEVEL, write_checksum=True)
    with scratch.open("wb") as raw:
        out = compressor.stream_writer(raw, closefd=False) if job.format.endswith("zst") else raw
        for table in job.tables():
            for batch in table.to_batches(LINES_AT_ONCE):
                out.write(lines_of(batch, table.schema))
        if out is not raw:
            out.close()


def lines_of(batch: pa.RecordBatch, schema: pa.Schema) -> bytes:
    """Write rows as lines of JSON."""
    names, values = schema.names, []
    for field, column in zip(schema, batch.columns, strict=True):
        of_rows = plain_values(column)
        values.append([v and orjson.Fragment(v) for v in of_rows] if is_json(field) else of_rows)
    rows = zip(*values, strict=True)
    return b"".join(orjson.dumps(dict(zip(names, row, strict=True))) + b"\n" for row in rows)


def write_parquet(job: FileToExport, scratch: Path) -> None:
    writer = None
    try:
        for table in job.tables():
            writer = writer or parquet_writer(scratch, table.schema)
            writer.write_table(table)
    finally:
        if writer:
            writer.close()


def whole_file(folder: Folder, path: str, kind: str, rows: int) -> tuple[int, str] | None:
    """Return the size and the SHA-256 of a file that was exported before, None where it is not there whole."""
    size = folder.size_of(path)
    if not size or kind == "jsonl":  # which has no checksums, so that nobody could tell
        return None
    digest = hashlib.sha256()
    try:
        with folder.open(path) as stream:
            if kind == "parquet":
                parquet = pq.ParquetFile(stream, page_checksum_verification=True)
                found = sum(len(batch) for batch in parquet.iter_batches(LINES_AT_ONCE))
                stream.seek(0)
            else:
                raw = (
                    zstandard.ZstdDecompressor().stream_reader(stream, closefd=False)  # type: ignore[arg-type]
                    if kind.endswith("zst")
                    else stream
                )
                found = sum(block.count(b"\n") for block in iter(lambda: raw.read(1 << 20), b""))
                stream.seek(0)
            for block in iter(lambda: stream.read(8 << 20), b""):
                digest.update(block)
    except (pa.ArrowException, OSError, zstandard.ZstdError, EOFError) as error:
        warn(f"{folder.url}/{path} is not whole ({type(error).__name__}); it is written again")
        return None
    return (size, digest.hexdigest()) if found == rows else None


class Export:
    """An export of the corpus that is published now. jobs: the files that are still to be written.

    verify: whether files that are there are read, and compared with their digests. replace: whether an export of
    something else in the same folder is removed.

    Raises BadInput for columns or sources that it does not have, and for a folder with an export of something else,
    and Denied where nothing is published.
    """

    def __init__(
        self,
        recipe: Recipe,
        to: Folder,
        options: ExportOptions,
        *,
        verify: bool = False,
        replace: bool = False,
    ) -> None:
        self.corpus = PublishedCorpus.of(recipe)
        self.to, self.options = to, options
        expect_elsewhere(recipe, to)
        to.check_writable()
        files = self.files_to_read()
        with self.corpus.reading():
            planned = planned_files(self.corpus.folder, to, files, options)
            self.schemas = schemas_of(planned)
        expect_no_corpus(to, {folder_of(job.path) for job in planned})
        self.of = ExportOf(
            corpus=self.corpus.root.url, format=options.format, columns=options.columns,
            as_strings=options.as_strings, sources=options.sources,
        )  # fmt: skip
        listed, of_before = listed_before(to)
        if listed and not replace and not (of_before and self.of.keeps(of_before)):
            raise BadInput(
                f"--to {to.url}: {counted(len(listed), 'file')} of another export are there "
                f"({of_before or 'unknown'}); choose another folder, or give --replace, which removes them"
            )
        before = {one.path: one for one in listed}
        sizes = {path: int(info["size"]) for path, info in to.listed("").items()} if before else {}
        self.before = before
        sized = [
            before[job.path]
            for job in planned
            if job.path in before and sizes.get(job.path) == before[job.path].size
        ]
        self.done = [
            one for one in sized if not verify or to.difference(one.path, one.size, one.sha256) is None
        ]
        self.refused = [one.path for one in sized if one not in self.done]
        there = {one.path for one in self.done}
        self.jobs = [job for job in planned if job.path not in there]

    def files_to_read(self) -> dict[str, list[Artifact]]:
        """Return the published files of each chosen source. Raises BadInput where there is none of a name."""
        known = self.corpus.manifest.ledger.sources
        for name in self.options.sources:
            if name not in known:
                raise BadInput(
                    f"--source {name}: the corpus has no such source; there are {', '.join(known)}"
                )
        return {name: self.corpus.artifacts(f"{name}/") for name in self.options.sources or known}

    def write(self, spread: Callable[[Sequence[FileToExport]], Iterable[ExportedFile]]) -> list[ExportedFile]:
        """Write what is to be written, then the table; let go of what an export before wrote and this one has not.

        spread: calls each, on whichever worker. Raises NotConserved where rows are missing, and Denied where the
        corpus was published anew meanwhile: then what is whole is kept for the next.
        """
        for path in self.refused:
            self.to.remove(path)
        with self.corpus.reading():
            files = [*self.done, *spread(self.jobs)]
        files.sort(key=lambda file: file.path)
        self.check(files)
        self.write_card(files)
        rows = [file.model_dump() for file in files]
        schema = EXPORTED.with_metadata({OF: self.of.model_dump_json()})
        table = as_parquet(pa.Table.from_pylist(rows, schema))
        self.to.write(TABLE, table)
        for path in self.before.keys() - {file.path for file in files}:
            self.to.remove(path)
        emptied = {folder_of(path) for path in self.before} - {folder_of(file.path) for file in files}
        for place in (SCRATCH, *sorted(emptied, reverse=True)) if self.to.is_local else ():
            with suppress(OSError):  # something else is there, or another is writing
                Path(self.to.path(place)).rmdir()
        return files

    def write_card(self, files: Sequence[ExportedFile]) -> None:
        """Write README.md, unless another file of that name is there."""
        before = self.to.read_if_there(CARD)
        if before is None or MADE_BY.encode() in before:
            nested = sorted({file.source for file in files if file.path.count("/") > 1})
            documents = sum(file.rows for file in files)
            card = export_card(
                self.corpus.manifest.corpus, documents, self.options.format, self.schemas, nested
            )
            self.to.write(CARD, card.encode())

    def check(self, files: Sequence[ExportedFile]) -> None:
        last = self.corpus.manifest.ledger.stages[-1]
        for source in self.options.sources or self.corpus.manifest.ledger.sources:
            rows = sum(file.rows for file in files if file.source == source)
            if rows != (expected := self.corpus.manifest.ledger.of(last, source).documents):
                raise NotConserved(
                    f"source {source}: {rows:,} documents were exported, and {expected:,} are published"
                )


def planned_files(
    folder: Folder, to: Folder, artifacts: dict[str, list[Artifact]], options: ExportOptions
) -> list[FileToExport]:
    """Plan the files of an export. Raises BadInput for a column that no source has."""
    every = [one for of_source in artifacts.values() for one in of_source]
    with ThreadPoolExecutor(READERS) as readers:
        footers = dict(
            zip(
                (one.path for one in every),
                readers.map(lambda one: footer_of(folder, one), every),
                strict=True,
            )
        )
    check_columns(
        options, {path: footer.schema.to_arrow_schema() for path, footer in footers.items()}, artifacts
    )
    jobs = list[FileToExport]()
    for source, of_source in artifacts.items():
        places = dict.fromkeys(folder_of(one.path) for one in of_source)
        for place in places:
            in_place = [one for one in of_source if folder_of(one.path) == place]
            for number, (parts, rows, size) in enumerate(
                grouped(in_place, footers, options.file_mib * 2**20)
            ):
                made_of = [[artifact.digest, list(groups)] for artifact, groups in parts]
                key = digest_of([options.format, options.columns, options.as_strings, made_of])[:12]
                path = f"{place}/{number:05d}-{key}.{options.format}"
                jobs.append(
                    FileToExport(
                        folder=folder,
                        to=to,
                        source=source,
                        path=path,
                        parts=parts,
                        columns=options.columns,
                        as_strings=options.as_strings,
                        format=options.format,
                        rows=rows,
                        size=size,
                    )
                )
    return jobs


def schemas_of(jobs: Sequence[FileToExport]) -> dict[str, pa.Schema]:
    """Return the columns that are exported of each source."""
    first = {job.source: job for job in reversed(jobs)}
    schemas = dict[str, pa.Schema]()
    for job in dict.fromkeys(job.source for job in jobs):
        one = first[job]
        whole = footer_of(one.folder, one.parts[0][0]).schema.to_arrow_schema()
        names = [name for name in one.columns if name in whole.names] if one.columns else whole.names
        chosen = pa.schema([whole.field(name) for name in names])
        schemas[job] = exported_schema(chosen, one.as_strings)
    return schemas


def check_columns(
    options: ExportOptions, schemas: dict[str, pa.Schema], artifacts: dict[str, list[Artifact]]
) -> None:
    """Raise BadInput for a column that a source has not, and NotConserved where its files differ in theirs."""
    if len(set(options.columns)) < len(options.columns):
        raise BadInput(f"--columns {','.join(options.columns)}: one is named twice")
    if options.format not in FORMATS:
        raise BadInput(f"--format {options.format}: there are {', '.join(FORMATS)}")
    for source, of_source in artifacts.items():
        known = dict.fromkeys(name for one in of_source for name in schemas[one.path].names)
        missing = [name for name in options.columns if of_source and name not in known]
        if missing:
            raise bad_input(source, f"no column {missing[0]!r} is published; there are {', '.join(known)}")
        if len({pack(schemas[one.path].remove_metadata()) for one in of_source}) > 1:
            raise NotConserved(f"source {source}: its published files have different columns")
    check_strings(options, schemas.values())


def check_strings(options: ExportOptions, schemas: Iterable[pa.Schema]) -> None:
    """Raise BadInput for a column that cannot be written as strings."""
    kinds = [
        (one.name, one.type)
        for schema in schemas
        for one in schema
        if not options.columns or one.name in options.columns
    ]
    for name in options.as_strings:
        found = [kind for known, kind in kinds if known == name]
        if options.format == "parquet":
            raise BadInput("--as-strings: that is for JSON Lines; Parquet keeps the types of columns")
        if not found or not all(map(pa.types.is_integer, found)):
            raise BadInput(f"--as-strings {name}: expected an exported column of integers")


def grouped(
    artifacts: Iterable[Artifact], footers: dict[str, pq.FileMetaData], limit: float
) -> Iterator[tuple[tuple[tuple[Artifact, tuple[int, ...]], ...], int, int]]:
    """Yield row groups of some files, in their order, as many as have `limit` bytes; with their rows and bytes."""
    parts, rows, size = list[tuple[Artifact, tuple[int, ...]]](), 0, 0
    for artifact in artifacts:
        groups = list[int]()
        for group in range(footers[artifact.path].num_row_groups):
            footer = footers[artifact.path].row_group(group)
            of_group = sum(footer.column(i).total_compressed_size for i in range(footer.num_columns))
            if size and size + of_group > limit:
                yield (*parts, *([(artifact, tuple(groups))] if groups else [])), rows, size
                parts, groups, rows, size = [], [], 0, 0
            groups.append(group)
            rows, size = rows + footer.num_rows, size + of_group
        if groups:
            parts.append((artifact, tuple(groups)))
    if parts:
        yield tuple(parts), rows, size
