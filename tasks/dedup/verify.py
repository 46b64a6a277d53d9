"""Verify: clusters only propose; a document goes if one that stays holds enough of its shingles.

In each contested cluster the documents are looked at in the order of preference. One goes where a document that
stays (of a better source in scope `across`, any that is preferred in `global`) holds the share of its distinct
shingles that the recipe asks for, or is as like it; otherwise it stays, and others may go for it. The result
depends on nothing but that order. Rows out: as of `tasks.dedup.decisions`, with the exact similarities, in files
by ranges of doc_ids.

The texts are read once and kept by cluster (`tasks.dedup.contested`). A cluster of up to CLUSTER_BYTES of text is
judged as if all pairs were compared (`tasks.kernels.holders`), a larger one with an index (`tasks.dedup.large`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.dedup.contested import ContestedDocuments, TextsByCluster, neighbours, offsets_of, rows_of_part
from tasks.dedup.large import LargeCluster
from tasks.dedup.preference import Preference
from tasks.ids import SOURCE_SHIFT
from tasks.kernels.holders import NOBODY, judge
from tasks.recipe.fields import Dedup
from tasks.signatures.shingles import shingle_parameters, shingle_sets
from tasks.stage.jobs import ShardJob
from tasks.stage.spread import fan_out
from tasks.stage.verdicts import with_columns
from tasks.storage.artifacts import Shard, total
from tasks.storage.folder import Folder
from tasks.storage.tables import footer_of, opened, rows_between, write_table

VERSION = 1
PART_BYTES = 256 << 20  # of text in one part, about
MOST_BITS = 12
CLUSTER_BYTES = 8 << 20  # of text whose shingles are in memory at once, with an index of all: some 600 MiB
RANGE_ROWS = 16 << 20
SIMILARITIES = pa.schema([("jaccard", pa.float32()), ("containment", pa.float32())])
JUDGED = pa.schema([("doc_id", pa.uint64()), ("kept_doc_id", pa.uint64()), *SIMILARITIES])

Ids = NDArray[np.uint64]


@dataclass(frozen=True)
class JudgedPart(ShardJob):
    """The documents of a part that go, each with the one it goes for: JUDGED by doc_id.

    order_key: of the order of preference.
    """

    stage, version = "verify", VERSION

    texts: tuple[Shard, ...]
    part: int
    order: Preference
    order_key: str
    dedup: Dedup

    @property
    def name(self) -> str:
        return f"part-{self.part:05d}"

    @property
    def asked(self) -> list[Any]:
        return ["judged", self.part, rule_of(self.dedup), self.order_key]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(shard.digest for shard in self.texts)

    def make(self) -> Shard:
        with self.folder.scratch_file() as scratch, read_texts(self, scratch) as texts:
            tables = [JUDGED.empty_table(), *judged(texts, self.order, self.dedup)]
        table = pa.concat_tables(tables).sort_by("doc_id")
        return write_table(self.folder, self.path, self.name, table)


@dataclass(frozen=True)
class Texts:
    """The texts of whole clusters: four columns of n rows in any order."""

    cluster_ids: Ids
    pieces: NDArray[np.uint32]
    doc_ids: Ids
    texts: pa.LargeStringArray

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(offsets_of(self.texts))


@contextmanager
def read_texts(job: JudgedPart, scratch: Path) -> Iterator[Texts]:
    """Read a part, its texts into a local file, which is mapped: the largest cluster needs no more memory."""
    tables, offsets = list[pa.Table](), [np.zeros(1, np.int64)]
    with scratch.open("wb") as file:
        for table in rows_of_part(job.folder, job.texts, job.part):
            for chunk in table.column("text").chunks:
                its_offsets = offsets_of(chunk)
                if len(chunk):
                    file.write(memoryview(chunk.buffers()[2])[its_offsets[0] : its_offsets[-1]])
                    offsets.append(offsets[-1][-1] + its_offsets[1:] - its_offsets[0])
            tables.append(table.drop_columns("text"))
    if not tables:
        nothing = np.empty(0, np.uint64)
        yield Texts(nothing, nothing.astype(np.uint32), nothing, pa.array([], pa.large_string()))
        return
    with pa.memory_map(str(scratch)) as mapped:
        rows, ends = pa.concat_tables(tables), np.concatenate(offsets)
        texts = pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(ends), mapped.read_buffer())
        cluster_ids, pieces, doc_ids = (rows.column(n).to_numpy() for n in ("cluster_id", "piece", "doc_id"))
        yield Texts(cluster_ids, pieces, doc_ids, texts)


def judged(texts: Texts, order: Preference, dedup: Dedup) -> Iterator[pa.Table]:
    """Judge the clusters of a part: yields JUDGED."""
    priority = order.priority(texts.doc_ids)
    rows = np.lexsort((priority, texts.pieces, texts.cluster_ids))
    groups = (priority >> np.uint64(SOURCE_SHIFT)).astype(np.int64)[rows]
    if dedup.scope == "global":
        groups = np.arange(len(rows))
    clusters = texts.cluster_ids[rows]
    pieces = texts.pieces[rows]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (clusters[1:] != clusters[:-1]) | (pieces[1:] != pieces[:-1])
    starts = np.append(np.flatnonzero(is_first), len(rows))
    sizes = texts.sizes[rows]
    for first, last in batches(starts, np.concatenate([[0], np.cumsum(sizes)])):
        some = rows[starts[first] : starts[last]]
        of_some = groups[starts[first] : starts[last]]
        if last - first == 1 and sizes[starts[first] : starts[last]].sum() > CLUSTER_BYTES:
            yield judged_alone(texts, some, of_some, dedup)
        else:
            hashes, ends = shingle_sets(texts.texts.take(pa.array(some)), dedup)
            within = starts[first : last + 1] - starts[first]
            holders, shared = judge(hashes, ends, of_some, within, **asked_of(dedup))
            yield with_similarities(texts.doc_ids[some], holders, shared, np.diff(ends))


def rule_of(dedup: Dedup) -> list[Any]:
    """Return all of the recipe by which documents are judged, but the order of preference."""
    return [dedup.model_dump(include={"verify", "scope"}), shingle_parameters(dedup)]


def asked_of(dedup: Dedup) -> dict[str, Any]:
    """Return how much a document has to hold of another, as `tasks.kernels.holders.judge` takes it."""
    assert dedup.verify is not None
    return {"share": dedup.verify.share, "is_jaccard": dedup.verify.jaccard is not None}


def batches(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Put clusters together whose texts are CLUSTER_BYTES at the most, one at least: from the first to the last.

    starts: (c + 1,), the row of each cluster's first document, then n. ends: (n + 1,), the bytes of text before
    each row.
    """
    bytes_before = ends[starts]
    first = 0
    while first < len(starts) - 1:
        most = bytes_before[first] + CLUSTER_BYTES
        last = max(first + 1, int(np.searchsorted(bytes_before, most, side="right")) - 1)
        yield first, last
        first = last


def judged_alone(texts: Texts, rows: NDArray[np.int64], groups: NDArray[np.int64], dedup: Dedup) -> pa.Table:
    """Judge a cluster of which not all shingles are in memory at once."""
    sizes = texts.sizes[rows]

    def sets(places: NDArray[np.int64]) -> Iterator[NDArray[np.uint64]]:
        """Yield the shingles of documents, some MiB of text at a time."""
        before = np.concatenate([[0], np.cumsum(sizes[places])])
        for first, last in batches(np.arange(len(places) + 1), before):
            hashes, ends = shingle_sets(texts.texts.take(pa.array(rows[places[first:last]])), dedup)
            for start, end in pairwise(ends):
                yield hashes[start:end]

    cluster = LargeCluster(sets, groups, **asked_of(dedup))
    holders, shared = cluster.judge()
    return with_similarities(texts.doc_ids[rows], holders, shared, cluster.sizes)


def with_similarities(
    doc_ids: Ids, holders: NDArray[np.int64], shared: NDArray[np.int64], sizes: NDArray[np.int64]
) -> pa.Table:
    """Write those documents that go as JUDGED."""
    gone = np.flatnonzero(holders != NOBODY)
    kept, both, size = holders[gone], shared[gone], sizes[gone]
    jaccard = both / (size + sizes[kept] - both)
    columns = [doc_ids[gone], doc_ids[kept], jaccard.astype(np.float32), (both / size).astype(np.float32)]
    return pa.table([pa.array(column) for column in columns], schema=JUDGED)


@dataclass(frozen=True)
class DecidedRange(ShardJob):
    """What is decided about the clustered documents of some row groups of the clusters: DECIDED by doc_id."""

    stage, version = "verify", VERSION

    cluster_table: Shard
    groups: tuple[int, ...]
    judged_parts: tuple[Shard, ...]

    @property
    def name(self) -> str:
        return f"range-{self.groups[0]:05d}" if self.groups else "range"

    @property
    def asked(self) -> list[Any]:
        return ["decided", self.groups]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.cluster_table.digest, *(shard.digest for shard in self.judged_parts))

    def make(self) -> Shard:
        with opened(self.folder, self.cluster_table) as parquet:
            rows = parquet.read_row_groups(list(self.groups))
        ids, parts = rows.column("doc_id").to_numpy(), [part for part in self.judged_parts if part.rows]
        said = [JUDGED.empty_table()]
        if len(ids):
            said.append(rows_between(self.folder, parts, int(ids[0]), int(ids[-1])))
        table = with_columns(rows, pa.concat_tables(said).sort_by("doc_id"))
        return write_table(self.folder, self.path, self.name, table)


def verified(
    folder: Folder,
    shards: Sequence[Shard],
    cluster_table: Shard,
    order: Preference,
    order_key: str,
    dedup: Dedup,
) -> tuple[list[Shard], list[Shard]]:
    """Decide about all clustered documents of some shards by their texts.

    Returns the files of what is decided, and those that were made on the way.
    """
    contested = ContestedDocuments(folder, None, cluster_table, dedup.scope == "across")()
    text = total(shard.counts for shard in shards)
    asked = contested.rows / max(1, text.documents)
    bits = min(MOST_BITS, int(text.bytes * asked / PART_BYTES).bit_length())
    reading = [
        TextsByCluster(folder, None, group, contested, bits, dedup) for group in neighbours(shards, asked)
    ]
    texts = fan_out(ShardJob.__call__, reading, stage="verify texts", source=None)
    parts = [
        JudgedPart(folder, None, tuple(texts), part, order, order_key, dedup) for part in range(1 << bits)
    ]
    judged_parts = fan_out(ShardJob.__call__, parts, stage="verify", source=None)
    ranges = [
        DecidedRange(folder, None, cluster_table, groups, tuple(judged_parts))
        for groups in ranges_of(folder, cluster_table)
    ]
    decided = fan_out(ShardJob.__call__, ranges, stage="verify decisions", source=None)
    return decided, [contested, *texts, *judged_parts]


def ranges_of(folder: Folder, cluster_table: Shard) -> list[tuple[int, ...]]:
    """Put row groups of the clusters together, of RANGE_ROWS or fewer; one range where there are none."""
    footer = footer_of(folder, cluster_table)
    ranges, rows = [list[int]()], 0
    for group in range(footer.num_row_groups):
        rows += footer.row_group(group).num_rows
        if ranges[-1] and rows > RANGE_ROWS:
            ranges.append([])
            rows = footer.row_group(group).num_rows
        ranges[-1].append(group)
    return [tuple(groups) for groups in ranges]
