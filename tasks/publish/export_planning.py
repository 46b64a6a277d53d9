"""Plan the files of an export from the footers of the published files."""

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.accounts.published_files import folder_of
from zyda_flows.tasks.corpus.published_corpus import READERS
from zyda_flows.tasks.errors import BadInput, BadRequest, NotConserved, bad_input
from zyda_flows.tasks.publish.export_files import FileToExport, exported_schema
from zyda_flows.tasks.quality.keep import fault
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, pack
from zyda_flows.tasks.storage.tables import footer_of

FORMATS = ("jsonl.zst", "jsonl", "parquet")
NAME = re.compile(
    rf"[0-9]{{5,}}-[0-9a-f]{{12}}\.({'|'.join(map(re.escape, FORMATS))})"
)  # of an exported file

Parts = tuple[tuple[Artifact, tuple[int, ...]], ...]  # published files with numbers of row groups


class ExportOptions(Record):
    """The options of an export.

    columns, sources: empty means all. file_mib: the size of the Parquet row groups in one file. as_strings: columns
    of integers that are written as strings to JSON Lines, because many JSON readers round integers above 2^53.
    where: SQL condition of exported rows, over all published columns, or None for all rows.
    """

    format: str = "jsonl.zst"
    columns: tuple[str, ...] = ()
    as_strings: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    file_mib: float = 256
    where: str | None = None


def planned_files(
    folder: Folder, to: Folder, artifacts: dict[str, list[Artifact]], options: ExportOptions
) -> list[FileToExport]:
    """Plan the files of an export. artifacts: of each source. Raises BadInput for a column that no source has.

    The name of a file has a hash of the options and of its row groups: an equal export writes files of equal names.
    """
    every = [artifact for files in artifacts.values() for artifact in files]
    with ThreadPoolExecutor(READERS) as readers:
        read = readers.map(lambda artifact: footer_of(folder, artifact), every)
        footers = {artifact.path: footer for artifact, footer in zip(every, read, strict=True)}
    schemas = {path: footer.schema.to_arrow_schema() for path, footer in footers.items()}
    check_columns(options, schemas, artifacts)
    jobs = list[FileToExport]()
    for source, files in artifacts.items():
        for place in dict.fromkeys(folder_of(file.path) for file in files):
            in_place = [file for file in files if folder_of(file.path) == place]
            groups = grouped(in_place, footers, options.file_mib * 2**20)
            for number, (parts, rows, size) in enumerate(groups):
                content = [[artifact.digest, list(groups)] for artifact, groups in parts]
                chosen = [options.columns, options.as_strings, options.where]
                key = digest_of([options.format, *chosen, content])[:12]
                job = FileToExport(
                    folder=folder,
                    to=to,
                    source=source,
                    path=f"{place}/{number:05d}-{key}.{options.format}",
                    parts=parts,
                    columns=options.columns,
                    as_strings=options.as_strings,
                    where=options.where,
                    format=options.format,
                    rows=rows,
                    size=size,
                )
                jobs.append(job)
    return jobs


def schemas_of(jobs: Sequence[FileToExport]) -> dict[str, pa.Schema]:
    """Return the exported columns of each source."""
    schemas = dict[str, pa.Schema]()
    for job in jobs:
        if job.source not in schemas:
            whole = footer_of(job.folder, job.parts[0][0]).schema.to_arrow_schema()
            names = [name for name in job.columns if name in whole.names] if job.columns else whole.names
            schemas[job.source] = exported_schema(pa.schema(map(whole.field, names)), job.as_strings)
    return schemas


def check_columns(
    options: ExportOptions, schemas: dict[str, pa.Schema], artifacts: dict[str, list[Artifact]]
) -> None:
    """Raise BadInput for a column that a source does not have, NotConserved if its files have different columns."""
    if len(set(options.columns)) < len(options.columns):
        raise BadInput(f"--columns {','.join(options.columns)}: a column is named twice")
    if options.format not in FORMATS:
        raise BadInput(f"--format {options.format}: expected {', '.join(FORMATS)}")
    for source, files in artifacts.items():
        known = dict.fromkeys(name for file in files for name in schemas[file.path].names)
        missing = [name for name in options.columns if files and name not in known]
        if missing:
            raise bad_input(
                source, f"no column {missing[0]!r} is published; the columns are {', '.join(known)}"
            )
        if len({pack(schemas[file.path].remove_metadata()) for file in files}) > 1:
            raise NotConserved(f"source {source}: its published files have different columns")
        if files and options.where and (message := fault(options.where, schemas[files[0].path])):
            raise BadRequest(f"--where {options.where}: source {source}: {message}")
    check_strings(options, schemas.values())


def check_strings(options: ExportOptions, schemas: Iterable[pa.Schema]) -> None:
    """Raise BadInput for a column of `as_strings` that is not exported or has no integers."""
    if options.as_strings and options.format == "parquet":
        raise BadInput("--as-strings is for JSON Lines only; Parquet keeps the types of columns")
    types = dict[str, set[pa.DataType]]()
    for field in (field for schema in schemas for field in schema):
        if not options.columns or field.name in options.columns:
            types.setdefault(field.name, set()).add(field.type)
    for name in options.as_strings:
        if name not in types or not all(map(pa.types.is_integer, types[name])):
            raise BadInput(f"--as-strings {name}: expected an exported column of integers")


def grouped(
    artifacts: Iterable[Artifact], footers: dict[str, pq.FileMetaData], limit: float
) -> Iterator[tuple[Parts, int, int]]:
    """Yield row groups of files, in their order, at most `limit` bytes at once, with their rows and bytes.

    A row group above the limit is yielded alone.
    """
    parts, rows, size = list[tuple[Artifact, list[int]]](), 0, 0
    for artifact in artifacts:
        for group in range(footers[artifact.path].num_row_groups):
            footer = footers[artifact.path].row_group(group)
            group_size = sum(footer.column(i).total_compressed_size for i in range(footer.num_columns))
            if size and size + group_size > limit:
                yield as_tuples(parts), rows, size
                parts, rows, size = [], 0, 0
            if not parts or parts[-1][0] is not artifact:
                parts.append((artifact, []))
            parts[-1][1].append(group)
            rows, size = rows + footer.num_rows, size + group_size
    if parts:
        yield as_tuples(parts), rows, size


def as_tuples(parts: Iterable[tuple[Artifact, Sequence[int]]]) -> Parts:
    return tuple((artifact, tuple(groups)) for artifact, groups in parts)
