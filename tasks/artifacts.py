"""What the stages leave on storage, and how a later run knows that it is there.

An artifact is one Parquet file that a stage wrote for one shard. Its name carries a key: a hash of
the stage, its version, the parameters that change its content and the digests of what it was made
from. Beside it, written after it, lies a small JSON record with its digest and its counts: where
both are, the artifact is finished and is never made again.

What is read is checked, for disks and people change files: a file's size and the hash of its footer
against its record, each page against its checksum, a file that is read whole against its digest, a
record against a hash of its own. What is not as it was written raises Damaged; `forget` removes it with
all that says it is finished, so that it is made again.

Keys follow content, not time: a stage that is run again and writes the same bytes leaves the keys
of everything after it as they were.

The manifest of a stage lists the records of all its shards. Through Prefect and Dask travels only
a `Done`: where the manifest is, its identity, and the counts for the ledger.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cachetools import LRUCache
from pydantic import BaseModel, ConfigDict

from tasks.errors import Damaged, Denied, ZydaError
from tasks.log import warn
from tasks.recipe import Recipe
from tasks.storage import Folder, Stream

WORK = "work"
MANIFESTS = f"{WORK}/manifests"
PART_BYTES = 32 << 20
FOOTER_CACHE_BYTES = 256 << 20
PARSED = 9  # times its size on storage that a footer takes in memory: 8.9 MB of 8 x 512 row groups
SEAL = b'{"sha256":"'
NOT_DECODED = (pa.ArrowException, OSError, ValueError, MemoryError)


class Record(BaseModel):
    """A frozen JSON value of ours."""

    model_config = ConfigDict(frozen=True)


Sealed = TypeVar("Sealed", bound=Record)


class Counts(Record):
    """Documents, tokens and UTF-8 bytes of text."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            documents=self.documents + other.documents,
            tokens=self.tokens + other.tokens,
            bytes=self.bytes + other.bytes,
        )

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(
            documents=self.documents - other.documents,
            tokens=self.tokens - other.tokens,
            bytes=self.bytes - other.bytes,
        )


def total(counts: Iterable[Counts]) -> Counts:
    return sum(counts, Counts())


class Shard(Record):
    """One artifact: `path` is relative to the corpus, `digest` is the SHA-256 of its bytes.

    `size` is in bytes, `footer` of them at its end, whose hash is `footer_digest`. `counts` are of the
    documents that stay, `removed` of those that this artifact says go.
    """

    name: str
    path: str
    digest: str
    rows: int
    size: int
    footer: int
    footer_digest: str
    counts: Counts = Counts()
    removed: Counts = Counts()


class Manifest(Record):
    """All the artifacts of a stage, in the order of their names, and what they add up to.

    `intermediate` are the paths of others that were made on the way, and save work the next time.
    """

    stage: str
    source: str | None = None
    shards: tuple[Shard, ...] = ()
    entering: Counts = Counts()
    out: Counts = Counts()
    removed: Counts = Counts()
    set_aside: Counts = Counts()
    facts: dict[str, Any] = {}
    intermediate: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """A hash of the content: what the keys of the stages after this one are made from."""
        content = [(shard.name, shard.digest) for shard in self.shards]
        return digest_of([self.stage, self.source, content, self.facts])


class Done(Record):
    """The receipt of a finished stage: small enough to travel."""

    stage: str
    source: str | None
    key: str
    path: str
    identity: str
    entering: Counts
    out: Counts
    removed: Counts
    set_aside: Counts

    def sentence(self) -> str:
        """Say what happened, for a log."""
        if self.source is None:
            return f"{self.stage}: finished"
        out = f"{self.out.documents:,} documents, {self.out.tokens:,} tokens"
        lost = [f"{self.removed.documents:,} removed"] if self.removed.documents else []
        lost += [f"{self.set_aside.documents:,} set aside"] if self.set_aside.documents else []
        return ", ".join([f"{self.stage} {self.source}: {out}", *lost])


def digest_of(value: Any) -> str:
    """Hash a JSON value: 20 hexadecimal digits, 80 bits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def stage_key(stage: str, version: int, parameters: Any, *inputs: str) -> str:
    """Return the key of a stage's output: of all that can change it, and of nothing else."""
    return digest_of([stage, version, parameters, list(inputs)])


def corpus_folder(recipe: Recipe) -> Folder:
    """Return the folder of a recipe's corpus: `<storage>/<name>`."""
    return Folder(recipe.storage).folder(recipe.corpus)


def shard_path(stage: str, source: str | None, name: str, key: str) -> str:
    return "/".join(part for part in (WORK, stage, source, f"{name}-{key}.parquet") if part)


def seal(record: Record) -> bytes:
    """Write a record as JSON with a hash of itself."""
    body = record.model_dump_json().encode()
    return SEAL + hashlib.sha256(body).hexdigest().encode() + b'","record":' + body + b"}"


def unseal(content: bytes, kind: type[Sealed], path: str) -> Sealed:
    """Read a sealed record. Raises Damaged where it is not as it was written."""
    head, colon, rest = content.partition(b'","record":')
    body = rest[:-1]
    if head != SEAL + hashlib.sha256(body).hexdigest().encode() or not colon or rest[-1:] != b"}":
        raise Damaged(f"{path} is cut or changed, or of another version", path)
    return kind.model_validate_json(body)


def write_record(folder: Folder, path: str, record: Record) -> None:
    folder.write(path, seal(record))


def read_record(folder: Folder, path: str, kind: type[Sealed]) -> Sealed | None:
    """Read a record, or return None where there is none. Raises Damaged."""
    content = folder.read_if_there(path)
    return None if content is None else unseal(content, kind, path)


def finished(folder: Folder, path: str, kind: type[Sealed]) -> Sealed | None:
    """Return the record at a path where it and every artifact that it names are there, whole by size.

    Otherwise the work is to be done again; what was wrong is said in the log.
    """
    try:
        record = read_record(folder, path, kind)
    except Damaged as error:
        warn(f"{error}; it is made again")
        return None
    for shard in artifacts_of(record):
        if folder.size_of(shard.path) != shard.size:
            warn(f"{folder.url}/{shard.path} is cut or gone; it is made again")
            return None
    return record


def artifacts_of(record: Record | None) -> Iterator[Shard]:
    """Yield the artifacts that a record vouches for."""
    if isinstance(record, Shard):
        yield record
    elif record is not None:
        for _, value in record:
            members = value if isinstance(value, tuple) else (value,)
            yield from (member for member in members if isinstance(member, Shard))


def finished_shard(folder: Folder, path: str) -> Shard | None:
    """Return the record of an artifact, or None where it is not finished."""
    return finished(folder, f"{path}.json", Shard)


def parquet_writer(scratch: Path, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    """Open an artifact to write: compressed, and with a checksum of every page."""
    return pq.ParquetWriter(
        scratch, schema, **{"compression": "zstd", "write_page_checksum": True, **options}
    )


def write_shard(
    folder: Folder, path: str, name: str, fill: Callable[[Path], Any], **counted: Counts
) -> Shard:
    """Write an artifact with `fill(scratch)`, put it in place, then its record.

    fill: may return the counts of what it wrote, where nobody knows them before.
    """
    with folder.scratch_file() as scratch:
        if isinstance(found := fill(scratch), Counts):
            counted["counts"] = found
        with scratch.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(-8, os.SEEK_END)
            footer = int.from_bytes(file.read(4), "little") + 8
            file.seek(-footer, os.SEEK_END)
            tail = file.read()
        rows, size = pq.read_metadata(scratch).num_rows, scratch.stat().st_size
        folder.put(scratch, path, read_only=True)
    shard = Shard(
        name=name, path=path, digest=digest, rows=rows, size=size, footer=footer,
        footer_digest=hashlib.sha256(tail).hexdigest(), **counted,
    )  # fmt: skip
    write_record(folder, f"{path}.json", shard)
    return shard


def write_table(folder: Folder, path: str, name: str, table: pa.Table, **counted: Counts) -> Shard:
    """Write a narrow table as an artifact."""

    def fill(scratch: Path) -> None:
        with parquet_writer(scratch, table.schema) as writer:
            writer.write_table(table)

    return write_shard(folder, path, name, fill, **counted)


@contextmanager
def decoded(folder: Folder, shard: Shard) -> Iterator[Stream]:
    """Open an artifact. Whatever goes wrong then is Denied or Unavailable by its store, or Damaged."""
    try:
        stream = folder.open(shard.path)
    except Denied as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise damaged(folder, shard, "is gone") from error
        raise
    with stream:
        if (size := stream.seek(0, os.SEEK_END)) != shard.size:
            raise damaged(folder, shard, f"has {size:,} bytes, expected {shard.size:,}")
        try:
            yield stream
        except NOT_DECODED as error:
            if stream.failure is not None:
                raise stream.failure from error
            if isinstance(error, ZydaError):
                raise
            raise damaged(folder, shard, f"cannot be read: {first_line(error)}") from error


def damaged(folder: Folder, shard: Shard, found: str) -> Damaged:
    return Damaged(f"{folder.url}/{shard.path} {found}", shard.path)


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


@contextmanager
def opened(folder: Folder, shard: Shard) -> Iterator[pq.ParquetFile]:
    """Open an artifact. Neighbouring columns of what is read at once are one request to a store."""
    with decoded(folder, shard) as stream:
        yield pq.ParquetFile(
            stream,
            metadata=footer_in(folder, shard, stream),
            pre_buffer=True,
            page_checksum_verification=True,
        )


def read_table(folder: Folder, shard: Shard, columns: list[str] | None = None) -> pa.Table:
    """Read an artifact, or some of its columns. A whole one is checked against its digest."""
    if columns is not None:
        with opened(folder, shard) as parquet:
            return parquet.read(columns)
    with decoded(folder, shard) as stream:
        content = read_whole(stream)
        if hashlib.sha256(content).hexdigest() != shard.digest:
            raise damaged(folder, shard, "has another content than was written")
        return pq.read_table(pa.BufferReader(content))


def read_whole(stream: Stream) -> bytes:
    stream.seek(0)
    return stream.read()


def tables_of(folder: Folder, shard: Shard, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Read an artifact in parts of some MiB: a row group, or a few where they are small."""
    with opened(folder, shard) as parquet:
        yield from parts_of(parquet, columns)


def parts_of(parquet: pq.ParquetFile, columns: list[str] | None = None) -> Iterator[pa.Table]:
    sizes = [parquet.metadata.row_group(i).total_byte_size for i in range(parquet.num_row_groups)]
    part = np.cumsum(sizes) // PART_BYTES
    for _, groups in groupby(range(len(sizes)), key=part.__getitem__):
        yield parquet.read_row_groups(list(groups), columns)


FOOTERS: LRUCache[str, pq.FileMetaData] = LRUCache(
    FOOTER_CACHE_BYTES, getsizeof=lambda footer: footer.serialized_size * PARSED
)
FOOTERS_LOCK = Lock()


def footer_of(folder: Folder, shard: Shard) -> pq.FileMetaData:
    """Read a file's footer once for all the parts that a worker reads from it."""
    with FOOTERS_LOCK:
        if footer := FOOTERS.get(shard.footer_digest):
            return footer
    with decoded(folder, shard) as stream:
        return footer_in(folder, shard, stream)


def footer_in(folder: Folder, shard: Shard, stream: Stream) -> pq.FileMetaData:
    """Return the footer of an open artifact, which must be the one that was written."""
    with FOOTERS_LOCK:
        if footer := FOOTERS.get(shard.footer_digest):
            return footer
    stream.seek(-shard.footer, os.SEEK_END)
    tail = stream.read(shard.footer)
    if hashlib.sha256(tail).hexdigest() != shard.footer_digest:
        raise damaged(folder, shard, "has another footer than was written")
    footer = pq.read_metadata(pa.BufferReader(tail))
    with FOOTERS_LOCK, suppress(ValueError):  # one that is larger than all that may be kept
        FOOTERS[shard.footer_digest] = footer
    return footer


def forget(folder: Folder, paths: Iterable[str]) -> None:
    """Remove damaged artifacts or records, and all that says that they are finished."""
    gone = set(paths)
    for path in gone:
        folder.delete(path)
        parent, _, name = path.rpartition("/")
        its_key = name.rpartition("-")[2].partition(".")[0]
        for record in folder.files(parent):
            if record.endswith(".json") and its_key in record:
                folder.delete(record)
    for manifest in folder.files(MANIFESTS):
        content = folder.read_if_there(manifest) or b""
        if any(path.encode() in content for path in gone):
            folder.delete(manifest)


def manifest_path(stage: str, source: str | None, key: str) -> str:
    return f"{MANIFESTS}/{stage}-{source or 'all'}-{key}.json"


def finished_stage(folder: Folder, stage: str, source: str | None, key: str) -> Done | None:
    """Return the receipt of a stage that was finished before, or None."""
    path = manifest_path(stage, source, key)
    try:
        manifest = read_record(folder, path, Manifest)
    except Damaged as error:
        warn(f"{error}; it is made again")
        return None
    return receipt(manifest, key, path) if manifest else None


def finish_stage(folder: Folder, manifest: Manifest, key: str) -> Done:
    """Write the manifest that makes a stage finished, and return its receipt."""
    path = manifest_path(manifest.stage, manifest.source, key)
    write_record(folder, path, manifest)
    return receipt(manifest, key, path)


def receipt(manifest: Manifest, key: str, path: str) -> Done:
    counts = manifest.model_dump(include={"stage", "source", "entering", "out", "removed", "set_aside"})
    return Done(**counts, key=key, path=path, identity=manifest.identity)


def load_manifest(folder: Folder, done: Done) -> Manifest:
    """Read the manifest of a receipt. Raises Damaged where it is not as it was written, or gone."""
    manifest = read_record(folder, done.path, Manifest)
    if manifest is None:
        raise Damaged(f"{folder.url}/{done.path} is gone", done.path)
    return manifest
