"""Removals: the decisions about duplicates, shard by shard, as verdicts.

Rows out: DECISIONS and `reason`, sorted by doc_id, for every document that is left of a shard; `reason` and
`kept_doc_id` are null for documents that stay. A document outside any cluster is a cluster of its own: its
`cluster_id` is its doc_id. One table for each
shard, so that a shard about which nothing has changed is known by its digest.
"""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.dedup.decisions import DECISIONS
from zyda_flows.tasks.dedup.exchange import Files, list_files
from zyda_flows.tasks.dedup.forests import SIZES
from zyda_flows.tasks.dedup.verify import comparison_of
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.sources.column_names import CLUSTER_COLUMNS
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import REASON, Trail, load_histories, with_columns
from zyda_flows.tasks.storage.artifacts import Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.tables import rows_between

VERSION = 1


@dataclass(frozen=True)
class RemovalsOfShard(VerdictJob):
    """Which documents of one shard go for a duplicate, and the clusters of those that stay.

    names: what CLUSTER_COLUMNS is called beside a document that stays.
    """

    stage, version = "removals", VERSION

    decisions: Files
    evidence: Annotated[tuple[pa.Field, ...], NotInKey("columns of `decisions`")]
    reason: str
    names: tuple[str, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        return (self.reason,)

    @property
    def added_columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def schema(self) -> pa.Schema:
        of_round = [
            DECISIONS.field(name).with_name(called)
            for name, called in zip(CLUSTER_COLUMNS, self.names, strict=True)
            if called != name
        ]
        return pa.schema([*DECISIONS, *of_round, *self.evidence, REASON])

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        ids = remaining.column("doc_id").to_numpy()
        if not len(ids):
            return self.schema.empty_table()
        decided = rows_between(self.folder, self.decisions.artifacts, int(ids[0]), int(ids[-1]))
        table = with_columns(remaining.select(["doc_id"]), decided)
        alone = {
            "cluster_id": table.column("doc_id"),
            **{name: pa.scalar(1, pa.uint8()) for name in SIZES.names},
        }
        for name, value in alone.items():
            place, column = table.schema.get_field_index(name), table.column(name)
            table = table.set_column(place, name, pc.coalesce(column, value.cast(column.type)))
        is_gone = pc.is_valid(table.column("kept_doc_id"))
        table = table.append_column(REASON, pc.if_else(is_gone, self.reason, pa.scalar(None, pa.string())))
        for name, called in zip(CLUSTER_COLUMNS, self.names, strict=True):
            table = table if called == name else table.append_column(called, table.column(name))
        return table


def evidence_of(of_round: Round) -> pa.Schema | None:
    """Return what is published of a document that goes beside the one that is kept for it."""
    return comparison_of(of_round.dedup).evidence or None


def key(of_round: Round, trail: Trail, decisions_receipt: Receipt) -> str:
    reason = of_round.dedup.sentences.reason.name
    return stage_key("removals", VERSION, reason, *trail.identities, decisions_receipt.identity)


def reasons_of(of_round: Round) -> dict[str, str]:
    """Return why documents go in a round: for one reason."""
    return dict([of_round.dedup.sentences.reason])


@stage("removals", key, inputs=("trail", "decisions"), reasons=reasons_of, evidence=evidence_of)
def removals(of_round: Round, trail: Trail, decisions_receipt: Receipt) -> Manifest:
    """Find which documents of a source go."""
    folder = of_round.folder
    decisions_manifest, evidence = (
        load_manifest(folder, decisions_receipt),
        tuple(evidence_of(of_round) or ()),
    )
    reason, names = of_round.dedup.sentences.reason.name, tuple(map(of_round.name_of, CLUSTER_COLUMNS))
    decided_files = list_files(folder, decisions_manifest.artifacts)
    jobs = [
        RemovalsOfShard(
            folder=folder,
            source=trail.source,
            history=history,
            decisions=decided_files,
            evidence=evidence,
            reason=reason,
            names=names,
        )
        for history in load_histories(folder, trail)
    ]
    manifest = run_jobs(of_round.name_of("removals"), trail, jobs)
    return manifest.model_copy(
        update={"facts": decisions_manifest.facts}
    )  # what the accounts say of how it was decided
