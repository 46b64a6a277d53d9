"""The work on a shard of a stage that returns verdicts: check its table, and count removed documents."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.errors import NotConserved, ZydaError, first_line
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.verdicts import (
    REASON,
    ShardHistory,
    Trail,
    counts_by_reason,
    counts_of,
    load_remaining,
    removals_in,
)
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest
from zyda_flows.tasks.storage.counts import Counts, total, totals
from zyda_flows.tasks.storage.records import pack
from zyda_flows.tasks.storage.tables import write_table
from zyda_flows.tasks.workers.engine import Engine


@dataclass(frozen=True)
class VerdictJob(ArtifactJob):
    """The work of a stage on a shard, given the outputs of earlier stages.

    `verdicts` returns the table; this class checks the table and counts the removed documents.
    """

    history: ShardHistory

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the table: `doc_id`, REASON if the stage may remove documents, and other columns."""

    @property
    def added_columns(self) -> tuple[str, ...]:
        """The columns that are published with documents."""
        return ()

    @property
    def reasons(self) -> Collection[str]:
        """The reasons for which the stage may remove documents."""
        return ()

    @abstractmethod
    def verdicts(self, remaining: pa.Table) -> pa.Table:
        """Return at most one row for each remaining document. remaining: DOCUMENT_COUNTS of these documents."""

    def cut(self, table: pa.Table, remaining: pa.Table) -> Counts:
        """Return the tokens and bytes that the verdicts cut from kept documents."""
        return Counts()

    def other_counts(self, table: pa.Table, remaining: pa.Table) -> dict[str, Counts]:
        """Return further counts of the artifact by name, which `run_jobs` adds up."""
        return {}

    @property
    def name(self) -> str:
        return self.history.shard.name

    def make(self) -> Artifact:
        remaining = load_remaining(self.folder, self.history)
        try:
            table = self.verdicts(remaining)
        except ZydaError:
            raise
        except Exception as error:
            error.add_note(f"in {self.whose}")
            raise
        table = self.checked(table, remaining)
        removals, cut = removals_in(table), self.cut(table, remaining)
        by_reason, removed = (
            counts_by_reason(remaining, removals),
            counts_of(remaining, removals.column("doc_id").to_numpy()),
        )
        return write_table(
            self.folder, self.path, self.name, table,
            counts=self.history.counts - removed - cut, removed=removed, removed_by=by_reason, cut=cut,
            other=self.other_counts(table, remaining),
        )  # fmt: skip

    def checked(self, table: Any, remaining: pa.Table) -> pa.Table:
        """Return the table, cast to `schema`. Raises NotConserved if it violates `schema` or `reasons`."""
        if not isinstance(table, pa.Table):
            raise NotConserved(f"{self.whose}: a table is expected, not {type(table).__name__}")
        if missing := [name for name in self.schema.names if name not in table.column_names]:
            raise NotConserved(f"{self.whose}: the table has no column {missing[0]}")
        try:
            table = table.select(self.schema.names).cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise NotConserved(f"{self.whose}: {first_line(error)}") from error
        ids, remaining_ids = (part.column("doc_id").to_numpy() for part in (table, remaining))
        if np.any(ids[1:] <= ids[:-1]) or not np.isin(ids, remaining_ids, assume_unique=True).all():
            raise NotConserved(
                f"{self.whose}: the rows must be of remaining documents, each at most once, in the order of doc_id"
            )
        reasons = removals_in(table).column(REASON.name).unique().to_pylist() if self.reasons else []
        if unknown := [reason for reason in reasons if reason not in self.reasons]:
            raise NotConserved(f"{self.whose}: the reason {unknown[0]!r} is not declared")
        return table


def run_jobs(
    stage: str, trail: Trail, jobs: Sequence[VerdictJob], *, engine: Engine = Engine.CPU
) -> Manifest:
    """Run the jobs of a stage on all shards of a source, and return its manifest. engine: engine of the workers."""
    return run_counting_jobs(stage, trail, jobs, engine=engine)[0]


def run_counting_jobs(
    stage: str, trail: Trail, jobs: Sequence[VerdictJob], *, engine: Engine = Engine.CPU
) -> tuple[Manifest, dict[str, Counts]]:
    """Run the jobs of a stage as `run_jobs` does, and return its manifest and the sums of `other_counts`."""
    removed_by, other = dict[str, Counts](), dict[str, Counts]()

    def without_reasons(shard: Artifact) -> Artifact:
        """Add up the reasons and further counts of a finished shard, which a manifest lists in total."""
        removed_by.update(totals([removed_by, shard.removed_by]))
        other.update(totals([other, shard.other]))
        return shard.without_reasons

    shards = fan_out(
        VerdictJob.__call__, jobs, stage=stage, source=trail.source, engine=engine, kept=without_reasons
    )
    manifest = Manifest(
        stage=stage,
        source=trail.source,
        artifacts=tuple(shards),
        entering=trail.remaining,
        out=total(shard.counts for shard in shards),
        removed=total(shard.removed for shard in shards),
        removed_by=dict(sorted(removed_by.items())),
        cut=total(shard.cut for shard in shards),
        added=pack(pa.schema([jobs[0].schema.field(name) for name in jobs[0].added_columns])) if jobs else "",
    )
    return manifest, other
