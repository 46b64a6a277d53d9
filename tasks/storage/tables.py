"""Write artifacts as Parquet tables with checksums, and verify the checksums when they are read."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cachetools import LRUCache

from zyda_flows.tasks.errors import Damaged, Denied, ZydaError, first_line
from zyda_flows.tasks.storage.artifacts import Artifact, ArtifactRecord
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import write_record
from zyda_flows.tasks.storage.stores import Stream

PART_BYTES = 32 << 20
MOST_GROUPS = 8  # row groups in a part, because values repeated by a dictionary take more memory than storage
FOOTER_CACHE_BYTES = 256 << 20
PARSED = 9  # ratio of a footer's size in memory to its size on storage: 8.9 MB for 8 x 512 row groups
# Consecutive row groups of a file: the number of the section, and the number of sections of the file.
Section = tuple[int, int]
WHOLE: Section = (0, 1)
NOT_DECODED = (pa.ArrowException, OSError, ValueError, MemoryError)
FOOTERS: LRUCache[str, pq.FileMetaData] = LRUCache(
    FOOTER_CACHE_BYTES, getsizeof=lambda footer: footer.serialized_size * PARSED
)
FOOTERS_LOCK = Lock()
ID_RANGES: LRUCache[str, tuple[int, int]] = LRUCache(1 << 16)  # by the digests of footers


def parquet_writer(scratch: Path | IO[bytes], schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """Open an artifact for writing: compressed, with a checksum for every page, and without dictionaries for texts.

    A dictionary of distinct texts saves no bytes, and makes a GPU read three times as long.
    """
    if "text" in schema.names:
        sink = pa.BufferOutputStream()
        pq.write_table(schema.empty_table(), sink)
        leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
        options = {"use_dictionary": [leaf.path for leaf in leaves if leaf.path != "text"], **options}
    return pq.ParquetWriter(
        scratch, schema, **{"compression": "zstd", "write_page_checksum": True, **options}
    )


def write_artifact(
    folder: Folder, path: str, name: str, fill: Callable[[Path], Any], **counted: Any
) -> Artifact:
    """Write an artifact with `fill(scratch)`, put it in place, then write its record.

    fill: may return the counts of the written rows, if they were unknown before.
    """
    with folder.scratch_file() as scratch:
        if isinstance(counts := fill(scratch), Counts):
            counted["counts"] = counts
        with scratch.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(-8, os.SEEK_END)  # a Parquet file ends with the footer's size (4 bytes) and "PAR1"
            footer = int.from_bytes(file.read(4), "little") + 8
            file.seek(-footer, os.SEEK_END)
            tail = file.read()
        rows, size = pq.read_metadata(scratch).num_rows, scratch.stat().st_size
        folder.put(scratch, path, read_only=True)
    artifact = Artifact.made(
        name=name, path=path, digest=digest, rows=rows, size=size, footer=footer,
        footer_digest=hashlib.sha256(tail).hexdigest(), **counted,
    )  # fmt: skip
    write_record(folder, f"{path}.json", ArtifactRecord(artifact=artifact))
    return artifact


def write_table(
    folder: Folder, path: str, name: str, table: pa.Table, group_rows: int | None = None, **counted: Any
) -> Artifact:
    """Write a narrow table as an artifact.

    group_rows: rows in a row group, pyarrow's default (a million) if None. counted: counts for its record.
    """

    def fill(scratch: Path) -> None:
        with parquet_writer(scratch, table.schema) as writer:
            writer.write_table(table, group_rows)

    return write_artifact(folder, path, name, fill, **counted)


@contextmanager
def open_decoded(folder: Folder, artifact: Artifact) -> Iterator[Stream]:
    """Open an artifact. Errors within the block become Denied or Unavailable (the store's), or Damaged."""
    try:
        stream = folder.open(artifact.path)
    except Denied as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise as_damaged(folder, artifact, "is missing") from error
        raise
    with stream:
        if (size := stream.seek(0, os.SEEK_END)) != artifact.size:
            raise as_damaged(folder, artifact, f"has {size:,} bytes, expected {artifact.size:,}")
        try:
            yield stream
        except NOT_DECODED as error:
            stream.raise_failure()
            if isinstance(error, ZydaError):
                raise
            raise as_damaged(folder, artifact, f"cannot be read: {first_line(error)}") from error


def as_damaged(folder: Folder, artifact: Artifact, fault: str) -> Damaged:
    return Damaged(f"{folder.url}/{artifact.path} {fault}", artifact.path)


class InlineParquet(pq.ParquetFile):
    """A Parquet file that is decoded in the calling thread.

    A worker has a core, and small tables are decoded faster than they are handed to other threads and back.
    """

    def read(self, columns: list[str] | None = None, **options: Any) -> pa.Table:
        return super().read(columns, **{"use_threads": False, **options})

    def read_row_group(self, i: int, columns: list[str] | None = None, **options: Any) -> pa.Table:
        return super().read_row_group(i, columns, **{"use_threads": False, **options})

    def read_row_groups(
        self, row_groups: list[int], columns: list[str] | None = None, **options: Any
    ) -> pa.Table:
        return super().read_row_groups(row_groups, columns, **{"use_threads": False, **options})


@contextmanager
def open_table(folder: Folder, artifact: Artifact) -> Iterator[pq.ParquetFile]:
    """Open an artifact; adjacent columns of a read are combined in one request to a store."""
    with open_decoded(folder, artifact) as stream:
        yield InlineParquet(
            stream,
            metadata=footer_in(folder, artifact, stream),
            pre_buffer=True,
            page_checksum_verification=True,
        )


def read_table(folder: Folder, artifact: Artifact, columns: list[str] | None = None) -> pa.Table:
    """Read an artifact, or some of its columns; a whole file is checked against its digest."""
    if columns is not None:
        with open_table(folder, artifact) as parquet:
            return parquet.read(columns)
    content = checked_content(folder, artifact)
    with open_decoded(folder, artifact):
        return InlineParquet(pa.BufferReader(in_arrow_memory(content))).read()


def checked_content(folder: Folder, artifact: Artifact) -> bytes:
    """Read a whole artifact. Raises Damaged if its bytes do not match its digest."""
    with open_decoded(folder, artifact) as stream:
        content = read_whole(stream)
    if hashlib.sha256(content).hexdigest() != artifact.digest:
        raise as_damaged(folder, artifact, "has another content than was written")
    return content


def read_whole(stream: Stream) -> bytes:
    stream.seek(0)
    return stream.read()


def in_arrow_memory(content: bytes) -> pa.Buffer:
    """Copy bytes into memory of Arrow, so that Arrow's threads can release it without Python.

    A thread that releases memory of Python at the end of the process aborts it:
    github.com/apache/arrow/issues/34314.
    """
    buffer = pa.allocate_buffer(len(content))
    np.frombuffer(buffer, np.uint8)[:] = np.frombuffer(content, np.uint8)
    return buffer


def tables_of(
    folder: Folder, artifact: Artifact, columns: list[str] | None = None, section: Section = WHOLE
) -> Iterator[pa.Table]:
    """Read an artifact, or a section of it, in parts of some MiB: a row group, or a few small row groups."""
    with open_table(folder, artifact) as parquet:
        yield from parts_of(parquet, columns, section)


def parts_of(
    parquet: pq.ParquetFile, columns: list[str] | None = None, section: Section = WHOLE
) -> Iterator[pa.Table]:
    in_section = groups_of_section(parquet, section)
    sizes = [parquet.metadata.row_group(i).total_byte_size for i in in_section]
    # The total size up to each row group, in units of PART_BYTES: row groups with the same number are a part.
    part = np.cumsum(sizes) // PART_BYTES
    for _, groups in groupby(range(len(sizes)), key=lambda group: (part[group], group // MOST_GROUPS)):
        yield parquet.read_row_groups([in_section[group] for group in groups], columns)


def sections_of(artifact: Artifact, size: int) -> list[Section]:
    """Return the sections of a file of documents that have about `size` bytes of text each."""
    sections = max(1, -(-artifact.counts.bytes // size))
    return [(number, sections) for number in range(sections)]


def groups_of_section(parquet: pq.ParquetFile | pq.FileMetaData, section: Section) -> range:
    """Return the numbers of the row groups of a section of a file."""
    number, sections = section
    groups = parquet.num_row_groups
    return range(groups * number // sections, groups * (number + 1) // sections)


def rows_between(folder: Folder, artifacts: Iterable[Artifact], first: int, last: int) -> pa.Table:
    """Read the documents from `first` to `last`, of artifacts that begin with a `doc_id` and ascend by it."""
    artifacts = list(artifacts)
    within = [artifact for artifact in artifacts if overlaps(ids_of(folder, artifact), first, last)]
    schema = footer_of(folder, (within or artifacts)[0]).schema.to_arrow_schema()
    return pa.concat_tables(
        [schema.empty_table(), *(rows_of(folder, artifact, first, last) for artifact in within)]
    )


def overlaps(ids: tuple[int, int], first: int, last: int) -> bool:
    return ids[0] <= last and ids[1] >= first


def rows_of(folder: Folder, artifact: Artifact, first: int, last: int) -> pa.Table:
    groups = [i for i, ids in ids_of_groups(footer_of(folder, artifact)) if overlaps(ids, first, last)]
    with open_table(folder, artifact) as parquet:
        table = parquet.read_row_groups(groups)
    # As uint64: with signed numbers NumPy would compare ids as floats, which cannot represent large ids exactly.
    low, high = np.searchsorted(table.column("doc_id").to_numpy(), np.array([first, last + 1], np.uint64))
    return table.slice(low, high - low)


def ids_of(folder: Folder, artifact: Artifact) -> tuple[int, int]:
    """Return the first and the last doc_id of an artifact from its footer, which is read once; (0, -1) if empty."""
    with FOOTERS_LOCK:
        if known := ID_RANGES.get(artifact.footer_digest):
            return known
    groups = [ids for _, ids in ids_of_groups(footer_of(folder, artifact))]
    bounds = (groups[0][0], groups[-1][1]) if groups else (0, -1)
    with FOOTERS_LOCK:
        ID_RANGES[artifact.footer_digest] = bounds
    return bounds


def ids_of_groups(footer: pq.FileMetaData) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield each non-empty row group of an artifact that begins with `doc_id`: its number, first and last id."""
    for number in range(footer.num_row_groups):
        statistics = footer.row_group(number).column(0).statistics
        if statistics is not None and statistics.has_min_max:
            yield number, (statistics.min, statistics.max)


def footer_of(folder: Folder, artifact: Artifact) -> pq.FileMetaData:
    """Read a file's footer once for all parts that a worker reads from the file."""
    with FOOTERS_LOCK:
        if footer := FOOTERS.get(artifact.footer_digest):
            return footer
    with open_decoded(folder, artifact) as stream:
        return footer_in(folder, artifact, stream)


def footer_in(folder: Folder, artifact: Artifact, stream: Stream) -> pq.FileMetaData:
    """Return the footer of an open artifact. Raises Damaged if it was changed."""
    with FOOTERS_LOCK:
        if footer := FOOTERS.get(artifact.footer_digest):
            return footer
    stream.seek(-artifact.footer, os.SEEK_END)
    tail = stream.read(artifact.footer)
    if hashlib.sha256(tail).hexdigest() != artifact.footer_digest:
        raise as_damaged(folder, artifact, "has another footer than was written")
    footer = pq.read_metadata(pa.BufferReader(tail))
    with FOOTERS_LOCK, suppress(ValueError):  # larger than the whole cache
        FOOTERS[artifact.footer_digest] = footer
    return footer
