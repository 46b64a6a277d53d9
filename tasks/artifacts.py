"""What the stages leave on storage, and how a later run knows that it is there.

An artifact is one Parquet file that a stage wrote for one shard. Its name carries a key: a hash of
the stage, its version, the parameters that change its content and the digests of what it was made
from. Beside it, written after it, lies a small JSON record with its digest and its counts: where
the record is, the artifact is finished and is never made again.

Keys follow content, not time: a stage that is run again and writes the same bytes leaves the keys
of everything after it as they were.

The manifest of a stage lists the records of all its shards. Through Prefect and Dask travels only
a `Done`: where the manifest is, its identity, and the counts for the ledger.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from tasks.recipe import Recipe
from tasks.storage import Folder

WORK = "work"
PART_BYTES = 32 << 20


class Record(BaseModel):
    """A frozen JSON value of ours."""

    model_config = ConfigDict(frozen=True)


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

    `counts` are of the documents that stay, `removed` of those that this artifact says go.
    """

    name: str
    path: str
    digest: str
    rows: int
    counts: Counts = Counts()
    removed: Counts = Counts()


class Manifest(Record):
    """All the artifacts of a stage, in the order of their names, and what they add up to."""

    stage: str
    source: str | None = None
    shards: tuple[Shard, ...] = ()
    entering: Counts = Counts()
    out: Counts = Counts()
    removed: Counts = Counts()
    set_aside: Counts = Counts()
    facts: dict[str, Any] = {}

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


def finished_shard(folder: Folder, path: str) -> Shard | None:
    """Return the record of an artifact, or None where it is not finished."""
    content = folder.read_if_there(f"{path}.json")
    return Shard.model_validate_json(content) if content else None


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
        rows = pq.read_metadata(scratch).num_rows
        folder.put(scratch, path)
    shard = Shard(name=name, path=path, digest=digest, rows=rows, **counted)
    folder.write(f"{path}.json", shard.model_dump_json().encode())
    return shard


def write_table(folder: Folder, path: str, name: str, table: pa.Table, **counted: Counts) -> Shard:
    """Write a narrow table as an artifact."""
    fill = lambda scratch: pq.write_table(table, scratch, compression="zstd")  # noqa: E731
    return write_shard(folder, path, name, fill, **counted)


@contextmanager
def opened(folder: Folder, path: str, footer: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
    """Open an artifact. Neighbouring columns of what is read at once are one request to a store."""
    with folder.open(path) as file:
        yield pq.ParquetFile(file, metadata=footer, pre_buffer=True)


def read_table(folder: Folder, shard: Shard, columns: list[str] | None = None) -> pa.Table:
    """Read an artifact, or some of its columns."""
    with opened(folder, shard.path) as parquet:
        return parquet.read(columns)


def tables_of(folder: Folder, shard: Shard, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Read an artifact in parts of some MiB: a row group, or a few where they are small."""
    with opened(folder, shard.path) as parquet:
        yield from parts_of(parquet, columns)


def parts_of(parquet: pq.ParquetFile, columns: list[str] | None = None) -> Iterator[pa.Table]:
    sizes = [parquet.metadata.row_group(i).total_byte_size for i in range(parquet.num_row_groups)]
    part = np.cumsum(sizes) // PART_BYTES
    for _, groups in groupby(range(len(sizes)), key=part.__getitem__):
        yield parquet.read_row_groups(list(groups), columns)


@lru_cache(maxsize=1024)
def footer_of(folder: Folder, path: str) -> pq.FileMetaData:
    """Read a file's footer once for all the parts that a worker reads from it."""
    with opened(folder, path) as parquet:
        return parquet.metadata


def manifest_path(stage: str, source: str | None, key: str) -> str:
    return f"{WORK}/manifests/{stage}-{source or 'all'}-{key}.json"


def finished_stage(folder: Folder, stage: str, source: str | None, key: str) -> Done | None:
    """Return the receipt of a stage that was finished before, or None."""
    path = manifest_path(stage, source, key)
    content = folder.read_if_there(path)
    return receipt(Manifest.model_validate_json(content), key, path) if content else None


def finish_stage(folder: Folder, manifest: Manifest, key: str) -> Done:
    """Write the manifest that makes a stage finished, and return its receipt."""
    path = manifest_path(manifest.stage, manifest.source, key)
    folder.write(path, manifest.model_dump_json().encode())
    return receipt(manifest, key, path)


def receipt(manifest: Manifest, key: str, path: str) -> Done:
    counts = manifest.model_dump(include={"stage", "source", "entering", "out", "removed", "set_aside"})
    return Done(**counts, key=key, path=path, identity=manifest.identity)


def load_manifest(folder: Folder, done: Done) -> Manifest:
    return Manifest.model_validate_json(folder.read(done.path))
