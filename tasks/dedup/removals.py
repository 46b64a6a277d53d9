"""Removals: write the decisions about duplicates as verdicts, shard by shard.

Rows out: DECISIONS and `reason`, sorted by doc_id, for every remaining document of a shard. `reason` and
`kept_doc_id` are null for kept documents. A document outside of any cluster has its doc_id as its `cluster_id`.
There is a table for each shard, so that an unchanged shard is recognised by its digest.
"""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.dedup.by_pairs import EVIDENCE
from zyda_flows.tasks.dedup.decisions import DECISIONS
from zyda_flows.tasks.dedup.exchange import Files, list_files
from zyda_flows.tasks.dedup.forests import SIZES
from zyda_flows.tasks.dedup.verify import comparison_of
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.recipe.semantic import SemanticRound
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
    """The removed documents of a shard, and the clusters of the kept documents.

    names: the names of CLUSTER_COLUMNS in the table of kept documents.
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
        dedup_round = [
            DECISIONS.field(name).with_name(called)
            for name, called in zip(CLUSTER_COLUMNS, self.names, strict=True)
            if called != name
        ]
        return pa.schema([*DECISIONS, *dedup_round, *self.evidence, REASON])

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


def evidence_schema_of(dedup: Dedup) -> pa.Schema:
    return EVIDENCE if isinstance(dedup, SemanticRound) else comparison_of(dedup).evidence_schema


def evidence_of(dedup_round: Round) -> pa.Schema | None:
    """Return the columns that are published for a removed document and its kept document."""
    return evidence_schema_of(dedup_round.dedup) or None


def key(dedup_round: Round, trail: Trail, decisions_receipt: Receipt) -> str:
    reason = dedup_round.dedup.sentences.reason.name
    return stage_key("removals", VERSION, reason, *trail.identities, decisions_receipt.identity)


def reasons_of(dedup_round: Round) -> dict[str, str]:
    """Return the reasons for which documents are removed in a round: a single reason."""
    return dict([dedup_round.dedup.sentences.reason])


@stage("removals", key, inputs=("trail", "decisions"), reasons=reasons_of, evidence=evidence_of)
def removals(dedup_round: Round, trail: Trail, decisions_receipt: Receipt) -> Manifest:
    """Find the documents of a source that are removed."""
    folder = dedup_round.folder
    decisions_manifest, evidence = (
        load_manifest(folder, decisions_receipt),
        tuple(evidence_of(dedup_round) or ()),
    )
    reason, names = dedup_round.dedup.sentences.reason.name, tuple(map(dedup_round.name_of, CLUSTER_COLUMNS))
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
    manifest = run_jobs(dedup_round.name_of("removals"), trail, jobs)
    # The facts state how it was decided, for the accounts.
    intermediate = (*manifest.intermediate, decided_files.path)
    return manifest.model_copy(update={"facts": decisions_manifest.facts, "intermediate": intermediate})
