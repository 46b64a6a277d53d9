"""Verdicts: what stages say of documents, in one form, and which documents are left after them.

A stage that looks at the documents of a source writes one table for each shard: `doc_id` (uint64, ascending)
and, where it may let a document go, `reason` (string; null where the document stays), then whatever else it
found. Of a document that goes, that is its evidence, of which what the stage declares stands in `removed/`; of
one that stays, the columns are published which the stage's manifest names as `beside`.

The receipts of such stages make a source's trail, which begins with that of ingest. Whoever comes later
reads in the trail what is left, and nobody needs to know which stages there are.
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
from tasks.stage.jobs import ShardJob
from tasks.stage.spread import fan_out
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
    """What has been said of a source so far: the receipt of ingest, then that of each stage since."""

    source: str
    receipts: list[Receipt]

    @property
    def left(self) -> Counts:
        """The documents that are left."""
        return self.receipts[-1].out

    @property
    def identities(self) -> list[str]:
        """What the keys of later stages are made from."""
        return [receipt.identity for receipt in self.receipts]


def trail_of(receipts: list[Receipt]) -> Trail:
    return Trail(str(receipts[0].source), receipts)


@dataclass(frozen=True)
class Said:
    """What a stage said of one shard, and which columns of it stand beside a document that stays."""

    stage: str
    shard: Shard
    beside: tuple[str, ...]


@dataclass(frozen=True)
class ShardSoFar:
    """A shard of ingest, and what stages have said of it since."""

    shard: Shard
    said: tuple[Said, ...] = ()

    @property
    def counts(self) -> Counts:
        """The documents that are left."""
        return self.said[-1].shard.counts if self.said else self.shard.counts

    @property
    def is_whole(self) -> bool:
        """Whether no document of the shard was let go."""
        return not any(said.shard.removed.documents for said in self.said)

    @property
    def digests(self) -> tuple[str, ...]:
        return (self.shard.digest, *(said.shard.digest for said in self.said))


@dataclass(frozen=True)
class JobSoFar(ShardJob):
    """What a stage says of one shard, from the shard and what stages before it said.

    `say` makes the table; that it is about documents that are left, and what goes by it, is seen to here.
    """

    so_far: ShardSoFar

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of what it says: `doc_id`, REASON where it may let documents go, and others."""

    @property
    def beside(self) -> tuple[str, ...]:
        """Which of the columns are published beside a document that stays."""
        return ()

    @property
    def reasons(self) -> Collection[str]:
        """For which reasons documents may go."""
        return ()

    @abstractmethod
    def say(self, left: pa.Table) -> pa.Table:
        """Say what there is to say, a row a document at the most. left: COUNTED of the documents that are left."""

    @property
    def name(self) -> str:
        return self.so_far.shard.name

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.so_far.digests

    def make(self) -> Shard:
        left = counted_left(self.folder, self.so_far)
        try:
            table = self.say(left)
        except ZydaError:
            raise
        except Exception as error:
            error.add_note(f"in {self.whose}")
            raise
        table = self.checked(table, left)
        gone = rows_that_go(table)
        by_reason, removed = counts_by_reason(left, gone), counts_of(left, gone.column("doc_id").to_numpy())
        return write_table(
            self.folder, self.path, self.name, table,
            counts=self.so_far.counts - removed, removed=removed, removed_by=by_reason,
        )  # fmt: skip

    @property
    def whose(self) -> str:
        return f"stage {self.stage}, source {self.source}, shard {self.name}"

    def checked(self, table: Any, left: pa.Table) -> pa.Table:
        """Return what was said with its types. Raises NotConserved where it is not as it has to be."""
        if not isinstance(table, pa.Table):
            raise NotConserved(f"{self.whose}: a table is expected, not {type(table).__name__}")
        if missing := [name for name in self.schema.names if name not in table.column_names]:
            raise NotConserved(f"{self.whose}: what it says has no column {missing[0]}")
        try:
            table = table.select(self.schema.names).cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise NotConserved(f"{self.whose}: {first_line(error)}") from error
        ids, left_ids = (of.column("doc_id").to_numpy() for of in (table, left))
        if np.any(ids[1:] <= ids[:-1]) or not np.isin(ids, left_ids, assume_unique=True).all():
            raise NotConserved(
                f"{self.whose}: it has to speak of documents that are left, of each once and in their order"
            )
        given = rows_that_go(table).column(REASON.name).unique().to_pylist() if self.reasons else []
        if unknown := [reason for reason in given if reason not in self.reasons]:
            raise NotConserved(f"{self.whose}: {unknown[0]!r} is none of its reasons")
        return table


def said_by(stage: str, trail: Trail, jobs: Sequence[JobSoFar], *, engine: Engine = Engine.CPU) -> Manifest:
    """Have a stage speak of all shards of a source, over the workers of an engine."""
    shards = fan_out(JobSoFar.__call__, jobs, stage=stage, source=trail.source, engine=engine)
    return manifest_of(stage, trail, shards, beside=jobs[0].beside if jobs else ())


def shards_so_far(folder: Folder, trail: Trail) -> list[ShardSoFar]:
    """Return the shards of a source with what the stages of its trail said of each."""
    ingested, *later = (load_manifest(folder, receipt) for receipt in trail.receipts)
    manifests = [manifest for manifest in later if manifest.shards]
    said = [[Said(m.stage, shard, m.beside) for shard in m.shards] for m in manifests]
    return [
        ShardSoFar(shard, tuple(of_shard)) for shard, *of_shard in zip(ingested.shards, *said, strict=True)
    ]


def rows_that_go(table: pa.Table) -> pa.Table:
    """Return the rows of what a stage said by which a document goes."""
    if REASON.name not in table.column_names:
        return table.slice(0, 0)
    return table.filter(pc.is_valid(table.column(REASON.name)))


def counted_left(folder: Folder, so_far: ShardSoFar) -> pa.Table:
    """Read COUNTED of the documents that are left of a shard."""
    counted = read_table(folder, so_far.shard, COUNTED.names)
    if so_far.is_whole:
        return counted
    is_left = ~np.isin(counted.column("doc_id").to_numpy(), ids_gone(folder, so_far), assume_unique=True)
    return counted.filter(pa.array(is_left))


def ids_gone(folder: Folder, so_far: ShardSoFar) -> Ids:
    """Read which documents of a shard stages have let go: (n,) uint64, ascending."""
    parts = [np.empty(0, np.uint64)]
    for said in so_far.said:
        if said.shard.removed.documents:
            table = read_table(folder, said.shard, ["doc_id", REASON.name])
            parts.append(rows_that_go(table).column("doc_id").to_numpy())
    return np.sort(np.concatenate(parts))  # each part ascends, and no document goes twice


def said_beside(folder: Folder, so_far: ShardSoFar) -> list[pa.Table]:
    """Read what was said beside the documents of a shard: `doc_id` and the columns, a table a stage."""
    return [read_table(folder, said.shard, ["doc_id", *said.beside]) for said in so_far.said if said.beside]


def with_columns(rows: pa.Table, said: pa.Table) -> pa.Table:
    """Append the columns of `said` to `rows` by doc_id, null where it says nothing; both ascend by doc_id."""
    ids, said_ids = rows.column("doc_id").to_numpy(), said.column("doc_id").to_numpy()
    places = np.searchsorted(said_ids, ids)
    # The place of an id that is not among them means nothing: it is masked, and the mask makes it null.
    is_there = np.isin(ids, said_ids, assume_unique=True)
    indices = pa.array(np.where(is_there, places, 0).astype(np.int64), mask=~is_there)
    for field in said.schema:
        if field.name != "doc_id":
            rows = rows.append_column(field, said.column(field.name).take(indices))
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
    """Make the manifest of what a stage said of a source: its shards add up to the ledger's line."""
    return Manifest(
        stage=stage,
        source=trail.source,
        shards=tuple(shards),
        entering=trail.left,
        out=total(shard.counts for shard in shards),
        removed=total(shard.removed for shard in shards),
        removed_by=dict(sorted(totals(shard.removed_by for shard in shards).items())),
        beside=tuple(beside),
    )
