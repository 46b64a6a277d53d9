"""Write a file of an export: row groups of published files as JSON Lines or Parquet."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.publish.export_places import ExportedFile
from zyda_flows.tasks.quality.keep import columns_of, keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep
from zyda_flows.tasks.sources.columns import is_json
from zyda_flows.tasks.sources.json_text import plain_values
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import open_table, parquet_writer

LINES_AT_ONCE = 1 << 12
LEVEL = 3  # of zstd
IDS = ("doc_id",)  # for the errors of a condition


@dataclass(frozen=True)
class FileToExport:
    """A file of an export, which any worker can write.

    folder: the published folder. to: the folder of the export. parts: published files, each with the numbers of its
    row groups, in their order. where: SQL condition of exported rows, or None for all. rows: of the row groups.
    size: of the row groups in Parquet, in bytes.
    """

    folder: Folder
    to: Folder
    source: str
    path: str
    parts: tuple[tuple[Artifact, tuple[int, ...]], ...]
    columns: tuple[str, ...]
    as_strings: tuple[str, ...]
    where: str | None
    format: str
    rows: int
    size: int

    def __call__(self) -> ExportedFile:
        """Write the file, unless it exists and is undamaged. Raises Damaged if a published file has changed."""
        rows = self.rows
        # The number of rows that meet a condition is unknown, so the file cannot be compared with it.
        written = whole_file(self.to, self.path, self.format, rows) if self.where is None else None
        if written is None:
            with self.to.scratch_file() as scratch:
                rows = (write_lines if "jsonl" in self.format else write_parquet)(self, scratch)
                with scratch.open("rb") as file:
                    written = scratch.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
                self.to.put(scratch, self.path)
        size, digest = written
        return ExportedFile(
            path=self.path,
            source=self.source,
            rows=rows,
            not_selected=self.rows - rows,
            size=size,
            sha256=digest,
        )

    def tables(self) -> Iterator[pa.Table]:
        """Read the selected rows of the row groups with the exported columns."""
        own = columns_of(self.where) if self.where else ()
        for artifact, groups in self.parts:
            with open_table(self.folder, artifact) as parquet:
                names = parquet.schema_arrow.names
                columns = [name for name in self.columns if name in names] if self.columns else names
                for group in groups:
                    table = parquet.read_row_group(group, [*dict.fromkeys([*columns, *own, *IDS])])
                    table = self.selected(table, artifact).select(columns)
                    yield table.cast(exported_schema(table.schema, self.as_strings))

    def selected(self, table: pa.Table, artifact: Artifact) -> pa.Table:
        """Return the rows that meet the condition. Raises BadInput with the row for which it has no value."""
        if self.where is None:
            return table
        try:
            return table.filter(pa.array(keep_mask(self.where, table)))
        except BadKeep as error:
            row = f", doc_id {table.column('doc_id')[error.row]}" if error.row is not None else ""
            raise BadInput(f"--where: source {self.source}, file {artifact.path}{row}: {error}") from error


def exported_schema(schema: pa.Schema, as_strings: Collection[str]) -> pa.Schema:
    """Return a schema in which the columns of `as_strings` are strings."""
    fields = [field.with_type(pa.string()) if field.name in as_strings else field for field in schema]
    return pa.schema(fields, schema.metadata)


def write_lines(job: FileToExport, scratch: Path) -> int:
    """Write JSON Lines: an object for each row; return the number of rows.

    A column of JSON text is written as its JSON value.
    """
    rows = 0
    compressor = zstandard.ZstdCompressor(LEVEL, write_checksum=True)
    with scratch.open("wb") as raw:
        out = compressor.stream_writer(raw, closefd=False) if job.format.endswith("zst") else raw
        for table in job.tables():
            rows += len(table)
            for batch in table.to_batches(LINES_AT_ONCE):
                out.write(lines_of(batch, table.schema))
        if out is not raw:
            out.close()
    return rows


def lines_of(batch: pa.RecordBatch, schema: pa.Schema) -> bytes:
    """Return rows as lines of JSON."""
    names, columns = schema.names, []
    for field, column in zip(schema, batch.columns, strict=True):
        values = plain_values(column)
        columns.append([v and orjson.Fragment(v) for v in values] if is_json(field) else values)
    rows = zip(*columns, strict=True)
    return b"".join(orjson.dumps(dict(zip(names, row, strict=True))) + b"\n" for row in rows)


def write_parquet(job: FileToExport, scratch: Path) -> int:
    """Write Parquet; return the number of rows."""
    writer, rows = None, 0
    try:
        for table in job.tables():
            rows += len(table)
            writer = writer or parquet_writer(scratch, table.schema)
            writer.write_table(table)
    finally:
        if writer:
            writer.close()
    return rows


def whole_file(folder: Folder, path: str, kind: str, rows: int) -> tuple[int, str] | None:
    """Return the size and the SHA-256 of a file of an earlier export, None if it is missing or damaged."""
    size = folder.size_of(path)
    if not size or kind == "jsonl":  # without compression the file has no checksums
        return None
    digest = hashlib.sha256()
    try:
        with folder.open(path) as stream:
            if kind == "parquet":
                parquet = pq.ParquetFile(stream, page_checksum_verification=True)
                read_rows = sum(len(batch) for batch in parquet.iter_batches(LINES_AT_ONCE))
            else:
                raw = zstandard.ZstdDecompressor().stream_reader(stream, closefd=False)  # type: ignore[arg-type]
                read_rows = sum(block.count(b"\n") for block in iter(lambda: raw.read(1 << 20), b""))
            stream.seek(0)
            for block in iter(lambda: stream.read(8 << 20), b""):
                digest.update(block)
    except (pa.ArrowException, OSError, zstandard.ZstdError, EOFError) as error:
        warn(f"{folder.url}/{path} is damaged ({type(error).__name__}); it is written again")
        return None
    return (size, digest.hexdigest()) if read_rows == rows else None
