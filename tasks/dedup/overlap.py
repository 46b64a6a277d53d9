"""Overlap: count the duplicates in each source, by the source of the documents that they duplicate.

Rows out, for each source: `documents` and `tokens` that

- enter the round (`entering`);
- would be removed if the source were deduplicated alone with scope `global` (`own`);
- would be removed if all sources were deduplicated with scope `global`, by source of the kept document (`global`);
- were removed, by the source of the kept document (`removed`).

The first three do not depend on the round's scope. If a round compares texts (`verify`), `own` and `global` are of
clusters that were not compared, and so upper bounds of the documents that such a round would remove; `removed` is
the result of the round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.cluster_files import shards_by_file
from zyda_flows.tasks.dedup.costs import overlap_cost
from zyda_flows.tasks.dedup.decisions import decided_by_ids
from zyda_flows.tasks.dedup.part_tables import place_among
from zyda_flows.tasks.dedup.preference import order_of, preference_of
from zyda_flows.tasks.dedup.verify import comparison_of
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.ids import MAX_SOURCES, Ids, sources_of
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail
from zyda_flows.tasks.storage.artifacts import (
    Artifact,
    Manifest,
    Receipt,
    artifact_path,
    load_manifest,
    stage_key,
)
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import read_table, write_table

VERSION = 2
TALLIES = pa.schema(
    [("kind", pa.string()), ("source", pa.uint16()), ("other", pa.uint16()), ("documents", pa.uint64()),
     ("tokens", pa.uint64())]
)  # fmt: skip
OVERLAP = pa.schema(
    [("kind", pa.string()), ("source", pa.string()), ("other", pa.string()), ("documents", pa.uint64()),
     ("tokens", pa.uint64())]
)  # fmt: skip


@dataclass(frozen=True)
class OverlapOfRange(ArtifactJob):
    """The duplicates in a range of documents, the range of a file of clusters: TALLIES.

    decided: the round's decisions; as_global: decisions with scope `global`; as_own: decisions about each source
    alone. shards: into which the documents were ingested.
    """

    stage, version = "overlap", VERSION

    decided: Artifact
    as_global: Artifact
    as_own: Artifact
    shards: tuple[Artifact, ...]
    number: int

    @property
    def name(self) -> str:
        return f"range-{self.number:05d}"

    def make(self) -> Artifact:
        ids = read_table(self.folder, self.as_global, ["doc_id"]).column("doc_id").to_numpy()
        tokens = self.tokens(ids)
        tallies = list[pa.Table]()
        for kind, table in (("own", self.as_own), ("global", self.as_global), ("removed", self.decided)):
            removed_ids, kept = self.pairs(table)
            tallies.append(tally(kind, removed_ids, kept, tokens[np.searchsorted(ids, removed_ids)]))
        return write_table(self.folder, self.path, self.name, pa.concat_tables(tallies))

    def pairs(self, decided: Artifact) -> tuple[Ids, Ids]:
        """Read which documents are removed, and which are kept for them: (n,) twice."""
        table = read_table(self.folder, decided, ["doc_id", "kept_doc_id"])
        table = table.filter(table.column("kept_doc_id").is_valid())
        return table.column("doc_id").to_numpy(), table.column("kept_doc_id").to_numpy()

    def tokens(self, ids: Ids) -> NDArray[np.uint64]:
        """Return the tokens of documents, (n,) ascending to (n,). Raises NotConserved if one is in no shard."""
        tokens, known = np.zeros(len(ids), np.uint64), 0
        for shard in self.shards if len(ids) else ():
            table = read_table(self.folder, shard, ["doc_id", "n_tokens"])
            shard_ids = table.column("doc_id").to_numpy()
            low, high = np.searchsorted(ids, shard_ids[[0, -1]]) + np.array([0, 1])
            places, is_known = place_among(shard_ids, ids[low:high])
            tokens[low:high][is_known] = table.column("n_tokens").to_numpy()[places[is_known]]
            known += int(is_known.sum())
        if known != len(ids):
            raise NotConserved(
                f"{self.whose}: {len(ids):,} documents are in clusters, but {known:,} of them in shards"
            )
        return tokens


def tally(kind: str, removed_ids: Ids, kept: Ids, tokens: NDArray[np.uint64]) -> pa.Table:
    """Count removed documents, and their tokens, by their source and the source of the kept document: (n,) each."""
    pairs = sources_of(removed_ids).astype(np.int64) * MAX_SOURCES + sources_of(kept)
    codes, places = np.unique(pairs, return_inverse=True)
    token_sums = np.zeros(len(codes), np.uint64)
    np.add.at(token_sums, places, tokens)
    columns = [
        codes // MAX_SOURCES,
        codes % MAX_SOURCES,
        np.bincount(places, minlength=len(codes)),
        token_sums,
    ]
    kinds = pa.array([kind] * len(codes), pa.string())
    arrays = [pa.array(column.astype(np.uint64)) for column in columns]
    return pa.table([kinds, *arrays], names=TALLIES.names).cast(TALLIES)


def key(
    dedup_round: Round,
    trails: list[Trail],
    clusters_receipt: Receipt,
    decisions_receipt: Receipt,
    own_receipt: Receipt,
    sources: list[NumberedSource],
) -> str:
    identities = [identity for trail in trails for identity in trail.identities]
    receipts = (clusters_receipt, decisions_receipt, own_receipt)
    params = [order_of(dedup_round, sources)]
    return stage_key("overlap", VERSION, params, *identities, *(receipt.identity for receipt in receipts))


@stage(
    "overlap",
    key,
    scope="corpus",
    inputs=("trails", "clusters", "decisions", "own_clusters", "sources"),
    published_as="overlap",
    cost=overlap_cost,
)
def overlap(
    dedup_round: Round,
    trails: list[Trail],
    clusters_receipt: Receipt,
    decisions_receipt: Receipt,
    own_receipt: Receipt,
    sources: list[NumberedSource],
) -> Manifest:
    """Count the duplicates of each source, by the sources of the kept documents. trails: before the round."""
    folder = dedup_round.folder
    order, order_key = preference_of(dedup_round, sources), digest_of(order_of(dedup_round, sources))

    def as_if_global(receipt: Receipt) -> Sequence[Artifact]:
        """Decide by ids and with scope `global`, independently of the round's settings."""
        files_key = stage_key("overlap", VERSION, order_key, receipt.identity)
        tables = load_manifest(folder, receipt).artifacts
        return decided_by_ids(
            dedup_round=dedup_round,
            tables=tables,
            order=order,
            order_key=order_key,
            scope="global",
            files_key=files_key,
            stage="overlap",
        )

    decided: Sequence[Artifact] = load_manifest(folder, decisions_receipt).artifacts
    as_own = as_if_global(own_receipt)
    dedup = dedup_round.dedup
    is_global = dedup.scope == "global" and dedup.has_keys and comparison_of(dedup).needs_only_ids
    as_global = decided if is_global else as_if_global(clusters_receipt)
    ranges = zip(decided, as_global, as_own, shards_by_file(folder, trails, sources), strict=True)
    jobs = [
        OverlapOfRange(
            folder=folder,
            source=None,
            decided=decided_file,
            as_global=global_file,
            as_own=own_file,
            shards=tuple(shards),
            number=number,
        )
        for number, (decided_file, global_file, own_file, shards) in enumerate(ranges)
    ]
    made = fan_out(ArtifactJob.__call__, jobs, stage=dedup_round.name_of("overlap"), source=None)
    table = with_source_names(
        pa.concat_tables([read_table(folder, artifact) for artifact in made]), trails, sources
    )
    overlap_key = key(dedup_round, trails, clusters_receipt, decisions_receipt, own_receipt, sources)
    path = artifact_path("overlap", None, "all", overlap_key)
    return Manifest(
        stage="overlap",
        artifacts=(write_table(folder, path, "all", table),),
        intermediate=tuple(artifact.path for artifact in (*made, *as_own, *as_global)),
    )


def with_source_names(
    tallies: pa.Table, trails: Sequence[Trail], sources: Sequence[NumberedSource]
) -> pa.Table:
    """Add up the tallies of all ranges by source, and add the documents that enter the round: OVERLAP."""
    names = {source.number: source.source for source in sources}
    added = tallies.group_by(["kind", "source", "other"]).aggregate([("documents", "sum"), ("tokens", "sum")])
    rows = [
        {"kind": row["kind"], "source": names[row["source"]], "other": names[row["other"]],
         "documents": row["documents_sum"], "tokens": row["tokens_sum"]}
        for row in added.to_pylist()
    ]  # fmt: skip
    rows += [
        {"kind": "entering", "source": trail.source, "other": trail.source,
         "documents": trail.remaining.documents, "tokens": trail.remaining.tokens}
        for trail in trails
    ]  # fmt: skip
    rank = {source.source: place for place, source in enumerate(sources)}
    kinds = ("entering", "own", "global", "removed")
    rows.sort(key=lambda row: (kinds.index(row["kind"]), rank[row["source"]], rank[row["other"]]))
    return pa.Table.from_pylist(rows, OVERLAP)
