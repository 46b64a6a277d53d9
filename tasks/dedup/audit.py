"""Audit: how like the documents that went are to those that were kept for them, on a sample.

Buckets and clusters are made of signatures, and a chain of buckets can join what has little in common. Here
the texts themselves are compared. Rows out: AUDIT, one for each pair of a document that went and the kept
document of its cluster that is most like it.

Which they are is the matter of `tasks.dedup.pairings`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from tasks.dedup.contested import first_and_last
from tasks.dedup.pairings import Pairing, pairings_of
from tasks.ids import files_of, sources_of, split
from tasks.recipe.dedup import Dedup
from tasks.recipe.fields import Recipe
from tasks.signatures.bands import place_of
from tasks.signatures.keys import band_keys, signature_parameters
from tasks.signatures.shingles import shingle_sets
from tasks.stage.fan_out import fan_out
from tasks.stage.jobs import ShardJob
from tasks.stage.stage import stage
from tasks.stage.verdicts import load_histories, trail_of
from tasks.storage.artifacts import (
    Counts,
    Manifest,
    Receipt,
    Shard,
    load_manifest,
    shard_path,
    stage_key,
    total,
)
from tasks.storage.folder import Folder
from tasks.storage.tables import read_table, tables_of, write_table
from textkernels.sets import overlaps

VERSION = 1
PAIRS = 1000  # that a build audits by itself
EDITED = 10_000  # characters of either text of which the edit similarity is found
TEXT_AT_ONCE = 64 << 20  # bytes of text that are compared by one worker at a time, about
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
    def params(self) -> list[int]:
        return [int(doc_id) for doc_id in self.doc_ids]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.shard.digest,)

    def make(self) -> Shard:
        wanted = pc.field("doc_id").isin(pa.array(self.doc_ids))
        parts = [part.filter(wanted) for part in tables_of(self.folder, self.shard, ["doc_id", "text"])]
        table = pa.concat_tables(parts)
        size = pc.sum(pc.binary_length(table.column("text"))).as_py() or 0
        counts = Counts(documents=len(table), bytes=size)
        return write_table(self.folder, self.path, self.name, table, counts=counts)


@dataclass(frozen=True)
class Compared:
    """Some pairings with their texts read and compared: AUDIT."""

    folder: Folder
    dedup: Dedup
    pairings: tuple[Pairing, ...]
    texts: tuple[Shard, ...]

    def __call__(self) -> pa.Table:
        is_wanted = pc.field("doc_id").isin(pa.array(ids_in(self.pairings)))
        tables = [read_table(self.folder, shard).filter(is_wanted) for shard in self.texts]
        table = pa.concat_tables(tables)
        table = table.sort_by("doc_id").combine_chunks()
        return compared(self.pairings, table, self.dedup)


def compared(pairings: Sequence[Pairing], texts: pa.Table, dedup: Dedup) -> pa.Table:
    """Compare each document that went with the kept ones. texts: `doc_id`, `text` of all, by doc_id."""
    places = {doc_id: i for i, doc_id in enumerate(texts.column("doc_id").to_pylist())}
    column = texts.column("text").combine_chunks()
    keys, has_keys = band_keys(column, dedup)
    rows = list[dict[str, Any]]()
    for pairing in pairings:
        place, kept = places[pairing.doc_id], [places[i] for i in pairing.kept]
        # Two texts at a time: their shingles take eight times as much memory as they do.
        likenesses = [likeness(column.take(pa.array([place, other])), dedup) for other in kept]
        # By the measure that the recipe asks for; of those that are as like, the first, the most preferred.
        best = int(np.argmax([of_pair[measure_of(dedup)] for of_pair in likenesses]))
        text, other = column[place].as_py(), column[kept[best]].as_py()
        shared = keys[place] == keys[kept[best]] if has_keys[place] and has_keys[kept[best]] else np.zeros(1)
        members = [places[i] for i in pairing.members]
        rows.append(
            {
                "doc_id": pairing.doc_id,
                "kept_doc_id": pairing.kept[best],
                "source": pairing.source,
                **likenesses[best],
                "edit": Indel.normalized_similarity(text[:EDITED], other[:EDITED]),
                "characters": len(text),
                "kept_characters": len(other),
                "buckets": int(shared.sum()),
                "steps": steps_between(keys[members], members.index(place), members.index(kept[best]))
                if members
                else (1 if shared.any() else None),
            }
        )
    return pa.Table.from_pylist(rows, AUDIT)


def measure_of(dedup: Dedup) -> str:
    """Return by what a recipe asks how like two texts are: `jaccard` or `containment`."""
    return "containment" if dedup.verify and dedup.verify.containment is not None else "jaccard"


def likeness(two: pa.LargeStringArray, dedup: Dedup) -> dict[str, float]:
    """Return the Jaccard similarity of two texts, and the share of the first one's shingles in the second."""
    hashes, ends = shingle_sets(two, dedup)
    first, second = np.diff(ends).tolist()
    both = int(overlaps(hashes, ends, np.array([0]), np.array([1]))[0])
    return {"jaccard": both / max(1, first + second - both), "containment": both / max(1, first)}


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


def key(recipe: Recipe, trails: list[list[Receipt]], pairs: int = PAIRS) -> str:
    identities = [receipt.identity for trail in trails for receipt in trail]
    params = [
        pairs,
        signature_parameters(recipe.dedup),
        *([measure_of(recipe.dedup)] if recipe.dedup.verify else []),
    ]
    return stage_key("audit", VERSION, params, *identities)


def is_audited(recipe: Recipe, _: str) -> bool:
    return not recipe.dedup.exact


@stage("audit", key, scope="corpus", inputs=("trails",), enabled=is_audited, published_as="audit")
def audit(recipe: Recipe, trails: list[list[Receipt]], pairs: int = PAIRS) -> Manifest:
    """Compare a sample of the documents that went as near-duplicates with those that were kept.

    trails: of each source, of which the last receipt is that of the stage that let them go. pairs: how many
    are compared in all, at the most.
    """
    folder = recipe.folder
    pairings = pairings_of(folder, trails, pairs)
    reading = texts_to_read(folder, trails, ids_in(pairings))
    texts = fan_out(ShardJob.__call__, reading, stage="audit texts", source=None)
    read = total(text.counts for text in texts)
    jobs = list[Compared]()
    for some in in_batches(pairings, read.bytes / max(1, read.documents)):
        wanted = ids_in(some)
        has_some = [bool(np.isin(job.doc_ids, wanted).any()) for job in reading]
        needed = [text for text, is_needed in zip(texts, has_some, strict=True) if is_needed]
        jobs.append(Compared(folder, recipe.dedup, tuple(some), tuple(needed)))
    tables = fan_out(lambda job: job(), jobs, stage=recipe.name_in_round("audit"), source=None)
    table = pa.concat_tables([AUDIT.empty_table(), *tables]).sort_by("doc_id")
    path = shard_path("audit", None, "all", key(recipe, trails, pairs))
    shard = write_table(folder, path, "all", table)
    return Manifest(
        stage="audit",
        shards=(shard,),
        intermediate=tuple(text.path for text in texts),
        facts={
            "trails": [[receipt.model_dump() for receipt in trail] for trail in trails],
            **load_manifest(folder, trail_of(trails[0]).receipts[-1]).facts,  # of how it was decided
        },
    )


def in_batches(pairings: Sequence[Pairing], text_bytes: float) -> Iterator[list[Pairing]]:
    """Put pairings together whose texts, of so many bytes on average, are TEXT_AT_ONCE; one at least."""
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


def ids_in(pairings: Sequence[Pairing]) -> Ids:
    """Return the documents whose texts are needed to compare some pairings, ascending."""
    return np.array(sorted({i for p in pairings for i in (p.doc_id, *p.kept, *p.members)}), np.uint64)


def texts_to_read(folder: Folder, trails: list[list[Receipt]], wanted: Ids) -> list[TextsOfShard]:
    """Find the shards in which some documents were ingested."""
    jobs = list[TextsOfShard]()
    for trail in map(trail_of, trails):
        shards = [history.shard for history in load_histories(folder, trail)]
        of_source = wanted[sources_of(wanted) == number_of(folder, shards)] if shards else wanted[:0]
        files = set(files_of(of_source).tolist())
        for shard in shards:
            if place_of(shard)[0] in files:
                first, last = first_and_last(folder, shard)
                of_shard = of_source[(of_source >= first) & (of_source <= last)]
                jobs += [TextsOfShard(folder, trail.source, shard, of_shard)] if len(of_shard) else []
    return jobs


def number_of(folder: Folder, shards: Sequence[Shard]) -> int:
    """Return the number of a source in the ids of its documents."""
    return split(first_and_last(folder, shards[0])[0])[0]
