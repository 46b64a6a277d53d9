"""Ingest: a source's files to shards with ids and counts; the one time its text is written here.

Rows in: what `tasks.sources.reading` yields. Rows out, in work/ingest: `doc_id` (uint64), `n_tokens`
(uint32), `n_bytes` (uint32), `text` under that name whatever the source calls it, and the other
columns of the source; after the recipe's steps on documents also what they measured, and no text of a document
that they let go. Bad rows go to work/set_aside, or stop the build. The band keys of a shard are
made here too, while its text is in memory, as whatever else is a companion of ingest.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.documents.planning import STEPS, later_statistics
from tasks.errors import BadInput, NotConserved, bad_input
from tasks.ids import first_id
from tasks.ingest.companions import COMPANIONS, Companion, OnGpus
from tasks.ingest.numbering import Reader, larger_tables, numbered
from tasks.ingest.plan import IngestParameters, SourcePlan
from tasks.recipe.fields import Recipe
from tasks.sources.columns import unify
from tasks.sources.listing import InputFile, Piece, load_listing
from tasks.sources.reading import later_versions, read, version_of
from tasks.sources.rows import BadRow, Tally
from tasks.sources.type_unification import ValueRanges, value_ranges
from tasks.stage.fan_out import fan_out, has_gpus
from tasks.stage.jobs import RecordJob, ShardJob
from tasks.stage.stage import stage
from tasks.storage.artifacts import Cleaned, Counts, Manifest, Shard, shard_path, stage_key, total, totals
from tasks.storage.documents import COUNTED
from tasks.storage.records import Record, pack, unpack
from tasks.storage.tables import parquet_writer, read_table, write_shard, write_table
from tasks.tokens.counter import stored_counter
from tasks.workers.dask_cluster import SHARE
from tasks.workers.engine import Following

VERSION = 4
NO_DOCUMENT = "Look at what its `files` name; a source without documents is to be taken out of the recipe."
ROW_GROUP_BYTES = 32 << 20
SET_ASIDE = pa.schema(
    [
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("content", pa.binary()),
    ]
)


class IngestedPiece(Record):
    """The record of one piece: its shards, and every row of it accounted for.

    `rows` is how many it has by its footer, its batches or the ends of its lines. `cleaned` is what each cleaning
    changed.
    """

    shards: tuple[Shard, ...]
    set_aside: tuple[Shard, ...]
    table_schema: str
    spans: ValueRanges
    rows: int
    cleaned: dict[str, Cleaned] = {}

    @property
    def seen(self) -> Counts:
        return total(shard.counts for shard in self.shards)


@dataclass(frozen=True)
class PieceToIngest(RecordJob[IngestedPiece]):
    """One piece of a file to ingest, on whichever worker.

    `companions` are not in the key: the shards do not depend on them, and what they make has a key of its own.
    """

    stage, version, kind = "ingest", VERSION, IngestedPiece

    source: str
    number: int
    parameters: IngestParameters
    companions: tuple[Callable[[], Companion], ...]
    file: InputFile
    piece: Piece

    @property
    def params(self) -> list[Any]:
        identity = self.file.model_dump(exclude={"pieces"})
        piece = self.piece.model_dump(exclude={"rows"})
        read_by = version_of(self.source, self.file.url)
        made_from = [self.number, self.parameters.model_dump(), identity, piece]
        later = [read_by] if read_by > 1 else []  # keys from before formats had versions stay
        return [*made_from, *later, *later_statistics(self.parameters.documents)]

    @property
    def name(self) -> str:
        return f"{self.file.number:06d}-{self.piece.part:03d}"

    def make(self) -> IngestedPiece:
        return self.recorded(ingest_piece(self))


def ingest_piece(job: PieceToIngest) -> IngestedPiece:
    """Ingest one piece of a file."""
    counter = stored_counter(job.folder, job.parameters.tokenizer)
    reader = Reader(job.source, job.file, first_id(job.number, job.file.number), job.parameters, counter)
    bad, tally = list[BadRow](), Tally()
    tables = reader.documents(read(job.source, job.file, job.piece, job.parameters.text, tally), bad)
    parts = groupby(
        numbered(tables, job.parameters.shard_bytes), key=lambda part: (part[0], pack(part[1].schema))
    )
    shards, schemas, spans = list[Shard](), list[pa.Schema](), ValueRanges()
    for (_, schema), part in parts:
        whole = unpack(schema)
        schemas.append(pa.schema([field for field in whole if field.name != STEPS]))
        shard, reach = write_ingested(job, len(shards), whole, (table for _, table in part))
        shards.append(shard)
        spans += reach
    ingested = IngestedPiece(
        shards=tuple(shards),
        set_aside=(write_set_aside(job, bad),) if bad else (),
        table_schema=pack(unify(schemas, spans)) if schemas else "",
        spans=spans,
        rows=reader.entering(job.piece.first_row, tally),
        cleaned=reader.cleaned,
    )
    check_rows(job, ingested, tally)
    return ingested


def check_rows(job: PieceToIngest, ingested: IngestedPiece, tally: Tally) -> None:
    """Compare what was read of a piece with what it has. Raises BadInput, NotConserved."""
    listed, where = job.piece.rows, f"source {job.source}, file {job.file.url}"
    if listed is not None and listed != tally.rows:
        change = f"it had {listed:,} rows when it was inspected and has {tally.rows:,} now; build again"
        raise bad_input(job.source, f"it changed while it was read: {change}", file=job.file.url)
    rows_read = sum(shard.rows for shard in (*ingested.shards, *ingested.set_aside))
    if rows_read != ingested.rows:
        raise NotConserved(f"{where}: it has {ingested.rows:,} rows to be used and {rows_read:,} were read")


def write_ingested(
    job: PieceToIngest, index: int, schema: pa.Schema, tables: Iterator[pa.Table]
) -> tuple[Shard, ValueRanges]:
    """Write a shard while it is read, in row groups of some MiB of text: neither is ever all in memory."""
    companions, spans = [begin() for begin in job.companions], ValueRanges()

    def fill(scratch: Path) -> Counts:
        nonlocal spans
        counts = Counts()
        with parquet_writer(scratch, schema) as writer:
            for table in larger_tables(tables, ROW_GROUP_BYTES):
                writer.write_table(table, row_group_size=len(table))
                for companion in companions:
                    companion.add(table)
                own = [name for name in table.column_names if name not in (*COUNTED.names, "text", STEPS)]
                spans += value_ranges(table.select(own))
                tokens, size = (pc.sum(table.column(name)).as_py() for name in ("n_tokens", "n_bytes"))
                counts += Counts(documents=len(table), tokens=tokens, bytes=size)
        return counts

    name = f"{job.name}-{index:03d}"
    shard = write_shard(job.folder, shard_path("ingest", job.source, name, job.key), name, fill)
    for companion in companions:
        companion.write(job.folder, job.source, shard)
    return shard, spans


def write_set_aside(job: PieceToIngest, bad: list[BadRow]) -> Shard:
    rows = [
        {
            "source": job.source,
            "file": job.file.url,
            "row": row.row,
            "reason": row.reason,
            "content": row.content,
        }
        for row in bad
    ]
    path = shard_path("set_aside", job.source, job.name, job.key)
    table = pa.Table.from_pylist(rows, SET_ASIDE)
    return write_table(job.folder, path, job.name, table, counts=Counts(documents=len(bad)))


def common_schema(pieces: list[IngestedPiece]) -> pa.Schema:
    """Return the columns of a source's documents, each with the type that holds all its values."""
    schemas = dict.fromkeys(piece.table_schema for piece in pieces if piece.shards)
    return unify(
        [unpack(schema) for schema in schemas], sum((piece.spans for piece in pieces), ValueRanges())
    )


def key(recipe: Recipe, plan: SourcePlan) -> str:
    later = (*later_versions(), *later_statistics(plan.parameters.documents))
    return stage_key("ingest", VERSION, plan.model_dump(), *later)


def companions_of(
    recipe: Recipe, source: str
) -> tuple[tuple[Callable[[], Companion], ...], Following | None]:
    """Return what begins the companions of each shard, and what GPUs make of it afterwards."""
    gpus = has_gpus(recipe.engine)
    begun, after = list[Callable[[], Companion]](), list[Callable[[Shard], Iterable[ShardJob]]]()
    for kind in COMPANIONS:
        if gpus and isinstance(kind, OnGpus):
            begin, jobs_of = kind.with_gpus(recipe, source)
            after.append(jobs_of)
        else:
            begin = kind.for_source(recipe, source)
        begun.append(begin)
    then = Following(recipe.engine, partial(jobs_after, after), ShardJob.__call__, SHARE) if after else None
    return tuple(begun), then


def jobs_after(after: list[Callable[[Shard], Iterable[ShardJob]]], piece: IngestedPiece) -> list[ShardJob]:
    """Return what GPUs are to make of the shards of a piece."""
    return [job for shard in piece.shards for jobs_of in after for job in jobs_of(shard)]


def without_documents(recipe: Recipe, source: str, pieces: list[IngestedPiece]) -> BadInput:
    """Return the error for a source without documents, with the reason of the first row that was set aside."""
    why = f"; a sample of {recipe.sample:g} may be too small for it" if recipe.sample < 1 else ""
    aside = [shard for piece in pieces for shard in piece.set_aside]
    if aside:
        first = read_table(recipe.folder, aside[0], ["file", "row", "reason"]).slice(0, 1).to_pylist()[0]
        places = sum(shard.rows for shard in aside)
        why += f"; {places:,} set aside, the first of {first['file']}, row {first['row']}: {first['reason']}"
    error = bad_input(source, f"no document in any of its files{why}")
    error.advice = NO_DOCUMENT
    return error


@stage("ingest", key, inputs=("plan",))
def ingest(recipe: Recipe, plan: SourcePlan) -> Manifest:
    """Ingest all the files of a source."""
    folder = recipe.folder
    companions, then = companions_of(recipe, plan.source)
    jobs = [
        PieceToIngest(folder, plan.source, plan.number, plan.parameters, companions, file, piece)
        for file in load_listing(folder, plan.listing)
        for piece in file.pieces
    ]
    pieces = fan_out(PieceToIngest.__call__, jobs, stage="ingest", source=plan.source, then=then)
    shards = tuple(shard for piece in pieces for shard in piece.shards)
    out = total(shard.counts for shard in shards)
    if not out.documents:
        raise without_documents(recipe, plan.source, pieces)
    return Manifest(
        stage="ingest",
        source=plan.source,
        shards=shards,
        entering=out + Counts(documents=sum(piece.rows for piece in pieces) - out.documents),
        out=out,
        set_aside=total(shard.counts for piece in pieces for shard in piece.set_aside),
        cleaned=totals(piece.cleaned for piece in pieces),
        facts={
            "schema": pack(common_schema(pieces)),
            "set_aside": [shard.model_dump() for piece in pieces for shard in piece.set_aside],
            **({"model": plan.model.model_dump()} if plan.model else {}),
        },
    )
