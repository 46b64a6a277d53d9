"""Verdicts: what stages decide about documents, in one form, and which documents remain after them.

A stage that reads the documents of a source writes one table for each shard: `doc_id` (uint64, ascending) and,
where it may remove documents, `reason` (string; null where the document stays), then any other columns. Of a
removed document these are its evidence, and those that the stage declares stand in `removed/`. Of one that
stays, the columns that the stage's manifest names as `beside` are published.

The receipts of such stages make a source's trail, which begins with that of ingest. A later stage reads in the
trail which documents remain, and needs not know which stages there are.
"""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.errors import NotConserved, ZydaError, first_line
from tasks.stage.fan_out import fan_out
from tasks.stage.jobs import ShardJob
from tasks.storage.artifacts import Counts, Manifest, Receipt, Shard, load_manifest, total, totals
from tasks.storage.documents import COUNTED
from tasks.storage.folder import Folder
from tasks.storage.tables import read_table, write_table
from tasks.workers.engine import Engine

Ids = NDArray[np.uint64]

REASON = pa.field("reason", pa.string())
VERDICTS = pa.schema([("doc_id", pa.uint64()), REASON])


@dataclass(frozen=True)
class Trail:
    """The receipts of a source so far: that of ingest, then that of each stage since."""

    source: str
    receipts: list[Receipt]

    @property
    def remaining(self) -> Counts:
        """The documents that remain."""
        return self.receipts[-1].out

    @property
    def identities(self) -> list[str]:
        """What the keys of later stages are made from."""
        return [receipt.identity for receipt in self.receipts]


def trail_of(receipts: list[Receipt]) -> Trail:
    return Trail(str(receipts[0].source), receipts)


@dataclass(frozen=True)
class StageOutput:
    """The table of a stage for one shard, and which of its columns are published with documents that stay."""

    stage: str
    shard: Shard
    beside: tuple[str, ...]


@dataclass(frozen=True)
class ShardHistory:
    """A shard of ingest, with the outputs of the stages since."""

    shard: Shard
    outputs: tuple[StageOutput, ...] = ()

    @property
    def counts(self) -> Counts:
        """The documents that remain."""
        return self.outputs[-1].shard.counts if self.outputs else self.shard.counts

    @property
    def is_whole(self) -> bool:
        """Whether no document of the shard was removed."""
        return not any(output.shard.removed.documents for output in self.outputs)

    @property
    def digests(self) -> tuple[str, ...]:
        return (self.shard.digest, *(output.shard.digest for output in self.outputs))


@dataclass(frozen=True)
class VerdictJob(ShardJob):
    """The work of a stage on one shard, which has the outputs of the stages before it.

    `verdicts` returns the table; this class checks it, and counts what it removes.
    """

    history: ShardHistory

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the table: `doc_id`, REASON where it may remove documents, and others."""

    @property
    def beside(self) -> tuple[str, ...]:
        """Which of the columns are published with documents that stay."""
        return ()

    @property
    def reasons(self) -> Collection[str]:
        """The reasons for which it may remove documents."""
        return ()

    @abstractmethod
    def verdicts(self, remaining: pa.Table) -> pa.Table:
        """Return at most one row for each remaining document. remaining: COUNTED of those."""

    @property
    def name(self) -> str:
        return self.history.shard.name

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.history.digests

    def make(self) -> Shard:
        remaining = load_remaining(self.folder, self.history)
        try:
            table = self.verdicts(remaining)
        except ZydaError:
            raise
        except Exception as error:
            error.add_note(f"in {self.whose}")
            raise
        table = self.checked(table, remaining)
        gone = removals_in(table)
        by_reason, removed = (
            counts_by_reason(remaining, gone),
            counts_of(remaining, gone.column("doc_id").to_numpy()),
        )
        return write_table(
            self.folder, self.path, self.name, table,
            counts=self.history.counts - removed, removed=removed, removed_by=by_reason,
        )  # fmt: skip

    @property
    def whose(self) -> str:
        return f"stage {self.stage}, source {self.source}, shard {self.name}"

    def checked(self, table: Any, remaining: pa.Table) -> pa.Table:
        """Return the table with its types. Raises NotConserved where it is not as `schema` and `reasons` say."""
        if not isinstance(table, pa.Table):
            raise NotConserved(f"{self.whose}: a table is expected, not {type(table).__name__}")
        if missing := [name for name in self.schema.names if name not in table.column_names]:
            raise NotConserved(f"{self.whose}: what it says has no column {missing[0]}")
        try:
            table = table.select(self.schema.names).cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise NotConserved(f"{self.whose}: {first_line(error)}") from error
        ids, remaining_ids = (of.column("doc_id").to_numpy() for of in (table, remaining))
        if np.any(ids[1:] <= ids[:-1]) or not np.isin(ids, remaining_ids, assume_unique=True).all():
            raise NotConserved(
                f"{self.whose}: it has to speak of documents that are left, of each once and in their order"
            )
        given = removals_in(table).column(REASON.name).unique().to_pylist() if self.reasons else []
        if unknown := [reason for reason in given if reason not in self.reasons]:
            raise NotConserved(f"{self.whose}: {unknown[0]!r} is none of its reasons")
        return table


def run_jobs(
    stage: str, trail: Trail, jobs: Sequence[VerdictJob], *, engine: Engine = Engine.CPU
) -> Manifest:
    """Run the jobs of a stage on all shards of a source, and return its manifest. engine: on which workers."""
    shards = fan_out(VerdictJob.__call__, jobs, stage=stage, source=trail.source, engine=engine)
    return manifest_of(stage, trail, shards, beside=jobs[0].beside if jobs else ())


def load_histories(folder: Folder, trail: Trail) -> list[ShardHistory]:
    """Return the shards of a source, each with the outputs of the stages in its trail."""
    ingested, *later = (load_manifest(folder, receipt) for receipt in trail.receipts)
    manifests = [manifest for manifest in later if manifest.shards]
    outputs = [[StageOutput(m.stage, shard, m.beside) for shard in m.shards] for m in manifests]
    return [
        ShardHistory(shard, tuple(of_shard))
        for shard, *of_shard in zip(ingested.shards, *outputs, strict=True)
    ]


def removals_in(table: pa.Table) -> pa.Table:
    """Return the rows whose `reason` is set."""
    if REASON.name not in table.column_names:
        return table.slice(0, 0)
    return table.filter(pc.is_valid(table.column(REASON.name)))


def load_remaining(folder: Folder, history: ShardHistory) -> pa.Table:
    """Read COUNTED of the documents of a shard that remain."""
    counted = read_table(folder, history.shard, COUNTED.names)
    if history.is_whole:
        return counted
    is_remaining = ~np.isin(
        counted.column("doc_id").to_numpy(), removed_ids(folder, history), assume_unique=True
    )
    return counted.filter(pa.array(is_remaining))


def removed_ids(folder: Folder, history: ShardHistory) -> Ids:
    """Read the ids of a shard's removed documents: (n,) uint64, ascending."""
    parts = [np.empty(0, np.uint64)]
    for output in history.outputs:
        if output.shard.removed.documents:
            table = read_table(folder, output.shard, ["doc_id", REASON.name])
            parts.append(removals_in(table).column("doc_id").to_numpy())
    return np.sort(np.concatenate(parts))  # each part ascends, and no document goes twice


def load_added_columns(folder: Folder, history: ShardHistory) -> list[pa.Table]:
    """Read the columns that stages add to the documents of a shard: a table for each stage, with `doc_id`."""
    return [
        read_table(folder, output.shard, ["doc_id", *output.beside])
        for output in history.outputs
        if output.beside
    ]


def with_columns(rows: pa.Table, columns: pa.Table) -> pa.Table:
    """Append the columns of `columns` to `rows` by doc_id, null where a row is missing; both ascend by doc_id."""
    ids, column_ids = rows.column("doc_id").to_numpy(), columns.column("doc_id").to_numpy()
    places = np.searchsorted(column_ids, ids)
    # The place of an id that is not among them means nothing: it is masked, and the mask makes it null.
    is_there = np.isin(ids, column_ids, assume_unique=True)
    indices = pa.array(np.where(is_there, places, 0).astype(np.int64), mask=~is_there)
    for field in columns.schema:
        if field.name != "doc_id":
            rows = rows.append_column(field, columns.column(field.name).take(indices))
    return rows


def counts_of(counted: pa.Table, doc_ids: Ids) -> Counts:
    """Add up some of the documents of a shard; `counted` and `doc_ids` ascend by doc_id."""
    places = np.searchsorted(counted.column("doc_id").to_numpy(), doc_ids)
    rows = counted.take(pa.array(places))
    sums = {name: pc.sum(rows.column(f"n_{name}")).as_py() or 0 for name in ("tokens", "bytes")}
    return Counts(documents=len(doc_ids), **sums)


def counts_by_reason(counted: pa.Table, gone: pa.Table) -> dict[str, Counts]:
    """Add up the documents that go, by the reason for which they do, in the order of these names."""
    if REASON.name not in gone.column_names:
        return {}
    reasons = gone.column(REASON.name)
    return {
        reason: counts_of(counted, gone.filter(pc.equal(reasons, reason)).column("doc_id").to_numpy())
        for reason in sorted(reasons.unique().to_pylist())
    }


def manifest_of(stage: str, trail: Trail, shards: Sequence[Shard], *, beside: Sequence[str] = ()) -> Manifest:
    """Make the manifest of a stage for a source: its shards add up to the ledger's line."""
    return Manifest(
        stage=stage,
        source=trail.source,
        shards=tuple(shards),
        entering=trail.remaining,
        out=total(shard.counts for shard in shards),
        removed=total(shard.removed for shard in shards),
        removed_by=dict(sorted(totals(shard.removed_by for shard in shards).items())),
        beside=tuple(beside),
    )
