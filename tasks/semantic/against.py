"""Against: the documents with the same content as a document of another published corpus.

Some stages come before the other stages of a semantic round with `against`. `propose_against` and `confirm_against`
find and compare the pairs of a document of this corpus and a document of another corpus, whose texts are read.
`pairs_against` writes them with the names of the corpora: rows out, published under this name, MATCHED, sorted by
doc_id. `content_against` removes documents, if the round does. Then the round compares the other documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.by_pairs import EVIDENCE, is_duplicate
from zyda_flows.tasks.dedup.contested import first_and_last
from zyda_flows.tasks.dedup.reference.corpora import content_of, texts_of
from zyda_flows.tasks.ids import SOURCE_SHIFT, sources_of
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.semantic.confirm import PAIRS, compare
from zyda_flows.tasks.semantic.confirm import key as confirm_key
from zyda_flows.tasks.semantic.costs import confirm_cost, groups_cost, propose_cost
from zyda_flows.tasks.semantic.groups import compared_shards, numbers_here
from zyda_flows.tasks.semantic.models import is_semantic, semantic_of
from zyda_flows.tasks.semantic.propose import key as propose_key
from zyda_flows.tasks.semantic.propose import search
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import REASON, Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.tables import read_table, rows_between, write_table

VERSION = 1
PROPOSE, CONFIRM, NAMED, REMOVE = "propose_against", "confirm_against", "pairs_against", "content_against"
MATCH = pa.schema([("matched_corpus", pa.string()), ("matched_doc_id", pa.uint64())])
MATCHED = pa.schema(
    [PAIRS.field("doc_id"), *MATCH, *(field for field in PAIRS if field.name not in ("doc_id", "other_id"))]
)


def is_against_others(dedup_round: Round, source: str) -> bool:
    return is_semantic(dedup_round, source) and bool(dedup_round.dedup.against)


def search_key(
    dedup_round: Round,
    trails: list[Trail],
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus],
) -> str:
    corpora = [content_of(texts_of(other)) for other in references]
    return stage_key(PROPOSE, VERSION, [propose_key(dedup_round, trails, sources), corpora])


@stage(
    PROPOSE,
    search_key,
    scope="corpus",
    inputs=("trails", "sources", "references"),
    enabled=is_against_others,
    cost=propose_cost,
)
def propose_against(
    dedup_round: Round,
    trails: list[Trail],
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus],
) -> Manifest:
    """Find the pairs of similar vectors of this corpus and of other corpora."""
    return search(dedup_round, compared_shards(dedup_round, trails, sources, references), PROPOSE)


@stage(
    CONFIRM,
    confirm_key,
    scope="corpus",
    inputs=("trails", PROPOSE, "sources", "references"),
    enabled=is_against_others,
    cost=confirm_cost,
)
def confirm_against(
    dedup_round: Round,
    trails: list[Trail],
    proposed: Receipt,
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus],
) -> Manifest:
    """Compare the pairs of this corpus and of other corpora."""
    return compare(dedup_round, compared_shards(dedup_round, trails, sources, references), proposed, CONFIRM)


@dataclass(frozen=True)
class NamedPairs(ArtifactJob):
    """The pairs of a group's documents with documents of other corpora: MATCHED.

    labels: of the corpora. renumbered: for each corpus, the numbers of its sources there and here.
    """

    stage, version = NAMED, VERSION

    pairs: Artifact
    labels: tuple[str, ...]
    renumbered: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def name(self) -> str:
        return self.pairs.name

    def make(self) -> Artifact:
        pairs = read_table(self.folder, self.pairs)
        here = {
            own: (label, there)
            for label, numbers in zip(self.labels, self.renumbered, strict=True)
            for there, own in numbers
        }
        is_own = ~np.isin(sources_of(pairs.column("doc_id").to_numpy()), [*here])
        pairs = pairs.filter(pa.array(is_own))
        others = pairs.column("other_id").to_numpy()
        matches = [here[number] for number in sources_of(others).tolist()]
        there = np.array([number for _, number in matches], np.uint64) << np.uint64(SOURCE_SHIFT)
        columns = {name: pairs.column(name) for name in pairs.column_names}
        columns |= {
            "matched_corpus": pa.array([label for label, _ in matches], pa.string()),
            "matched_doc_id": pa.array(there | others & np.uint64((1 << SOURCE_SHIFT) - 1)),
        }
        table = pa.table([columns[name] for name in MATCHED.names], schema=MATCHED)
        return write_table(self.folder, self.path, self.name, table)


def names_key(
    dedup_round: Round,
    confirmed: Receipt,
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus],
) -> str:
    return stage_key(NAMED, VERSION, [other.label for other in references], confirmed.identity)


@stage(
    NAMED,
    names_key,
    scope="corpus",
    inputs=(CONFIRM, "sources", "references"),
    enabled=is_against_others,
    published_as=NAMED,
    cost=groups_cost,
)
def pairs_against(
    dedup_round: Round,
    confirmed: Receipt,
    sources: Sequence[NumberedSource],
    references: Sequence[PublishedCorpus],
) -> Manifest:
    """Write the pairs with the names of the other corpora."""
    renumbered = numbers_here(references, max((source.number for source in sources), default=-1))
    labels = tuple(other.label for other in references)
    jobs = [
        NamedPairs(dedup_round.folder, None, pairs, labels, tuple(renumbered))
        for pairs in load_manifest(dedup_round.folder, confirmed).artifacts
    ]
    files = fan_out(ArtifactJob.__call__, jobs, stage=dedup_round.name_of(NAMED), source=None)
    return Manifest(stage=NAMED, artifacts=tuple(file for file in files if file.rows))


@dataclass(frozen=True)
class ContentRemovals(VerdictJob):
    """The removed documents of a shard, each with its match in another corpus.

    pairs: MATCHED. labels: of the corpora, in the order of the recipe. facts: as in the recipe.
    """

    stage, version = REMOVE, VERSION

    pairs: Annotated[tuple[Artifact, ...], NotInKey("only the pairs of this shard count, which are hashed")]
    labels: tuple[str, ...]
    reason: str
    cosine: float
    facts: str

    @property
    def reasons(self) -> tuple[str, ...]:
        return (self.reason,)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("doc_id", pa.uint64()), *MATCH, *EVIDENCE, REASON])

    @cached_property
    def matches(self) -> pa.Table:
        """The pairs of this shard by which a document may be removed, the best of each document first."""
        if not self.pairs:
            return MATCHED.empty_table()
        table = rows_between(self.folder, self.pairs, *first_and_last(self.folder, self.history.shard))
        table = table.filter(is_duplicate(table, self.cosine, self.facts))
        place = pc.index_in(table.column("matched_corpus"), pa.array(self.labels, pa.string()))
        order = [("doc_id", "ascending"), ("place", "ascending"), ("cosine", "descending")]
        return table.append_column("place", place).sort_by([*order, ("matched_doc_id", "ascending")])

    @property
    def also_in_key(self) -> str:
        columns = [self.matches.column(name).to_pylist() for name in self.matches.column_names]
        return sha256(repr(columns).encode()).hexdigest()

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        ids = self.matches.column("doc_id").to_numpy()
        is_first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
        is_first &= np.isin(ids, remaining.column("doc_id").to_numpy())
        table = self.matches.filter(pa.array(is_first))
        columns: dict[str, Any] = {name: table.column(name) for name in table.column_names}
        columns[REASON.name] = pa.array([self.reason] * len(table), pa.string())
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)


def removes_content(dedup_round: Round, source: str) -> bool:
    if not is_against_others(dedup_round, source) or not semantic_of(dedup_round).semantic.remove:
        return False
    return not source or dedup_round.recipe.is_removable(source)


def removal_key(
    dedup_round: Round, trail: Trail, named: Receipt, references: Sequence[PublishedCorpus]
) -> str:
    settings, labels = semantic_of(dedup_round), [other.label for other in references]
    params = [
        settings.sentences.reference_reason.name,
        settings.semantic.cosine,
        settings.semantic.facts,
        labels,
    ]
    return stage_key(REMOVE, VERSION, params, *trail.identities, named.identity)


def reasons_of(dedup_round: Round) -> dict[str, str]:
    """Return the reason of removals with its sentence; empty if the round removes nothing for other corpora."""
    if not removes_content(dedup_round, ""):
        return {}
    return dict([dedup_round.dedup.sentences.reference_reason])


@stage(
    REMOVE,
    removal_key,
    inputs=("trail", NAMED, "references"),
    enabled=removes_content,
    reasons=reasons_of,
    evidence=pa.schema([*MATCH, *EVIDENCE]),
)
def content_against(
    dedup_round: Round, trail: Trail, named: Receipt, references: Sequence[PublishedCorpus]
) -> Manifest:
    """Remove the documents of a source whose content a reference corpus already contains."""
    settings, pairs = semantic_of(dedup_round), load_manifest(dedup_round.folder, named).artifacts
    jobs = [
        ContentRemovals(
            dedup_round.folder,
            trail.source,
            history,
            pairs=pairs,
            labels=tuple(other.label for other in references),
            reason=settings.sentences.reference_reason.name,
            cosine=settings.semantic.cosine,
            facts=settings.semantic.facts,
        )
        for history in load_histories(dedup_round.folder, trail)
    ]
    return run_jobs(dedup_round.name_of(REMOVE), trail, jobs)
