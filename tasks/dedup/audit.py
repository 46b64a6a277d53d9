"""Audit: compare a sample of the removed documents with the documents that were kept for them, by their texts.

Buckets and clusters come from signatures, and a chain of buckets can join documents that share little. So the audit
reads the texts and compares them. `tasks.dedup.pairings` chooses the pairs, `tasks.dedup.likeness` compares them.
Rows out: AUDIT.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.audited import DecisionFacts, IndexCounts
from zyda_flows.tasks.dedup.contested import first_and_last
from zyda_flows.tasks.dedup.costs import audit_cost
from zyda_flows.tasks.dedup.likeness import AUDIT, ComparedPairs, ids_in
from zyda_flows.tasks.dedup.pairings import PAIRS, TEXTS, Pairing, pairings_of
from zyda_flows.tasks.ids import Ids, files_of, sources_of, split
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.signatures.bands import numbers_in_name
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import (
    Artifact,
    Manifest,
    Receipt,
    artifact_path,
    load_manifest,
    stage_key,
)
from zyda_flows.tasks.storage.counts import Counts, total
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import tables_of, write_table

VERSION = 1
TEXT_AT_ONCE = 64 << 20  # bytes of text that a worker compares at a time, about


@dataclass(frozen=True)
class TextsOfShard(ArtifactJob):
    """The texts of some documents of a shard: `doc_id`, `text`."""

    stage, version = "audit", VERSION

    shard: Artifact
    doc_ids: Ids

    @property
    def name(self) -> str:
        return self.shard.name

    def make(self) -> Artifact:
        wanted = pc.field("doc_id").isin(pa.array(self.doc_ids))
        parts = [part.filter(wanted) for part in tables_of(self.folder, self.shard, ["doc_id", "text"])]
        table = pa.concat_tables(parts)
        size = pc.sum(pc.binary_length(table.column("text"))).as_py() or 0
        counts = Counts(documents=len(table), bytes=size)
        return write_table(self.folder, self.path, self.name, table, counts=counts)


class AuditedRound(Facts):
    """The facts of an audit's manifest: the trails of all sources, from which the audit can be repeated."""

    trails: tuple[tuple[Receipt, ...], ...]
    by_index: IndexCounts | None = None


def key(dedup_round: Round, trails: list[Trail], pairs: int = PAIRS) -> str:
    identities = [identity for trail in trails for identity in trail.identities]
    dedup = minhash_round_of(dedup_round)
    params = [pairs, dedup.key_parameters, dedup.measure]
    return stage_key("audit", VERSION, params, *identities)


def minhash_round_of(dedup_round: Round) -> MinHashRound:
    """Return the round: only rounds of near-duplicates are audited."""
    assert isinstance(dedup_round.dedup, MinHashRound)
    return dedup_round.dedup


def is_audited(dedup_round: Round, _: str) -> bool:
    return isinstance(dedup_round.dedup, MinHashRound)


@stage(
    "audit",
    key,
    scope="corpus",
    inputs=("trails",),
    enabled=is_audited,
    published_as="audit",
    cost=audit_cost,
)
def audit(dedup_round: Round, trails: list[Trail], pairs: int = PAIRS) -> Manifest:
    """Compare a sample of the documents that were removed as near-duplicates with the kept documents.

    trails: of each source; the last receipt is of the stage that removed the documents. pairs: the most pairs in
    all.
    """
    folder = dedup_round.folder
    pairings = pairings_of(folder, trails, pairs)
    text_jobs = texts_to_read(folder, trails, ids_in(pairings))
    texts = fan_out(ArtifactJob.__call__, text_jobs, stage=TEXTS, source=None)
    total_read = total(text.counts for text in texts)
    jobs = list[ComparedPairs]()
    for batch in in_batches(pairings, total_read.bytes / max(1, total_read.documents)):
        wanted = ids_in(batch)
        has_wanted = [bool(np.isin(job.doc_ids, wanted).any()) for job in text_jobs]
        needed = [text for text, is_needed in zip(texts, has_wanted, strict=True) if is_needed]
        jobs.append(ComparedPairs(folder, minhash_round_of(dedup_round), tuple(batch), tuple(needed)))
    tables = fan_out(lambda job: job(), jobs, stage=dedup_round.name_of("audit"), source=None)
    table = pa.concat_tables([AUDIT.empty_table(), *tables]).sort_by("doc_id")
    path = artifact_path("audit", None, "all", key(dedup_round, trails, pairs))
    shard = write_table(folder, path, "all", table)
    return Manifest(
        stage="audit",
        artifacts=(shard,),
        intermediate=tuple(text.path for text in texts),
        facts=AuditedRound(
            trails=tuple(tuple(trail.receipts) for trail in trails),
            by_index=load_manifest(folder, trails[0].receipts[-1]).facts_as(DecisionFacts).by_index,
        ).written(),
    )


def in_batches(pairings: Sequence[Pairing], text_bytes: float) -> Iterator[list[Pairing]]:
    """Group pairings whose texts are TEXT_AT_ONCE together, at least one. text_bytes: the mean size of a text."""
    batch, size = list[Pairing](), 0.0
    for pairing in pairings:
        grows = text_bytes * len(ids_in([pairing]))
        if batch and size + grows > TEXT_AT_ONCE:
            yield batch
            batch, size = [], 0.0
        batch.append(pairing)
        size += grows
    if batch:
        yield batch


def texts_to_read(folder: Folder, trails: list[Trail], wanted: Ids) -> list[TextsOfShard]:
    """Find the shards into which documents were ingested. wanted: (n,) doc_ids, ascending."""
    jobs = list[TextsOfShard]()
    for trail in trails:
        shards = [history.shard for history in load_histories(folder, trail)]
        source_ids = wanted[sources_of(wanted) == number_of(folder, shards)] if shards else wanted[:0]
        files = set(files_of(source_ids).tolist())
        for shard in shards:
            if numbers_in_name(shard)[0] in files:
                first, last = first_and_last(folder, shard)
                shard_ids = source_ids[(source_ids >= first) & (source_ids <= last)]
                jobs += [TextsOfShard(folder, trail.source, shard, shard_ids)] if len(shard_ids) else []
    return jobs


def number_of(folder: Folder, shards: Sequence[Artifact]) -> int:
    """Return the number of a source, from the ids of its documents."""
    return split(first_and_last(folder, shards[0])[0])[0]
