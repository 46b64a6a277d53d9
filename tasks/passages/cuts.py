"""Cuts: the documents of a source that are cut or removed for their passages, in the accounts of the build.

Rows out: CUTS of `tasks.passages.shards`. `tasks.publish` cuts the texts.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.passages.passages import CutFacts
from zyda_flows.tasks.passages.shards import CUTS, REPEATED_PASSAGES
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import REASON, Trail, counts_of, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.tables import read_table

VERSION = 1
REASONS = {REPEATED_PASSAGES: "its passages are in other documents, and too little of it would be left"}


@dataclass(frozen=True)
class CutsOfShard(VerdictJob):
    """The documents of a shard that are cut or removed. cuts: CUTS of the shard."""

    stage, version = "cuts", VERSION
    schema, reasons = CUTS, REASONS

    cuts: Artifact

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        return read_table(self.folder, self.cuts)

    def cut(self, table: pa.Table, remaining: pa.Table) -> Counts:
        """Return the difference between the counts of the kept documents before and after the cut."""
        kept = table.filter(pc.is_null(table.column(REASON.name)))
        before = counts_of(remaining, kept.column("doc_id").to_numpy())
        return Counts(
            tokens=before.tokens - (pc.sum(kept.column("tokens_left")).as_py() or 0),
            bytes=before.bytes - (pc.sum(kept.column("bytes_left")).as_py() or 0),
        )


def key(recipe: Recipe, trail: Trail, passages_receipt: Receipt) -> str:
    return stage_key("cuts", VERSION, None, *trail.identities, passages_receipt.identity)


def is_cut(recipe: Recipe, source: str) -> bool:
    return bool(recipe.passages) and not recipe.source(source).exempt


@stage("cuts", key, inputs=("trail", "passages"), enabled=is_cut, reasons=REASONS)
def cuts(recipe: Recipe, trail: Trail, passages_receipt: Receipt) -> Manifest:
    """Remove the documents of a source that have too little text of their own, and account for what is cut."""
    facts = load_manifest(recipe.folder, passages_receipt).facts_as(CutFacts)
    histories = load_histories(recipe.folder, trail)
    tables = facts.cuts.get(trail.source, ())
    jobs = [
        CutsOfShard(recipe.folder, trail.source, history, table)
        for history, table in zip(histories, tables, strict=True)
    ]
    return run_jobs("cuts", trail, jobs)
