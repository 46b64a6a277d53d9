"""Confirm: compare the documents of proposed pairs by a strong model, and compare the facts of their texts.

Rows out, in a file for each group of shards, published as `pairs/`: PAIRS, sorted by doc_id and other_id; a row for
each document of a pair whose cosine is at least REPORTED, or the cosine of the round if that is lower.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.paired import ConfirmedCounts, ProposedCounts
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import RowsByPart
from zyda_flows.tasks.dedup.part_tables import PART, place_among
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.semantic.compared_texts import SIDES_OF_TEXTS, ComparedTexts, columns_of_sides
from zyda_flows.tasks.semantic.costs import CONFIRMED, confirm_cost
from zyda_flows.tasks.semantic.exchange import (
    SIDES,
    PairsOfGroup,
    SentDocuments,
    cosines,
    exchanged_pairs,
    files_by_group,
    places_of_first,
)
from zyda_flows.tasks.semantic.groups import ComparedShards, ShardGroups, TextShard, compared_shards, group_of
from zyda_flows.tasks.semantic.models import (
    confirming_model,
    device_of,
    is_semantic,
    proposing_model,
    semantic_of,
)
from zyda_flows.tasks.semantic.strong_vectors import STAGE, VERSION, StrongVectors, StrongVectorsOfShard
from zyda_flows.tasks.semantic.vectors import as_vectors, read_vectors
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.parts import TextFile, read_part
from zyda_flows.tasks.storage.tables import read_table, rows_between

REPORTED = 0.8  # the lowest cosine of a pair that is compared and published
BATCH = 1 << 14  # pairs that are compared together
PAIRS = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("other_id", pa.uint64()),
        ("cosine", pa.float32()),  # by the strong model
        ("proposed_cosine", pa.float32()),  # by the cheap model
        ("relation", pa.string()),  # a Relation
        ("agrees", pa.bool_()),  # whether the other document has all facts of the document
        ("lacks", pa.string()),  # the facts that the other document lacks
        ("novel", pa.float32()),  # the share of the document's 3-grams of words that the other document lacks
    ]
)
COMPARED = pa.schema(
    [PART, ("a", pa.uint64()), ("b", pa.uint64()),
     *(PAIRS.field(name) for name in ("cosine", "proposed_cosine", "relation")),
     *(PAIRS.field(name).with_name(f"{name}{side}") for side in SIDES for name in SIDES_OF_TEXTS.names)]
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SentTexts(SentDocuments):
    """The first documents of the proposed pairs of a group, with their vectors and texts, by the other's group.

    proposed: the pairs of its shards, and of others. vectors: of its shards. shards: of ingest.
    """

    stage, version = STAGE, VERSION

    proposed: tuple[Artifact, ...]
    vectors: tuple[Artifact, ...]
    shards: tuple[TextShard, ...]

    def pairs(self) -> pa.Table:
        first, last = self.shards[0].first_and_last()[0], self.shards[-1].first_and_last()[1]
        pairs = rows_between(self.folder, self.proposed, first, last)
        pairs = pairs.filter(pc.less(pairs.column("doc_id"), pairs.column("other_id")))
        return pairs.rename_columns(["a", "b", "proposed_cosine"])

    def content(self, doc_ids: Ids) -> pa.Table:
        table = pa.concat_tables(read_table(self.folder, file) for file in self.vectors)
        vectors = table.column("vector").take(
            pa.array(np.searchsorted(table.column("doc_id").to_numpy(), doc_ids))
        )
        texts = texts_of(self.shards, doc_ids).column("text")
        return pa.table({"vector": vectors, "text": texts.cast(pa.large_string())})


def texts_of(shards: Sequence[TextShard], doc_ids: Ids) -> pa.Table:
    """Return `doc_id` and `text` of documents, (n,), in the order of their ids."""
    wanted = pc.field("doc_id").isin(pa.array(doc_ids))
    parts = [part.filter(wanted) for shard in shards for part in shard.tables(["text"])]
    return pa.concat_tables(parts)


@dataclass(frozen=True, kw_only=True)
class ConfirmedPairs(RowsByPart):
    """The pairs whose second document is in a group, by the group of the first document: COMPARED.

    shared_files: the documents sent to the group. vectors, shards: of the group. cosine: the lowest of a pair.
    """

    stage, version = STAGE, VERSION

    vectors: tuple[Artifact, ...]
    shards: tuple[TextShard, ...]
    starts: Ids
    cosine: float

    def rows(self) -> pa.Table:
        assert self.shared_files
        with (
            self.folder.scratch_file() as scratch,
            read_part(self.folder, self.shared_files.artifacts, self.part, scratch) as (sent, texts),
        ):
            table = COMPARED.empty_table() if sent is None else self.compared(sent, texts)
        return table.take(pa.array(np.argsort(table.column(PART.name).to_numpy(), kind="stable")))

    def compared(self, sent: pa.Table, texts: TextFile) -> pa.Table:
        """Return COMPARED of the pairs that were sent. texts: of `sent`."""
        first = places_of_first(sent.column("vector").is_valid().to_numpy())
        similar = self.cosines(sent, first)
        rows = np.flatnonzero(similar >= self.cosine)
        a, b = (sent.column(name).to_numpy() for name in ("a", "b"))
        rows = rows[
            np.argsort(b[rows], kind="stable")
        ]  # each second document is compared with all others in turn
        a, b = a[rows], b[rows]
        sent_rows = dict(zip(a.tolist(), first[rows].tolist(), strict=True))
        compared = ComparedTexts(self.text_reader(np.unique(b), sent_rows, texts))
        sides = [compared.sides(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
        columns = {
            PART.name: group_of(self.starts, a),
            "a": a,
            "b": b,
            "cosine": similar[rows].astype(np.float32),
            "proposed_cosine": sent.column("proposed_cosine").take(pa.array(rows)),
            **columns_of_sides(sides),
        }
        return pa.table(columns, schema=COMPARED)

    def text_reader(self, own: Ids, sent_rows: dict[int, int], texts: TextFile) -> Callable[[int], str]:
        """Return a function that returns the text of a document.

        own: the documents of the group, (n,), ascending. sent_rows: the row in `texts` of each other document.
        """
        table = texts_of(self.shards, own)
        column = table.column("text").combine_chunks()
        places = dict(zip(table.column("doc_id").to_pylist(), range(len(table)), strict=True))

        def text_of(doc_id: int) -> str:
            if doc_id in places:
                return str(column[places[doc_id]].as_py())
            return str(texts.take(np.array([sent_rows[doc_id]]))[0].as_py())

        return text_of

    def cosines(self, sent: pa.Table, first: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine of each pair that was sent. first: the row with the vector of its first document."""
        ids, vectors = read_vectors(self.folder, self.vectors, np.int32)
        theirs = as_vectors(sent.column("vector"), np.int32)
        places, _ = place_among(ids, sent.column("b").to_numpy())
        found = [np.empty(0)]
        for start in range(0, len(first), BATCH):
            rows = slice(start, start + BATCH)
            found.append(cosines(theirs[first[rows]], vectors[places[rows]]))
        return np.concatenate(found)


@dataclass(frozen=True, kw_only=True)
class ConfirmedOfGroup(PairsOfGroup):
    """The confirmed pairs of a group's documents."""

    stage, version = STAGE, VERSION


def lowest_cosine(dedup_round: Round) -> float:
    """Return the lowest cosine of a pair that is published."""
    return min(REPORTED, semantic_of(dedup_round).semantic.cosine)


def key(dedup_round: Round, _: list[Trail], proposed: Receipt, *__: Any) -> str:
    model = confirming_model(dedup_round)
    params = [model.digest, model.precision(device_of(dedup_round)), lowest_cosine(dedup_round)]
    return stage_key(STAGE, VERSION, params, proposed.identity)


@stage(
    STAGE,
    key,
    scope="corpus",
    inputs=("trails", "propose", "sources"),
    enabled=is_semantic,
    published_as="pairs",
    cost=confirm_cost,
)
def confirm(
    dedup_round: Round, trails: list[Trail], proposed: Receipt, sources: Sequence[NumberedSource]
) -> Manifest:
    """Compare the proposed pairs."""
    return compare(dedup_round, compared_shards(dedup_round, trails, sources), proposed, STAGE)


def compare(dedup_round: Round, shards: ComparedShards, proposed: Receipt, stage_name: str) -> Manifest:
    """Compare the proposed pairs of shards. Raises NotConserved if a pair lacks a row."""
    folder, name, model = dedup_round.folder, dedup_round.name_of(stage_name), confirming_model(dedup_round)
    manifest = load_manifest(folder, proposed)
    found = manifest.facts_as(ProposedCounts)
    fanning = partial(fan_out, Job.__call__, source=None)
    if not manifest.artifacts:
        return Manifest(stage=stage_name, facts=ConfirmedCounts(proposed=found).written())
    proposing = shards.by_vectors(proposing_model(dedup_round).dims)
    files = [pairs for group, pairs in zip(proposing.members, manifest.artifacts, strict=True) for _ in group]
    strong_jobs = [
        StrongVectorsOfShard(folder, shard.source, shard.texts, pairs, model, device_of(dedup_round))
        for shard, pairs in zip(shards.shards, files, strict=True)
    ]
    strong: list[StrongVectors] = fanning(strong_jobs, stage=name, engine=dedup_round.recipe.engine)
    groups = shards.in_groups([made.bytes + made.artifact.rows * 4 * model.dims for made in strong])
    run_pairs = partial(fanning, stage=dedup_round.name_of(CONFIRMED))
    confirmed, exchanged = confirmed_pairs(dedup_round, groups, files, strong, run_pairs)
    rows = sum(file.rows for file in confirmed)
    if rows % 2:
        raise NotConserved(f"{name}: {rows:,} rows of pairs, expected two for each pair")
    facts = ConfirmedCounts(
        proposed=found,
        documents=sum(made.artifact.rows for made in strong),
        windows_left_out=sum(made.windows_left_out for made in strong),
        pairs=rows // 2,
    )
    paths = [*(made.artifact.path for made in strong), *(file.path for file in exchanged)]
    return Manifest(
        stage=stage_name, artifacts=tuple(confirmed), intermediate=tuple(paths), facts=facts.written()
    )


def confirmed_pairs(
    dedup_round: Round,
    groups: ShardGroups,
    proposed: Sequence[Artifact],
    strong: Sequence[StrongVectors],
    run_jobs: Any,
) -> tuple[list[Artifact], list[Artifact]]:
    """Compare the pairs; return the files of pairs of each group, and the files that were exchanged.

    proposed, strong: the proposed pairs of the group of each shard, and the vectors of each shard.
    """
    folder, naming = dedup_round.folder, Naming(dedup_round.number, 0)
    pairs = files_by_group(proposed, groups.members)
    vectors = files_by_group([made.artifact for made in strong], groups.members)
    common: list[dict[str, Any]] = [
        {"folder": folder, "source": None, "naming": naming, "part": i, "vectors": vectors[i],
         "shards": tuple(shard.texts for shard in group), "starts": groups.starts}
        for i, group in enumerate(groups.members)
    ]  # fmt: skip
    sending = [
        SentTexts(**group, proposed=tuple(dict.fromkeys(files)))
        for group, files in zip(common, pairs, strict=True)
    ]
    comparing = [ConfirmedPairs(**group, cosine=lowest_cosine(dedup_round)) for group in common]
    return exchanged_pairs(sending, comparing, ConfirmedOfGroup, run_jobs)
