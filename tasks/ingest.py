"""Ingest: a source's files to shards with ids and counts; the one time its text is written here.

Rows in: what `tasks.readers` yields. Rows out, in work/ingest: `doc_id` (uint64), `n_tokens`
(uint32), `n_bytes` (uint32), `text` under that name whatever the source calls it, and the other
columns of the source. Bad rows go to work/set_aside, or stop the build.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tasks.artifacts import (
    Counts,
    Done,
    Manifest,
    Record,
    Shard,
    corpus_folder,
    shard_path,
    stage_key,
    total,
    write_shard,
    write_table,
)
from tasks.cluster import fan_out
from tasks.columns import conform, pack, unify, unpack
from tasks.errors import bad_input
from tasks.ids import first_id
from tasks.listing import InputFile, Piece
from tasks.readers import BadRow, read
from tasks.recipe import Recipe
from tasks.stage import stage_task
from tasks.storage import Folder
from tasks.token_counts import count_tokens, stored_tokenizer

VERSION = 1
ROW_GROUP_BYTES = 32 << 20
COUNTED = pa.schema(
    [("doc_id", pa.uint64()), ("n_tokens", pa.uint32()), ("n_bytes", pa.uint32())]
)  # fmt: skip
ADDED = ("doc_id", "n_tokens", "n_bytes", "cluster_id", "quality_pred", "quality_prob")
ADDED_BY_MODEL = ("score", "int_score")
SET_ASIDE = pa.schema(
    [
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("content", pa.binary()),
    ]
)


class IngestParameters(Record):
    """All that decides what the shards of a source hold, besides its files."""

    text: str
    renamed: dict[str, str]
    set_aside: bool
    shard_bytes: int
    tokenizer: str
    sample_rows: float


class Source(Record):
    """A source as `prepare` found it: its number, and its files in the order of their URLs."""

    name: str
    number: int
    files: tuple[InputFile, ...]
    parameters: IngestParameters


class IngestedPiece(Record):
    """The record of one piece: its shards, and every row of it accounted for."""

    shards: tuple[Shard, ...]
    set_aside: tuple[Shard, ...]
    table_schema: str
    rows: int
    rows_set_aside: int


@dataclass(frozen=True)
class Job:
    """One piece to ingest, on whichever worker."""

    folder: Folder
    source: Source
    file: InputFile
    piece: Piece

    @property
    def key(self) -> str:
        parameters = self.source.parameters.model_dump()
        identity = self.file.model_dump(exclude={"pieces", "table_schema"})
        piece = self.piece.model_dump()
        return stage_key("ingest", VERSION, [self.source.number, parameters, identity, piece])


@dataclass
class Pending:
    """Rows of a piece that are not yet a shard."""

    tables: list[pa.Table] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    size: int = 0


def text_bytes(texts: pa.LargeStringArray) -> NDArray[np.int64]:
    """Return the UTF-8 length of each text: (n,) int64."""
    return pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)


def sampled(rows: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Choose rows by a hash of their place, so that every run chooses the same: (n,) bool."""
    if fraction >= 1:
        return np.ones(len(rows), np.bool_)
    x = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (x ^ (x >> np.uint64(32))) < np.uint64(fraction * 2.0**64)


def ingest_piece(job: Job) -> IngestedPiece:
    """Ingest one piece of a file, unless that was done before."""
    path = shard_path("ingest", job.source.name, f"{job.file.number:06d}-{job.piece.part:03d}", job.key)
    record = path.removesuffix(".parquet") + ".json"
    if content := job.folder.read_if_there(record):
        return IngestedPiece.model_validate_json(content)
    tokenizer = stored_tokenizer(job.folder, job.source.parameters.tokenizer)
    shards, schemas, bad, rows = [], [], [], 0
    for pending, found_bad in shard_sized(job):
        bad += found_bad
        rows += sum(len(r) for r in pending.rows) + len(found_bad)
        if pending.tables:
            table = shard_table(job, pending, tokenizer)
            shards.append(write_ingested(job, len(shards), table))
            schemas.append(table.schema)
    set_aside = (write_set_aside(job, bad),) if bad else ()
    schema = unify(schemas) if schemas else pa.schema([])
    done = IngestedPiece(
        shards=tuple(shards),
        set_aside=set_aside,
        table_schema=pack(schema),
        rows=rows,
        rows_set_aside=len(bad),
    )
    job.folder.write(record, done.model_dump_json().encode())
    return done


def shard_sized(job: Job) -> Iterator[tuple[Pending, list[BadRow]]]:
    """Gather chunks until they make a shard. Raises BadInput at a bad row that may not be set aside."""
    parameters = job.source.parameters
    pending, bad = Pending(), list[BadRow]()
    for chunk in read(job.source.name, job.file, job.piece, parameters.text):
        chosen = sampled(chunk.rows, parameters.sample_rows, job.file.number)
        bad_rows = np.array([row.row for row in chunk.bad], np.int64)
        chosen_bad = sampled(bad_rows, parameters.sample_rows, job.file.number)
        bad += [row for row, is_chosen in zip(chunk.bad, chosen_bad, strict=True) if is_chosen]
        if bad and not parameters.set_aside:
            raise bad_input(job.source.name, bad[0].reason, file=job.file.url, row=bad[0].row)
        rows, table = chunk.rows[chosen], chunk.table.filter(pa.array(chosen))
        for part in slices(table, parameters):
            start, stop, size = part
            if pending.tables and pending.size + size > parameters.shard_bytes:
                yield pending, bad
                pending, bad = Pending(), []
            pending.tables.append(table.slice(start, stop - start))
            pending.rows.append(rows[start:stop])
            pending.size += size
    yield pending, bad


def slices(table: pa.Table, parameters: IngestParameters) -> Iterator[tuple[int, int, int]]:
    """Cut a chunk so that no slice has more text than a shard may have: (start, stop, bytes)."""
    if not len(table):
        return
    ends = np.cumsum(text_bytes(table.column(parameters.text).combine_chunks()))
    start = before = 0
    while start < len(table):
        limit = before + parameters.shard_bytes
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield start, stop, int(ends[stop - 1]) - before
        start, before = stop, int(ends[stop - 1])


def shard_table(job: Job, pending: Pending, tokenizer: Tokenizer) -> pa.Table:
    """Make a shard's table: ids and counts, the text, and the source's other columns."""
    parameters = job.source.parameters
    schema = unify([table.schema for table in pending.tables])
    table = pa.concat_tables([conform(table, schema) for table in pending.tables])
    texts = table.column(parameters.text).combine_chunks()
    own = table.drop_columns([parameters.text])
    own = own.rename_columns([parameters.renamed.get(name, name) for name in own.column_names])
    rows = np.concatenate(pending.rows).astype(np.uint64)
    ids = rows + np.uint64(first_id(job.source.number, job.file.number))
    counted = [
        pa.array(ids),
        pa.array(count_tokens(texts, tokenizer)),
        pa.array(text_bytes(texts).astype(np.uint32)),
    ]
    columns = [*counted, texts, *own.columns]
    fields = [*COUNTED, pa.field("text", pa.large_string()), *own.schema]
    return pa.table(columns, schema=pa.schema(fields))


def write_ingested(job: Job, index: int, table: pa.Table) -> Shard:
    name = f"{job.file.number:06d}-{job.piece.part + index:03d}"
    size = pc.sum(table.column("n_bytes")).as_py()
    rows_per_group = max(1, len(table) * ROW_GROUP_BYTES // max(size, ROW_GROUP_BYTES))
    counts = Counts(
        documents=len(table), tokens=pc.sum(table.column("n_tokens")).as_py(), bytes=size
    )

    def fill(scratch: Any) -> None:
        pq.write_table(table, scratch, compression="zstd", row_group_size=rows_per_group)

    path = shard_path("ingest", job.source.name, name, job.key)
    return write_shard(job.folder, path, name, fill, counts=counts)


def write_set_aside(job: Job, bad: list[BadRow]) -> Shard:
    rows = [
        {
            "source": job.source.name,
            "file": job.file.url,
            "row": row.row,
            "reason": row.reason,
            "content": row.content,
        }
        for row in bad
    ]
    name = f"{job.source.name}-{job.file.number:06d}-{job.piece.part:03d}"
    path = shard_path("set_aside", job.source.name, name, job.key)
    table = pa.Table.from_pylist(rows, SET_ASIDE)
    return write_table(job.folder, path, name, table, counts=Counts(documents=len(bad)))


def renames(columns: list[str], text: str, *, classified: bool) -> dict[str, str]:
    """Give the source's columns whose names the build needs a name that it leaves free."""
    taken = {*ADDED, *(ADDED_BY_MODEL if classified else ())} | ({"text"} - {text})
    return {name: f"source_{name}" for name in columns if name in taken}


def key(recipe: Recipe, source: Source) -> str:
    files = [file.model_dump(exclude={"pieces", "table_schema"}) for file in source.files]
    return stage_key("ingest", VERSION, [source.name, source.number, source.parameters.model_dump()], *map(str, files))


@stage_task("ingest", key=key)
def ingest(recipe: Recipe, source: Source) -> Manifest:
    """Ingest all the files of a source."""
    folder = corpus_folder(recipe)
    jobs = [Job(folder, source, file, piece) for file in source.files for piece in file.pieces]
    pieces = fan_out(ingest_piece, jobs, stage="ingest", source=source.name)
    shards = tuple(shard for piece in pieces for shard in piece.shards)
    set_aside = total(shard.counts for piece in pieces for shard in piece.set_aside)
    out = total(shard.counts for shard in shards)
    if not out.documents:
        raise bad_input(source.name, "no document in any of its files")
    schemas = [unpack(piece.table_schema) for piece in pieces if piece.shards]
    rows = sum(piece.rows for piece in pieces)
    return Manifest(
        stage="ingest",
        source=source.name,
        shards=shards,
        entering=Counts(documents=rows, tokens=out.tokens, bytes=out.bytes),
        out=out,
        set_aside=set_aside,
        facts={
            "schema": pack(unify(schemas)),
            "set_aside": [s.model_dump() for piece in pieces for s in piece.set_aside],
        },
    )
