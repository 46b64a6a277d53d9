"""Links: the pairs by which documents may be removed; and contradictions, the pairs whose facts differ.

Rows out of `links`: EDGES, as of `tasks.signatures.edges`. Rows out of `contradictions`, published under this name:
PAIRS whose cosine is that of duplicates, of which each document has facts that the other lacks.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.dedup.part_tables import distinct_pairs
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.semantic.compared_texts import Relation
from zyda_flows.tasks.semantic.costs import groups_cost
from zyda_flows.tasks.semantic.models import is_semantic, semantic_of
from zyda_flows.tasks.signatures.edges import EDGES
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.tables import read_table, write_table

VERSION = 2


@dataclass(frozen=True)
class LinksOfGroup(ArtifactJob):
    """The links of a group's documents. needs_facts: whether a document needs the facts of the other."""

    stage, version = "links", VERSION

    pairs: Artifact
    cosine: float
    needs_facts: bool

    @property
    def name(self) -> str:
        return self.pairs.name

    def make(self) -> Artifact:
        table = similar(read_table(self.folder, self.pairs), self.cosine)
        if self.needs_facts:
            table = table.filter(table.column("agrees"))
        ids, others = (table.column(name).to_numpy() for name in ("doc_id", "other_id"))
        a, b = distinct_pairs(np.minimum(ids, others), np.maximum(ids, others))
        return write_table(self.folder, self.path, self.name, pa.table([a, b], schema=EDGES))


@dataclass(frozen=True)
class ContradictionsOfGroup(ArtifactJob):
    """The pairs of a group's documents that are similar and contradict each other, each once."""

    stage, version = "contradictions", VERSION

    pairs: Artifact
    cosine: float

    @property
    def name(self) -> str:
        return self.pairs.name

    def make(self) -> Artifact:
        table = similar(read_table(self.folder, self.pairs), self.cosine)
        is_first = pc.less(table.column("doc_id"), table.column("other_id"))
        table = table.filter(pc.and_(is_first, pc.equal(table.column("relation"), Relation.CONTRADICTION)))
        return write_table(self.folder, self.path, self.name, table)


def similar(pairs: pa.Table, cosine: float) -> pa.Table:
    """Return the pairs of a cosine or more, which is compared as float32, as it is stored."""
    return pairs.filter(pc.greater_equal(pairs.column("cosine"), pa.scalar(np.float32(cosine), pa.float32())))


def links_key(dedup_round: Round, confirmed: Receipt) -> str:
    settings = semantic_of(dedup_round).semantic
    return stage_key("links", VERSION, [settings.cosine, settings.facts], confirmed.identity)


@stage("links", links_key, scope="corpus", inputs=("confirm",), enabled=is_semantic, cost=groups_cost)
def links(dedup_round: Round, confirmed: Receipt) -> Manifest:
    """Find the pairs of which a document may be removed for the other."""
    settings = semantic_of(dedup_round).semantic
    jobs = [
        LinksOfGroup(dedup_round.folder, None, pairs, settings.cosine, settings.facts == "same")
        for pairs in load_manifest(dedup_round.folder, confirmed).artifacts
    ]
    files = fan_out(ArtifactJob.__call__, jobs, stage=dedup_round.name_of("links"), source=None)
    return Manifest(stage="links", artifacts=tuple(files))


def contradictions_key(dedup_round: Round, confirmed: Receipt) -> str:
    return stage_key("contradictions", VERSION, semantic_of(dedup_round).semantic.cosine, confirmed.identity)


@stage(
    "contradictions",
    contradictions_key,
    scope="corpus",
    inputs=("confirm",),
    enabled=is_semantic,
    published_as="contradictions",
    cost=groups_cost,
)
def contradictions(dedup_round: Round, confirmed: Receipt) -> Manifest:
    """Find the similar pairs whose facts differ."""
    cosine = semantic_of(dedup_round).semantic.cosine
    jobs = [
        ContradictionsOfGroup(dedup_round.folder, None, pairs, cosine)
        for pairs in load_manifest(dedup_round.folder, confirmed).artifacts
    ]
    files = fan_out(ArtifactJob.__call__, jobs, stage=dedup_round.name_of("contradictions"), source=None)
    return Manifest(stage="contradictions", artifacts=tuple(files))
