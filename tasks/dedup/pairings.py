"""Pairings: choose the removed documents for an audit, and the kept documents with which to compare them.

The sample is chosen by a hash of the doc_ids, so it is the same every time. Each source gets an equal number of
documents, if it lost as many.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids, hash_ids
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.verdicts import REASON, Trail, load_histories, removals_in
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table

PAIRS = 1000  # pairs that a build audits
TEXTS = "audit texts"  # the name of the fan-out that reads them
MOST_KEPT = 16  # kept documents of a cluster with which a removed document is compared
SMALL_CLUSTER = 32  # documents of a cluster in which chains of buckets are followed


@dataclass(frozen=True)
class Pairing:
    """A removed document, the kept documents of its cluster, and all members of its cluster if that is small."""

    doc_id: int
    source: str
    kept: tuple[int, ...]
    members: tuple[int, ...]


def pairings_of(folder: Folder, trails: list[Trail], pairs: int) -> list[Pairing]:
    """Choose removed documents, and find the kept documents of their clusters."""
    verdicts = verdicts_of(folder, trails)
    rows = chosen_removals(folder, verdicts, pairs)
    clusters = np.unique(np.array([row["cluster_id"] for _, row in rows], np.uint64))
    kept, members = documents_of(folder, [shard for _, shard in verdicts], clusters)
    return [
        Pairing(
            row["doc_id"],
            source,
            tuple(dict.fromkeys((row["kept_doc_id"], *kept[row["cluster_id"]])))[:MOST_KEPT],
            members.get(row["cluster_id"], ()),
        )
        for source, row in rows
    ]


def chosen_removals(
    folder: Folder, verdicts: Sequence[tuple[str, Artifact]], pairs: int
) -> list[tuple[str, dict[str, int]]]:
    """Choose removed documents; return their sources and rows: `doc_id`, `cluster_id`, `kept_doc_id`."""
    shards = dict[str, list[Artifact]]()
    for source, shard in verdicts:
        shards.setdefault(source, []).extend([shard] if shard.removed.documents else [])
    lost = {name: sum(s.removed.documents for s in removing) for name, removing in shards.items() if removing}
    shares = even_shares(lost, pairs)
    jobs = [
        RemovalCandidates(folder, s, share, lost[name])
        for name, share in shares.items()
        for s in shards[name]
    ]
    tables = iter(fan_out(lambda job: job(), jobs, stage="audit", source=None))
    rows = list[tuple[str, dict[str, int]]]()
    for source, share in shares.items():
        chosen = smallest(pa.concat_tables([next(tables) for _ in shards[source]]), share)
        rows += [(source, row) for row in chosen.to_pylist()]
    return rows


def verdicts_of(folder: Folder, trails: list[Trail]) -> list[tuple[str, Artifact]]:
    """Return the tables of the last stage of each trail, with their sources."""
    return [
        (trail.source, history.outputs[-1].artifact)
        for trail in trails
        for history in load_histories(folder, trail)
    ]


def even_shares(lost: dict[str, int], pairs: int) -> dict[str, int]:
    """Divide the pairs evenly among the sources; no source gets more than it lost."""
    shares, remaining_pairs = dict[str, int](), pairs
    for i, source in enumerate(sorted(lost, key=lambda name: (lost[name], name))):
        shares[source] = min(lost[source], remaining_pairs // (len(lost) - i))
        remaining_pairs -= shares[source]
    return {source: shares[source] for source in lost}


@dataclass(frozen=True)
class RemovalCandidates:
    """The removed documents of a shard whose hashes may be among the smallest `most` of all `lost` documents."""

    folder: Folder
    verdicts: Artifact
    most: int
    lost: int

    def __call__(self) -> pa.Table:
        table = removals_in(read_table(self.folder, self.verdicts)).select(
            ["doc_id", "cluster_id", "kept_doc_id"]
        )
        # Four times as many hashes as wanted are below this bound: shards return few rows, but enough.
        share = min(1.0, (4 * self.most + 64) / self.lost)
        may_be = hash_ids(table.column("doc_id").to_numpy()) <= np.uint64(int(share * (2**64 - 2**11)))
        return smallest(table.filter(pa.array(may_be)) if share < 1 else table, self.most)


def smallest(table: pa.Table, most: int) -> pa.Table:
    """Return the rows with the smallest hashes of their doc_ids."""
    order = np.argsort(hash_ids(table.column("doc_id").to_numpy()), kind="stable")
    return table.take(pa.array(order[:most]))


@dataclass(frozen=True)
class ClusterMembers:
    """The documents of a shard in some clusters: `doc_id`, `cluster_id`, and whether each is kept.

    Of a large cluster only the first documents, and the first kept documents, because no more are needed.
    """

    folder: Folder
    verdicts: Artifact
    clusters: Ids

    def __call__(self) -> pa.Table:
        table = read_table(self.folder, self.verdicts, ["doc_id", "cluster_id", REASON.name])
        table = table.filter(pc.field("cluster_id").isin(pa.array(self.clusters)))
        stays = pc.is_null(table.column(REASON.name)).to_numpy()
        clusters, kept_rows = table.column("cluster_id").to_numpy(), np.flatnonzero(stays)
        rows = np.union1d(
            first_of_each(clusters, SMALL_CLUSTER + 1),
            kept_rows[first_of_each(clusters[kept_rows], MOST_KEPT)],
        )
        table = table.select(["doc_id", "cluster_id"]).append_column("stays", pa.array(stays))
        return table.take(pa.array(rows))


def first_of_each(clusters: Ids, most: int) -> NDArray[np.int64]:
    """Return the indices of the first `most` documents of each cluster: (n,) to (m,)."""
    order = np.argsort(clusters, kind="stable")  # leaves the indices of a cluster ascending
    in_order = clusters[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = in_order[1:] != in_order[:-1]
    starts = np.flatnonzero(is_first)
    times = np.arange(len(order)) - starts[np.cumsum(is_first) - 1] if len(order) else order
    return order[times < most]


def documents_of(
    folder: Folder, verdicts: Sequence[Artifact], clusters: Ids
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """Return the kept documents of some clusters, and all documents of SMALL_CLUSTER clusters."""
    jobs = [ClusterMembers(folder, shard, clusters) for shard in verdicts] if len(clusters) else []
    kept, all_members = dict[int, list[int]](), dict[int, list[int]]()
    for table in fan_out(lambda job: job(), jobs, stage="audit", source=None):
        for doc_id, cluster_id, stays in zip(*(column.to_pylist() for column in table.columns), strict=True):
            all_members.setdefault(cluster_id, []).append(doc_id)
            if stays:
                kept.setdefault(cluster_id, []).append(doc_id)
    return (
        {cluster: tuple(sorted(ids)) for cluster, ids in kept.items()},
        {cluster: tuple(sorted(ids)) for cluster, ids in all_members.items() if len(ids) <= SMALL_CLUSTER},
    )
