"""Ingest a piece of a file: read, clean and count its rows, and write shards. Each row is accounted for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.components import check_number_of_components
from zyda_flows.tasks.documents.planning import STATISTICS
from zyda_flows.tasks.errors import NotConserved, bad_input
from zyda_flows.tasks.ids import first_id
from zyda_flows.tasks.ingest.companions import Companion
from zyda_flows.tasks.ingest.numbering import RowConverter, number_parts
from zyda_flows.tasks.ingest.set_aside import SetAside
from zyda_flows.tasks.ingest.source_plan import IngestParameters
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.sources.columns import as_one_array, unify
from zyda_flows.tasks.sources.document_components import COMPONENT
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally
from zyda_flows.tasks.sources.input_files import FilePiece, InputFile
from zyda_flows.tasks.sources.reading import read, version_of
from zyda_flows.tasks.sources.type_unification import ValueRanges, find_value_ranges
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.counts import CleaningCounts, Counts, SpecialCounts, total
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS, ROW_GROUP_BYTES, row_groups
from zyda_flows.tasks.storage.records import Record, pack, unpack
from zyda_flows.tasks.storage.tables import parquet_writer, tables_of, write_artifact
from zyda_flows.tasks.tokens.engine import EngineDiffers, TokenEngine
from zyda_flows.tasks.tokens.stored import stored_engine

VERSION = 1


class IngestedPiece(Record):
    """The record of an ingested piece.

    name: of the piece. rows: the number of rows by the footer, batches or line ends. cleaned: the counts of each
    cleaning. skipped: the number of records that are not documents, by kind. special_tokens: the counts of special
    tokens in texts. differing: the number of documents for which fastokens gives other tokens than tokenizers.
    """

    name: str
    shards: tuple[Artifact, ...]
    set_aside: tuple[Artifact, ...]
    table_schema: str
    spans: ValueRanges
    rows: int
    cleaned: dict[str, CleaningCounts] = {}
    skipped: dict[str, int] = {}
    special_tokens: dict[str, SpecialCounts] = {}
    differing: int = 0

    @property
    def documents_read(self) -> Counts:
        return total(shard.counts for shard in self.shards)


@dataclass(frozen=True)
class PieceToIngest(RecordJob[IngestedPiece]):
    """One piece of a file to ingest on a worker.

    forgotten: the ids of rows on deny lists; only their counts may be stored.
    """

    stage, version, kind = "ingest", VERSION, IngestedPiece

    source: str
    number: int
    parameters: IngestParameters
    companions: Annotated[
        tuple[Callable[[], Companion], ...], NotInKey("their artifacts have keys of their own")
    ]
    file: Annotated[InputFile, NotInKey("its identity is in the key; the location is not")]
    piece: Annotated[FilePiece, NotInKey("its number of rows follows from the fields in the key")]
    forgotten: tuple[int, ...]

    @property
    def also_in_key(self) -> list[Any]:
        piece = self.piece.model_dump(exclude={"rows"})
        return [self.file.identity, piece, version_of(self.source, self.file)]

    @property
    def name(self) -> str:
        return f"{self.file.number:06d}-{self.piece.part:03d}"

    @property
    def whose(self) -> str:
        piece = self.piece
        rows = f", rows {piece.first_row:,} to {piece.first_row + piece.rows - 1:,}" if piece.rows else ""
        return f"file {self.file.url}{rows}"

    def make(self) -> IngestedPiece:
        return self.recorded(ingest_piece(self))


def ingest_piece(job: PieceToIngest) -> IngestedPiece:
    """Ingest a piece of a file."""

    def ingest(engine: TokenEngine) -> IngestedPiece:
        tally = RowTally()
        ingested = ingest_chunks(job, read_piece(job, tally), tally, engine)
        check_rows(job, ingested, tally)
        return ingested

    return with_engine(job, ingest)


def with_engine(job: PieceToIngest, ingest: Callable[[TokenEngine], IngestedPiece]) -> IngestedPiece:
    """Ingest a piece, and again with `tokenizers` alone if fastokens gives other tokens for a document."""
    stored = partial(stored_engine, job.folder, job.parameters.tokenizer, job.parameters.special_tokens)
    try:
        return ingest(stored(is_exact=job.parameters.is_exact))
    except EngineDiffers:
        ingested = ingest(stored(is_exact=True))
    texts = (
        table.column("text") for shard in ingested.shards for table in tables_of(job.folder, shard, ["text"])
    )
    differing = sum(stored(is_exact=False).differing(as_one_array(column).drop_null()) for column in texts)
    message = (
        f"fastokens gives other tokens for {differing:,} of its documents; all were counted by tokenizers"
    )
    warn(f"source {job.source}, {job.whose}: {message}")
    return ingested.model_copy(update={"differing": differing})


def ingest_chunks(
    job: PieceToIngest, chunks: Iterator[Chunk], tally: RowTally, engine: TokenEngine
) -> IngestedPiece:
    """Ingest the chunks of a piece. tally: the count of its rows, complete after the last chunk."""
    first = first_id(job.number, job.file.number)
    reader = RowConverter(
        job.source, job.file, first, job.parameters, engine, forgotten=frozenset(job.forgotten)
    )
    path = artifact_path("set_aside", job.source, job.name, job.key)
    aside = SetAside(
        job.folder, path, job.name, job.source, job.file.url, with_content=job.parameters.publish_set_aside
    )
    tables = reader.documents(chunks, aside)
    parts = groupby(
        number_parts(tables, job.parameters.shard_bytes), key=lambda part: (part[0], pack(part[1].schema))
    )
    shards, schemas, spans = list[Artifact](), list[pa.Schema](), ValueRanges()
    for (_, schema), part in parts:
        whole = unpack(schema)
        schemas.append(pa.schema([field for field in whole if field.name != STATISTICS]))
        shard, shard_ranges = write_ingested(job, len(shards), whole, (table for _, table in part))
        shards.append(shard)
        spans += shard_ranges
    return IngestedPiece(
        name=job.name,
        shards=tuple(shards),
        set_aside=aside.written(),
        table_schema=pack(unify(schemas, spans)) if schemas else "",
        spans=spans,
        rows=reader.entering(job.piece.first_row, tally),
        cleaned=reader.cleaned,
        skipped=dict(reader.skipped),
        special_tokens=reader.special_tokens,
    )


def read_piece(job: PieceToIngest, tally: RowTally) -> Iterator[Chunk]:
    return read(job.source, job.file, job.piece, job.parameters.text, tally, job.parameters.selection)


def check_rows(job: PieceToIngest, ingested: IngestedPiece, tally: RowTally) -> None:
    """Compare the rows read with the rows of the piece. Raises BadInput, NotConserved."""
    listed, where = job.piece.rows, f"source {job.source}, file {job.file.url}"
    if listed is not None and listed != tally.rows:
        change = f"it had {listed:,} rows when it was inspected and has {tally.rows:,} now; build again"
        raise bad_input(job.source, f"it changed while it was read: {change}", file=job.file.url)
    rows_read = sum(shard.rows for shard in (*ingested.shards, *ingested.set_aside))
    if rows_read != ingested.rows:
        raise NotConserved(f"{where}: expected {ingested.rows:,} rows, but {rows_read:,} were read")


def write_ingested(
    job: PieceToIngest, index: int, schema: pa.Schema, tables: Iterator[pa.Table]
) -> tuple[Artifact, ValueRanges]:
    """Write a shard in row groups of some MiB while it is read, so that it is never whole in memory."""
    companions, spans = [begin() for begin in job.companions], ValueRanges()
    components = set[str | None]()

    def fill(scratch: Path) -> Counts:
        nonlocal spans
        counts = Counts()
        with parquet_writer(scratch, schema) as writer:
            for table in row_groups(tables, ROW_GROUP_BYTES):
                writer.write_table(table, row_group_size=len(table))
                for companion in companions:
                    companion.add(table)
                if COMPONENT.name in table.column_names:
                    components.update(table.column(COMPONENT.name).unique().to_pylist())
                    check_number_of_components(job.source, components)
                own = [
                    name
                    for name in table.column_names
                    if name not in (*DOCUMENT_COUNTS.names, "text", STATISTICS)
                ]
                spans += find_value_ranges(table.select(own))
                tokens, size = (pc.sum(table.column(name)).as_py() for name in ("n_tokens", "n_bytes"))
                counts += Counts(documents=len(table), tokens=tokens, bytes=size)
        return counts

    name = f"{job.name}-{index:03d}"
    shard = write_artifact(job.folder, artifact_path("ingest", job.source, name, job.key), name, fill)
    for companion in companions:
        companion.write(job.folder, job.source, shard)
    return shard, spans
