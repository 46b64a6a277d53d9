"""Propose: the pairs of documents whose vectors of a cheap model are similar, over all sources.

Rows out, in a file for each group of shards: `doc_id`, `other_id` and `proposed_cosine`, sorted by the first two; a
row for each document of a pair. The cosines are exact for the vectors in 8 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.accounts.paired import ProposedCounts
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import RowsByPart, gather_files, list_files, with_common_shift
from zyda_flows.tasks.dedup.part_tables import PART, place_among
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.semantic.bands import bands_for, bits_for, found_share, most_different
from zyda_flows.tasks.semantic.candidates import CandidateFile, CandidatesOfRange
from zyda_flows.tasks.semantic.costs import PROPOSED, SIGNS, propose_cost
from zyda_flows.tasks.semantic.exchange import (
    PairsOfGroup,
    SentCandidates,
    cosines,
    exchanged_pairs,
    files_by_group,
    places_of_first,
)
from zyda_flows.tasks.semantic.groups import ComparedShards, ShardGroups, compared_shards, group_of
from zyda_flows.tasks.semantic.models import device_of, is_semantic, proposing_model, semantic_of
from zyda_flows.tasks.semantic.vectors import (
    STAGE,
    VERSION,
    CheapVectorsOfShard,
    KeysOfVectors,
    as_binary,
    as_vectors,
    read_vectors,
)
from zyda_flows.tasks.signatures.bands import key_ranges
from zyda_flows.tasks.signatures.merging import merge_groups
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, stage_key

BATCH = 1 << 16  # pairs that are compared together


@dataclass(frozen=True, kw_only=True)
class SentVectors(SentCandidates):
    """The candidates of a group with vectors. vectors: the files of the group."""

    stage, version = STAGE, VERSION

    vectors: tuple[Artifact, ...]

    def content(self, doc_ids: Ids) -> pa.Table:
        ids, vectors = read_vectors(self.folder, self.vectors)
        return pa.table({"vector": as_binary(vectors[np.searchsorted(ids, doc_ids)])})


@dataclass(frozen=True, kw_only=True)
class ProposedPairs(RowsByPart):
    """The pairs above a cosine whose second document is in a group, by the group of the first document.

    shared_files: the vectors sent to the group. vectors: the files of the group.
    """

    stage, version = STAGE, VERSION

    vectors: tuple[Artifact, ...]
    starts: Ids
    cosine: float

    def rows(self) -> pa.Table:
        assert self.shared_files
        tables, _ = self.shared_files.part(self.part)
        ids, vectors = read_vectors(self.folder, self.vectors)
        pairs = [self.above(table, ids, vectors) for table in tables]
        schema = pa.schema([PART, ("a", pa.uint64()), ("b", pa.uint64()), ("proposed_cosine", pa.float32())])
        whole = pa.concat_tables([schema.empty_table(), *pairs])
        return whole.take(pa.array(np.argsort(whole.column(PART.name).to_numpy(), kind="stable")))

    def above(self, sent: pa.Table, ids: Ids, vectors: Any) -> pa.Table:
        """Return the pairs of a table above the cosine. ids, vectors: of the group, (n,) and (n, dims)."""
        a, b = (sent.column(name).to_numpy() for name in ("a", "b"))
        first = places_of_first(sent.column("vector").is_valid().to_numpy())
        theirs = as_vectors(sent.column("vector"), np.int8)
        places, _ = place_among(ids, b)
        found = [np.empty(0)]
        for start in range(0, len(a), BATCH):
            rows = slice(start, start + BATCH)
            found.append(cosines(theirs[first[rows]], vectors[places[rows]]))
        similar = np.concatenate(found)
        is_above = similar >= self.cosine
        columns = [group_of(self.starts, a), a, b, similar.astype(np.float32)]
        names = [PART.name, "a", "b", "proposed_cosine"]
        return pa.table([column[is_above] for column in columns], names=names)


@dataclass(frozen=True, kw_only=True)
class ProposedOfGroup(PairsOfGroup):
    """The proposed pairs of a group's documents."""

    stage, version = STAGE, VERSION


def key(dedup_round: Round, trails: list[Trail], sources: Sequence[NumberedSource]) -> str:
    settings = semantic_of(dedup_round).semantic
    identities = [identity for trail in trails for identity in trail.identities]
    taking_part = [trail.source for trail in trails if not dedup_round.recipe.source(trail.source).exempt]
    model = proposing_model(dedup_round)
    params = [model.digest, model.precision(device_of(dedup_round)), settings.proposing_cosine, taking_part]
    return stage_key(STAGE, VERSION, params, *identities)


@stage(STAGE, key, scope="corpus", inputs=("trails", "sources"), enabled=is_semantic, cost=propose_cost)
def propose(dedup_round: Round, trails: list[Trail], sources: Sequence[NumberedSource]) -> Manifest:
    """Find the pairs of similar vectors."""
    return search(dedup_round, compared_shards(dedup_round, trails, sources), STAGE)


def search(dedup_round: Round, shards: ComparedShards, stage_name: str) -> Manifest:
    """Find the pairs of similar vectors of the documents of shards.

    With shards of other corpora, only the pairs of a document of this corpus and one of another corpus. Raises
    NotConserved if a band key was not read exactly once.
    """
    folder, name, model = dedup_round.folder, dedup_round.name_of(stage_name), proposing_model(dedup_round)
    cosine = semantic_of(dedup_round).semantic.proposing_cosine
    fanning = partial(fan_out, Job.__call__, source=None)
    run_signs, run_pairs = (partial(fanning, stage=dedup_round.name_of(each)) for each in (SIGNS, PROPOSED))
    vector_jobs = [
        CheapVectorsOfShard(folder, shard.source, shard.texts, shard.history, model, device_of(dedup_round))
        for shard in shards.shards
    ]
    vectors: list[Artifact] = fanning(vector_jobs, stage=name, engine=dedup_round.recipe.engine)
    if not vectors:
        return Manifest(stage=stage_name, facts=ProposedCounts().written())
    groups = shards.by_vectors(model.dims)
    documents = sum(file.rows for file in vectors)
    bits, bands = bits_for(documents), bands_for(documents, cosine)
    key_jobs = [
        KeysOfVectors(folder, shard.source, file, bands)
        for shard, file in zip(shards.shards, vectors, strict=True)
    ]
    keys, intermediate = merged_keys(key_jobs, run_signs(key_jobs), bands)
    naming = Naming(dedup_round.number, 0)
    candidate_jobs = [
        CandidatesOfRange(
            folder=folder,
            source=None,
            naming=naming,
            part=number,
            keys=list_files(folder, keys),
            band=band,
            range=key_range,
            bits=bits,
            most_different=most_different(bits, cosine),
            starts=groups.starts,
            first_reference=shards.first_reference,
        )
        for band in range(bands)
        for number, key_range in enumerate(key_ranges(documents))
    ]
    found: list[CandidateFile] = run_signs(with_common_shift(candidate_jobs, len(groups)))
    if (read := sum(each.rows for each in found)) != documents * bands:
        raise NotConserved(f"{name}: {documents * bands:,} band keys were written, but {read:,} read")
    candidates = [each.artifact for each in found]
    by_group = files_by_group(vectors, groups.members)
    pairs, more = proposed_pairs(groups, candidates, by_group, cosine, candidate_jobs[0], run_pairs)
    facts = ProposedCounts(
        documents=documents,
        bits=bits,
        bands=bands,
        found=round(found_share(bits, bands, cosine), 4),
        candidates=sum(file.rows for file in candidates),
        uncompared=sum(each.uncompared for each in found),
        left_out=sum(each.left_out for each in found),
        pairs=sum(file.rows for file in pairs) // 2,
    )
    paths = [file.path for file in (*vectors, *keys, *candidates, *more)]
    return Manifest(
        stage=stage_name, artifacts=tuple(pairs), intermediate=(*intermediate, *paths), facts=facts.written()
    )


def merged_keys(
    jobs: Sequence[KeysOfVectors], files: Sequence[Artifact], bands: int
) -> tuple[list[Artifact], list[str]]:
    """Merge the band keys of large sources; return the files, and the paths of merged files."""
    merged, paths = list[Artifact](), list[str]()
    for source in dict.fromkeys(job.source for job in jobs):
        own = [file for job, file in zip(jobs, files, strict=True) if job.source == source]
        *lower_levels, top_level = merge_groups(jobs[0].folder, source, own, bands)
        merged += top_level
        paths += [file.path for level in lower_levels for file in level]
    return merged, paths


def proposed_pairs(
    groups: ShardGroups,
    candidates: Sequence[Artifact],
    vectors: Sequence[tuple[Artifact, ...]],
    cosine: float,
    job: CandidatesOfRange,
    run_jobs: Any,
) -> tuple[list[Artifact], list[Artifact]]:
    """Compare the candidates; return the files of pairs of each group, and the files that were exchanged."""
    asked = gather_files(job, candidates, len(groups), run_jobs)
    common: list[dict[str, Any]] = [
        {"folder": job.folder, "source": None, "naming": job.naming, "part": i, "vectors": vectors[i],
         "starts": groups.starts}
        for i in range(len(groups))
    ]  # fmt: skip
    sending = [SentVectors(**group, shared_files=asked.files(i)) for i, group in enumerate(common)]
    comparing = [ProposedPairs(**group, cosine=cosine) for group in common]
    return exchanged_pairs(sending, comparing, ProposedOfGroup, run_jobs)
