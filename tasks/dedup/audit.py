"""Audit: how like the documents that went are to those that were kept for them, on a sample.

Buckets and clusters are made of signatures, and a chain of buckets can join what has little in common. Here
the texts themselves are compared. Rows out: AUDIT, one for each pair of a document that went and the kept
document of its cluster that is most like it.

The sample is chosen by a hash of the doc_ids, so that it is the same every time: of each source as many as
of any other, where it lost as many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from tasks.dedup.bands import place_of
from tasks.dedup.minhash import band_keys, signature_parameters
from tasks.dedup.shingles import shingle_sets
from tasks.ids import files_of, sources_of, split
from tasks.kernels.sets import overlaps
from tasks.recipe.fields import Dedup, Recipe
from tasks.stage.jobs import ShardJob
from tasks.stage.spread import fan_out
from tasks.stage.task import BY_MANIFEST, STAGE, leaves_manifest, task
from tasks.stage.verdicts import REASON, rows_that_go, shards_so_far, trail_of
from tasks.storage.artifacts import Manifest, Receipt, Shard, shard_path, stage_key
from tasks.storage.folder import Folder
from tasks.storage.tables import footer_of, read_table, tables_of, write_table

VERSION = 1
PAIRS = 1000  # that a build audits by itself
MOST_KEPT = 16  # documents of a cluster that one that went is compared with
SMALL = 32  # documents of a cluster in which chains of buckets are followed
EDITED = 10_000  # characters of either text of which the edit similarity is found
PAIRS_AT_ONCE = 200
AUDIT = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("kept_doc_id", pa.uint64()),
        ("source", pa.string()),
        ("jaccard", pa.float32()),  # of the recipe's shingles
        ("containment", pa.float32()),  # the share of its shingles that the kept one holds
        ("edit", pa.float32()),  # 1 - insertions and deletions / characters of both
        ("characters", pa.int32()),
        ("kept_characters", pa.int32()),
        ("buckets", pa.int16()),  # that the two share
        ("steps", pa.int16()),  # buckets in the shortest chain between them; null in a large cluster
    ]
)

Ids = NDArray[np.uint64]
MIX_1, MIX_2, SHIFT = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)


def mixed(ids: Ids) -> Ids:
    """Hash ids with the finaliser of MurmurHash3: (n,) to (n,)."""
    hashes = (ids ^ (ids >> SHIFT)) * MIX_1  # which wraps
    hashes = (hashes ^ (hashes >> SHIFT)) * MIX_2
    return np.asarray(hashes ^ (hashes >> SHIFT))


@dataclass(frozen=True)
class Chosen:
    """Of a shard's documents that went, those with the smallest hashes: no more than asked for."""

    folder: Folder
    said: Shard
    most: int

    def __call__(self) -> pa.Table:
        table = rows_that_go(read_table(self.folder, self.said)).select(
            ["doc_id", "cluster_id", "kept_doc_id"]
        )
        return smallest(table, self.most)


def smallest(table: pa.Table, most: int) -> pa.Table:
    """Return the rows with the smallest hashes of their doc_ids."""
    order = np.argsort(mixed(table.column("doc_id").to_numpy()), kind="stable")
    return table.take(pa.array(order[:most]))


@dataclass(frozen=True)
class Members:
    """Of a shard's documents, those in some clusters: `doc_id`, `cluster_id`, and whether each stays."""

    folder: Folder
    said: Shard
    clusters: Ids

    def __call__(self) -> pa.Table:
        table = read_table(self.folder, self.said, ["doc_id", "cluster_id", REASON.name])
        table = table.filter(pc.field("cluster_id").isin(pa.array(self.clusters)))
        stays = pc.is_null(table.column(REASON.name))
        return table.select(["doc_id", "cluster_id"]).append_column("stays", stays)


@dataclass(frozen=True)
class TextsOfShard(ShardJob):
    """The texts of some documents of a shard: `doc_id`, `text`."""

    stage, version = "audit", VERSION

    shard: Shard
    doc_ids: Ids

    @property
    def name(self) -> str:
        return self.shard.name

    @property
    def asked(self) -> list[int]:
        return [int(doc_id) for doc_id in self.doc_ids]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.shard.digest,)

    def make(self) -> Shard:
        wanted = pc.field("doc_id").isin(pa.array(self.doc_ids))
        parts = [part.filter(wanted) for part in tables_of(self.folder, self.shard, ["doc_id", "text"])]
        return write_table(self.folder, self.path, self.name, pa.concat_tables(parts))


@dataclass(frozen=True)
class Pairing:
    """A document that went, the kept ones that it may have gone for, and its cluster where that is small."""

    doc_id: int
    source: str
    kept: tuple[int, ...]
    members: tuple[int, ...]


@dataclass(frozen=True)
class Compared:
    """Some pairings with their texts read and compared: AUDIT."""

    folder: Folder
    dedup: Dedup
    pairings: tuple[Pairing, ...]
    texts: tuple[Shard, ...]

    def __call__(self) -> pa.Table:
        wanted = sorted({i for p in self.pairings for i in (p.doc_id, *p.kept, *p.members)})
        tables = [read_table(self.folder, shard) for shard in self.texts]
        table = pa.concat_tables(tables).filter(pc.field("doc_id").isin(pa.array(wanted, pa.uint64())))
        table = table.sort_by("doc_id").combine_chunks()
        return compared(self.pairings, table, self.dedup)


def compared(pairings: Sequence[Pairing], texts: pa.Table, dedup: Dedup) -> pa.Table:
    """Compare each document that went with the kept ones. texts: `doc_id`, `text` of all, by doc_id."""
    places = {doc_id: i for i, doc_id in enumerate(texts.column("doc_id").to_pylist())}
    column = texts.column("text").combine_chunks()
    hashes, ends = shingle_sets(column, dedup)
    keys, has_keys = band_keys(column, dedup)
    sizes = np.diff(ends)
    rows = list[dict[str, Any]]()
    for pairing in pairings:
        place, kept = places[pairing.doc_id], np.array([places[i] for i in pairing.kept])
        both = overlaps(hashes, ends, np.full(len(kept), place), kept)
        jaccards = both / np.maximum(1, sizes[place] + sizes[kept] - both)
        best = int(np.argmax(jaccards))  # the first of those that are as like: the most preferred
        text, other = column[place].as_py(), column[int(kept[best])].as_py()
        shared = keys[place] == keys[kept[best]] if has_keys[place] and has_keys[kept[best]] else np.zeros(1)
        members = [places[i] for i in pairing.members]
        rows.append(
            {
                "doc_id": pairing.doc_id,
                "kept_doc_id": pairing.kept[best],
                "source": pairing.source,
                "jaccard": jaccards[best],
                "containment": both[best] / max(1, sizes[place]),
                "edit": Indel.normalized_similarity(text[:EDITED], other[:EDITED]),
                "characters": len(text),
                "kept_characters": len(other),
                "buckets": int(shared.sum()),
                "steps": steps_between(keys[members], members.index(place), members.index(int(kept[best])))
                if members
                else (1 if shared.any() else None),
            }
        )
    return pa.Table.from_pylist(rows, AUDIT)


def steps_between(keys: NDArray[np.uint64], start: int, end: int) -> int | None:
    """Count the buckets in the shortest chain from one document to another. keys: (n, bands)."""
    shares = (keys[:, None, :] == keys[None, :, :]).any(axis=2)
    reached, steps = np.arange(len(keys)) == start, 0
    while not reached[end]:
        further = reached | shares[reached].any(axis=0)
        if (further == reached).all():
            return None
        reached, steps = further, steps + 1
    return steps


def key(recipe: Recipe, trails: list[list[Receipt]], pairs: int) -> str:
    identities = [receipt.identity for trail in trails for receipt in trail]
    return stage_key("audit", VERSION, [pairs, signature_parameters(recipe.dedup)], *identities)


@task(cache_policy=BY_MANIFEST, **STAGE)
@leaves_manifest("audit", key, of_all=True)
def audit(recipe: Recipe, trails: list[list[Receipt]], pairs: int) -> Manifest:
    """Compare a sample of the documents that went as near-duplicates with those that were kept.

    trails: of each source, of which the last receipt is that of the stage that let them go. pairs: how many
    are compared in all, at the most.
    """
    folder = recipe.folder
    pairings = pairings_of(folder, trails, pairs)
    texts = texts_of(folder, trails, {i for p in pairings for i in (p.doc_id, *p.kept, *p.members)})
    jobs = [
        Compared(folder, recipe.dedup, tuple(pairings[i : i + PAIRS_AT_ONCE]), tuple(texts))
        for i in range(0, len(pairings), PAIRS_AT_ONCE)
    ]
    tables = fan_out(lambda job: job(), jobs, stage="audit", source=None)
    table = pa.concat_tables([AUDIT.empty_table(), *tables]).sort_by("doc_id")
    path = shard_path("audit", None, "all", key(recipe, trails, pairs))
    shard = write_table(folder, path, "all", table)
    return Manifest(
        stage="audit",
        shards=(shard,),
        intermediate=tuple(text.path for text in texts),
        facts={"trails": [[receipt.model_dump() for receipt in trail] for trail in trails]},
    )


def verdicts_of(folder: Folder, trails: list[list[Receipt]]) -> list[tuple[str, Shard]]:
    """Return the tables of the last stage of each trail, with their sources."""
    opened = map(trail_of, trails)
    return [
        (trail.source, so_far.said[-1].shard) for trail in opened for so_far in shards_so_far(folder, trail)
    ]


def pairings_of(folder: Folder, trails: list[list[Receipt]], pairs: int) -> list[Pairing]:
    """Choose documents that went, and find the kept ones of their clusters."""
    said = verdicts_of(folder, trails)
    losers = {source: [shard for name, shard in said if name == source and shard.removed.documents]
              for source in dict.fromkeys(name for name, _ in said)}  # fmt: skip
    lost = {source: sum(s.removed.documents for s in shards) for source, shards in losers.items() if shards}
    shares = even_shares(lost, pairs)
    picks = [(source, Chosen(folder, shard, shares[source])) for source in shares for shard in losers[source]]
    tables = fan_out(lambda pick: pick[1](), picks, stage="audit", source=None)
    rows = list[tuple[str, dict[str, int]]]()
    for source, share in shares.items():
        of_source = [table for (name, _), table in zip(picks, tables, strict=True) if name == source]
        rows += [(source, row) for row in smallest(pa.concat_tables(of_source), share).to_pylist()]
    clusters = np.unique(np.array([row["cluster_id"] for _, row in rows], np.uint64))
    kept, members = documents_of(folder, [shard for _, shard in said], clusters)
    return [
        Pairing(
            row["doc_id"],
            source,
            tuple(dict.fromkeys((row["kept_doc_id"], *kept[row["cluster_id"]][: MOST_KEPT - 1]))),
            members.get(row["cluster_id"], ()),
        )
        for source, row in rows
    ]


def even_shares(lost: dict[str, int], pairs: int) -> dict[str, int]:
    """Share out so many pairs: as many to each source as to any other, where it lost as many."""
    shares, left = dict[str, int](), pairs
    for i, source in enumerate(sorted(lost, key=lambda name: (lost[name], name))):
        shares[source] = min(lost[source], left // (len(lost) - i))
        left -= shares[source]
    return {source: shares[source] for source in lost}


def documents_of(
    folder: Folder, said: Sequence[Shard], clusters: Ids
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """Return the kept documents of some clusters, and all documents of those that are SMALL."""
    jobs = [Members(folder, shard, clusters) for shard in said] if len(clusters) else []
    kept, everyone = dict[int, list[int]](), dict[int, list[int]]()
    for table in fan_out(lambda job: job(), jobs, stage="audit", source=None):
        for doc_id, cluster_id, stays in zip(*(column.to_pylist() for column in table.columns), strict=True):
            everyone.setdefault(cluster_id, []).append(doc_id)
            if stays:
                kept.setdefault(cluster_id, []).append(doc_id)
    return (
        {cluster: tuple(sorted(ids)) for cluster, ids in kept.items()},
        {cluster: tuple(sorted(ids)) for cluster, ids in everyone.items() if len(ids) <= SMALL},
    )


def texts_of(folder: Folder, trails: list[list[Receipt]], doc_ids: set[int]) -> list[Shard]:
    """Read the texts of some documents where they were ingested, shard by shard."""
    wanted = np.array(sorted(doc_ids), np.uint64)
    jobs = list[TextsOfShard]()
    for trail in map(trail_of, trails):
        shards = [so_far.shard for so_far in shards_so_far(folder, trail)]
        of_source = wanted[sources_of(wanted) == number_of(folder, shards)] if shards else wanted[:0]
        files = set(files_of(of_source).tolist())
        for shard in shards:
            if place_of(shard)[0] in files:
                first, last = first_and_last(folder, shard)
                asked = of_source[(of_source >= first) & (of_source <= last)]
                jobs += [TextsOfShard(folder, trail.source, shard, asked)] if len(asked) else []
    return fan_out(ShardJob.__call__, jobs, stage="audit texts", source=None)


def number_of(folder: Folder, shards: Sequence[Shard]) -> int:
    """Return the number of a source in the ids of its documents."""
    return split(first_and_last(folder, shards[0])[0])[0]


def first_and_last(folder: Folder, shard: Shard) -> tuple[int, int]:
    """Return the smallest and the largest doc_id of a shard, by its footer."""
    footer = footer_of(folder, shard)
    place = footer.schema.names.index("doc_id")
    groups = [footer.row_group(i).column(place).statistics for i in range(footer.num_row_groups)]
    return groups[0].min, groups[-1].max
