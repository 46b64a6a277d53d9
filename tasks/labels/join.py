"""Join: find the labels of each document that remains after the rules, and add their columns.

Rows out: `doc_id` and the columns that the joins take, of the documents with labels, sorted by doc_id.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.accounts.joined import JoinAccount, JoinFacts
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import Exchange, gather_files, with_common_shift
from zyda_flows.tasks.errors import bad_input
from zyda_flows.tasks.ingest.source_plan import PlannedLabels, SourcePlan
from zyda_flows.tasks.labels.join_jobs import (
    RANGE_BYTES,
    JoinedPart,
    JoinOfPart,
    KeysOfDocuments,
    LabelsOfShard,
)
from zyda_flows.tasks.labels.label_jobs import (
    PIECE_BYTES,
    STAGE,
    VERSION,
    FileTypes,
    GatheredRowsOfJoin,
    LabelsOfFile,
    TypesOfFile,
)
from zyda_flows.tasks.labels.label_tables import (
    LabelColumns,
    check_types,
    column_of_key,
    label_columns,
)
from zyda_flows.tasks.quality.ingested import read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.joins import Join
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.columns import is_json, unify
from zyda_flows.tasks.sources.input_files import FilePiece, InputFile, load_listing
from zyda_flows.tasks.sources.named_values import column_of
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import StageCost, Workload
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import run_jobs
from zyda_flows.tasks.stage.verdicts import ShardHistory, Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import pack, unpack

ROW_BYTES = 40  # of a label in memory, without its columns
# Seconds of one core, from docs/speed.md: for a byte of a file of labels, to find the labels of a document in one
# join, and to write the labels of a document. A byte of a file is about GROWN bytes in memory.
SECONDS_A_BYTE, SECONDS_A_DOCUMENT, SECONDS_A_LABEL, GROWN = 1.9e-7, 1.7e-5, 6.4e-6, 4
DOC_ID = pa.field("doc_id", pa.uint64())


@dataclass(frozen=True)
class JoinOfSource:
    """A join of a source. ingested: the columns of its shards. types: of each file of labels."""

    folder: Folder
    source: Source
    join: Join
    labels: PlannedLabels
    histories: Sequence[ShardHistory]
    ingested: pa.Schema
    types: tuple[FileTypes, ...] = ()

    @cached_property
    def files(self) -> tuple[InputFile, ...]:
        return tuple(file for file in load_listing(self.folder, self.labels.listing) if file.size)

    @property
    def pieces(self) -> list[tuple[InputFile, FilePiece]]:
        """The pieces of all files, in the order in which equal keys are compared."""
        typed = zip(self.files, self.types, strict=True)
        return [(file, piece) for file, types in typed for piece in types.pieces]

    @cached_property
    def columns(self) -> LabelColumns:
        return label_columns(self.join, is_hashed=self.labels.is_hashed)

    def typed(self) -> "JoinOfSource":
        """Return the join with the types of its files."""
        # Not a cached property: its lock would stop other sources while this source waits for its jobs.
        types = self.run_jobs(
            [
                TypesOfFile(self.folder, self.source.name, file, self.columns, self.source.name)
                for file in self.files
            ]
        )
        return replace(self, types=tuple(types))

    @cached_property
    def taken(self) -> pa.Schema:
        """The columns to take, with the types of all files, and their places as names. Raises BadInput."""
        schemas = [unpack(each.packed) for each in self.types]
        for file, schema in zip(self.files, schemas, strict=True):
            check_types(self.source.name, file.url, self.join, schema)
        unified = unify(schemas)
        for (_, path), field in zip(self.join.take, unified, strict=True):
            kinds = dict.fromkeys(str(schema.field(field.name).type) for schema in schemas)
            if is_json(field):
                fault = f"{path!r} is {' and '.join(kinds)} in several files, expected one type"
                raise bad_input(self.source.name, f"join.take: {fault}")
            if pa.types.is_null(field.type):
                raise bad_input(self.source.name, f"join.take: no row of the labels has a value of {path!r}")
        return unified

    @cached_property
    def naming(self) -> Naming:
        """The parts of the keys, which have about RANGE_BYTES of labels each."""
        size = sum(each.size + each.rows * ROW_BYTES for each in self.types)
        documents = sum(history.counts.documents for history in self.histories)
        return Naming(0, max(Naming.for_rows(documents).bits, (size // RANGE_BYTES).bit_length()))

    def run_jobs(self, jobs: Sequence[Any]) -> list[Any]:
        return fan_out(Job.__call__, jobs, stage=STAGE, source=self.source.name)

    def exchanged(self, jobs: Sequence[Any]) -> tuple[Exchange, int]:
        """Run jobs with rows for each part; return the files of the parts, and the rows that were read."""
        parts = len(self.naming.numbers)
        made = self.run_jobs(with_common_shift(jobs, parts))
        rows = sum(artifact.counts.documents for artifact in made)
        return gather_files(jobs[0], made, parts, self.run_jobs, GatheredRowsOfJoin), rows

    def run(self) -> tuple[Exchange, JoinAccount]:
        """Join the labels with the documents of all shards: JOINED by shard, and their account."""
        (labels, rows), (documents, _) = self.exchanged(self.label_jobs()), self.exchanged(self.key_jobs())
        jobs = [
            JoinOfPart(
                folder=self.folder, source=self.source.name, naming=self.naming, part=number,
                shared_files=documents.files(number), labels=labels.files(number), many=self.join.many,
                table_schema=self.taken, reader=self.source.name, listing=self.labels.listing, columns=self.columns,
            )
            for number in self.naming.numbers
        ]  # fmt: skip
        made = self.run_jobs(with_common_shift(jobs, len(self.histories)))
        joined = [each.joined for each in made]
        by_shard = gather_files(jobs[0], joined, len(self.histories), self.run_jobs, GatheredRowsOfJoin)
        return by_shard, self.account(made, rows)

    def label_jobs(self) -> list[LabelsOfFile]:
        return [
            LabelsOfFile(
                folder=self.folder, source=self.source.name, naming=self.naming, part=number, file=file,
                piece=piece, columns=self.columns, many=self.join.many, table_schema=self.taken,
                reader=self.source.name,
            )
            for number, (file, piece) in enumerate(self.pieces)
        ]  # fmt: skip

    def key_jobs(self) -> list[KeysOfDocuments]:
        column = column_of_key(self.source, self.join)
        names = {"doc_id", column_of(column, self.ingested.names)}
        schema = pa.schema([field for field in self.ingested if field.name in names])
        return [
            KeysOfDocuments(
                folder=self.folder, source=self.source.name, naming=self.naming, part=number, history=history,
                on=self.join.on, column=column, table_schema=schema,
            )
            for number, history in enumerate(self.histories)
        ]  # fmt: skip

    @property
    def fields(self) -> list[pa.Field]:
        """The columns to take with their names."""
        return [field.with_name(name) for (name, _), field in zip(self.join.take, self.taken, strict=True)]

    def account(self, parts: Sequence[JoinedPart], rows: int) -> JoinAccount:
        """Return the account of the join. rows: of the labels, with and without a key."""
        return JoinAccount(
            source=self.source.name,
            number=self.source.joins.index(self.join),
            on=self.join.on,
            columns={field.name: str(field.type) for field in self.fields},
            documents=sum(history.counts.documents for history in self.histories),
            matched=sum(part.matched for part in parts),
            matched_often=sum(part.matched_often for part in parts),
            rows=rows,
            unused=rows - sum(part.used for part in parts),
        )


def has_joins(recipe: Recipe, source: str) -> bool:
    return bool(recipe.source(source).joins)


def plan_of(trail: Trail, sources: Sequence[SourcePlan]) -> SourcePlan:
    return next(plan for plan in sources if plan.source == trail.source)


def key(recipe: Recipe, trail: Trail, sources: Sequence[SourcePlan]) -> str:
    source, planned = recipe.source(trail.source), plan_of(trail, sources).labels
    joins = [
        [join.model_dump(mode="json", exclude={"labels"}), column_of_key(source, join), labels.model_dump()]
        for join, labels in zip(source.joins, planned, strict=True)
    ]
    return stage_key(STAGE, VERSION, joins, *trail.identities)


def cost(workload: Workload, subject: Subject, name: str) -> Iterator[StageCost]:
    """Yield the cost of the joins, which a trial leaves out, from the sizes of the labels and of the sources."""
    for size in workload.sources.values():
        documents, shards = round(size.documents), len(size.shards)
        for files in size.labels:
            read = sum(files)
            parts = 1 << max(Naming.for_rows(documents).bits, (read * GROWN // RANGE_BYTES).bit_length())
            pieces = sum(1 + file * GROWN // PIECE_BYTES for file in files)
            cpu = read * SECONDS_A_BYTE + documents * SECONDS_A_DOCUMENT
            yield StageCost(name, Spent(calls=len(files) + pieces + parts + shards, cpu=cpu, inputs=read))
        if size.labels:
            yield StageCost(name, Spent(calls=shards, cpu=documents * SECONDS_A_LABEL))


@stage(STAGE, key, inputs=("trail", "sources"), enabled=has_joins, cost=cost)
def join(recipe: Recipe, trail: Trail, sources: Sequence[SourcePlan]) -> Manifest:
    """Add the labels of a source's documents."""
    folder, source = recipe.folder, recipe.source(trail.source)
    histories, ingested = load_histories(folder, trail), read_ingest_facts(folder, trail).columns
    planned = zip(source.joins, plan_of(trail, sources).labels, strict=True)
    joins = [
        JoinOfSource(folder, source, each, labels, histories, ingested).typed() for each, labels in planned
    ]
    joined, accounts = zip(*(each.run() for each in joins), strict=True)
    fields = [field for each in joins for field in each.fields]
    taken = tuple(tuple(field.name for field in each.fields) for each in joins)
    schema = pa.schema([DOC_ID, *fields])
    jobs = [
        LabelsOfShard(
            folder=folder, source=source.name, history=history, number=number,
            joined=tuple(exchange.files(number) for exchange in joined), table_schema=schema, taken=taken,
        )
        for number, history in enumerate(histories)
    ]  # fmt: skip
    facts = JoinFacts(packed=pack(pa.schema(fields)), accounts=accounts)
    return run_jobs(STAGE, trail, jobs).model_copy(update={"facts": facts.written()})
