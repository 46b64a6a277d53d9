"""Verdicts: the decisions of stages about documents, in a common format, and the documents that remain after them.

A stage that reads the documents of a source writes a table for each shard: `doc_id` (uint64, ascending), then
`reason` if the stage may remove documents (string; null for a kept document), then any other columns. For a removed
document the other columns are its evidence, and columns that the stage declares are published in `removed/`. The
columns in the manifest's `added_columns` are published for kept documents, and for documents that a later stage
removes.

The receipts of such stages are a source's trail, which begins with the receipt of ingest. A later stage reads the
remaining documents from the trail, and does not need to know which stages exist.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.storage.artifacts import Artifact, Receipt, load_manifest
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table

REASON = pa.field("reason", pa.string())
VERDICTS = pa.schema([("doc_id", pa.uint64()), REASON])


# If these stages remove nothing, their outputs are ignored, so that a first request rebuilds only affected shards.
IGNORED_IF_EMPTY = {"deny"}


@dataclass(frozen=True)
class Trail:
    """The receipts of a source so far: the receipt of ingest, then of each later stage."""

    source: str
    receipts: list[Receipt]

    @property
    def remaining(self) -> Counts:
        """The counts of the remaining documents."""
        return self.receipts[-1].out

    @property
    def identities(self) -> list[str]:
        """The inputs of the keys of later stages."""
        return [receipt.identity for receipt in self.receipts]


def trail_of(receipts: list[Receipt]) -> Trail:
    return Trail(str(receipts[0].source), receipts)


@dataclass(frozen=True, slots=True)
class StageOutput:
    """The table of a stage for a shard. added_columns: its columns that are published with documents."""

    stage: str
    artifact: Artifact
    added_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShardHistory:
    """A shard of ingest, with the outputs of later stages."""

    shard: Artifact
    outputs: tuple[StageOutput, ...] = ()

    @property
    def counts(self) -> Counts:
        """The counts of the remaining documents."""
        return self.outputs[-1].artifact.counts if self.outputs else self.shard.counts

    @property
    def is_whole(self) -> bool:
        """Whether no document of the shard was removed."""
        return not any(output.artifact.removed.documents for output in self.outputs)

    @property
    def digests(self) -> tuple[str, ...]:
        return (self.shard.digest, *(output.artifact.digest for output in self.outputs))


def load_histories(folder: Folder, trail: Trail) -> list[ShardHistory]:
    """Return the shards of a source, each with the outputs of the stages in its trail."""
    ingested, *later = (load_manifest(folder, receipt) for receipt in trail.receipts)
    manifests = [manifest for manifest in later if manifest.artifacts]
    names = [tuple(field.name for field in manifest.added_columns) for manifest in manifests]
    outputs = [
        [StageOutput(manifest.stage, artifact, added) for artifact in manifest.artifacts]
        for manifest, added in zip(manifests, names, strict=True)
    ]
    return [
        ShardHistory(shard, tuple(output for output in shard_outputs if is_needed(output)))
        for shard, *shard_outputs in zip(ingested.artifacts, *outputs, strict=True)
    ]


def is_needed(output: StageOutput) -> bool:
    return output.stage not in IGNORED_IF_EMPTY or output.artifact.removed.documents > 0


def removals_in(table: pa.Table) -> pa.Table:
    """Return the rows whose `reason` is set."""
    if REASON.name not in table.column_names:
        return table.slice(0, 0)
    return table.filter(pc.is_valid(table.column(REASON.name)))


def load_remaining(folder: Folder, history: ShardHistory) -> pa.Table:
    """Read DOCUMENT_COUNTS of the remaining documents of a shard."""
    counted = read_table(folder, history.shard, DOCUMENT_COUNTS.names)
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
        if output.artifact.removed.documents:
            table = read_table(folder, output.artifact, ["doc_id", REASON.name])
            parts.append(removals_in(table).column("doc_id").to_numpy())
    return np.sort(np.concatenate(parts))  # each part ascends, and no document is removed twice


def load_added_columns(folder: Folder, history: ShardHistory) -> list[pa.Table]:
    """Read the columns that stages add to the documents of a shard: a table for each stage, with `doc_id`."""
    return [
        read_table(folder, output.artifact, ["doc_id", *output.added_columns])
        for output in history.outputs
        if output.added_columns
    ]


def with_columns(rows: pa.Table, columns: pa.Table) -> pa.Table:
    """Append the columns of `columns` to `rows` by doc_id, null where a row is missing; both ascend by doc_id."""
    ids, column_ids = rows.column("doc_id").to_numpy(), columns.column("doc_id").to_numpy()
    places = np.searchsorted(column_ids, ids)
    # The place of a missing id is arbitrary: it is masked, and the mask makes the value null.
    is_present = np.isin(ids, column_ids, assume_unique=True)
    indices = pa.array(np.where(is_present, places, 0).astype(np.int64), mask=~is_present)
    for field in columns.schema:
        if field.name != "doc_id":
            rows = rows.append_column(field, columns.column(field.name).take(indices))
    return rows


def counts_of(counted: pa.Table, doc_ids: Ids) -> Counts:
    """Add the counts of documents with the given ids, (n,); `counted` and `doc_ids` ascend by doc_id."""
    places = np.searchsorted(counted.column("doc_id").to_numpy(), doc_ids)
    rows = counted.take(pa.array(places))
    sums = {name: pc.sum(rows.column(f"n_{name}")).as_py() or 0 for name in ("tokens", "bytes")}
    return Counts(documents=len(doc_ids), **sums)


def counts_by_reason(counted: pa.Table, removals: pa.Table) -> dict[str, Counts]:
    """Return the counts of removed documents by reason, in the order of the names of the reasons."""
    if REASON.name not in removals.column_names:
        return {}
    reasons = removals.column(REASON.name)
    return {
        reason: counts_of(counted, removals.filter(pc.equal(reasons, reason)).column("doc_id").to_numpy())
        for reason in sorted(reasons.unique().to_pylist())
    }
