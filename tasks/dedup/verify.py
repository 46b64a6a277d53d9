"""Verify: who goes of each cluster, where that takes more than its documents' ids.

With `verify`, clusters only propose: a document goes if one that stays holds enough of its shingles.

In each contested cluster the documents are looked at in the order of preference. One goes where a document that
stays (of a better source in scope `across`, any that is preferred in `global`) holds the share of its distinct
shingles that the recipe asks for, or is as like it; otherwise it stays, and others may go for it. The result
depends on nothing but that order. Rows out: as of `tasks.dedup.decisions`, with the exact similarities, in
files by ranges of doc_ids.

The texts are read once and kept by cluster (`tasks.dedup.contested`). A cluster of up to CLUSTER_BYTES of text
is judged as if all pairs were compared (`textkernels.set_similarity`), a larger one with an index
(`tasks.dedup.large`).

Without it, where `prefer` looks at the documents, all go for the most preferred one of their cluster.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.accounts.audited import ByIndex
from tasks.dedup.contested import ContestedDocuments, RowsByCluster, neighbours
from tasks.dedup.large import LargeCluster
from tasks.dedup.preference import Preference
from tasks.ids import SOURCE_SHIFT
from tasks.recipe.dedup import Dedup
from tasks.recipe.fields import Recipe
from tasks.signatures.shingles import shingle_parameters, shingle_sets
from tasks.stage.fan_out import fan_out
from tasks.stage.jobs import RecordJob, ShardJob
from tasks.stage.verdicts import with_columns
from tasks.storage.artifacts import Shard, total
from tasks.storage.folder import Folder
from tasks.storage.parts import TextFile, read_part
from tasks.storage.records import Record
from tasks.storage.tables import footer_of, opened, rows_between, write_table
from textkernels.set_similarity import NOBODY, judge

VERSION = 2
PART_BYTES = 256 << 20  # of text in one part, about
MOST_BITS = 12
CLUSTER_BYTES = (
    8 << 20
)  # of text whose shingles are in memory at once: 310 MiB with an index, if half are shared
RANGE_ROWS = 16 << 20
ROW_BYTES = 64  # of a document that is decided about by preference alone, about
SIMILARITIES = pa.schema([("jaccard", pa.float32()), ("containment", pa.float32())])
JUDGED = pa.schema([("doc_id", pa.uint64()), ("kept_doc_id", pa.uint64()), *SIMILARITIES])

Ids = NDArray[np.uint64]


class Judged(Record):
    """The documents of a part that go, each with the one it goes for: JUDGED by doc_id."""

    shard: Shard
    by_index: ByIndex


@dataclass(frozen=True)
class JudgedPart(RecordJob[Judged]):
    """The documents of a part to judge.

    order_key: of the order of preference.
    """

    stage, version, kind = "verify", VERSION, Judged

    gathered: tuple[Shard, ...]
    part: int
    order: Preference
    order_key: str
    dedup: Dedup

    @property
    def name(self) -> str:
        return f"part-{self.part:05d}"

    @property
    def params(self) -> list[Any]:
        return ["judged", self.part, rule_of(self.dedup), self.order_key]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(shard.digest for shard in self.gathered)

    def make(self) -> Judged:
        with self.folder.scratch_file() as scratch:
            reading = read_part(self.folder, self.gathered, self.part, scratch)
            with reading as (rows, texts):
                found = [] if rows is None else [*judged(rows, texts, self.order, self.dedup)]
        table = pa.concat_tables([JUDGED.empty_table(), *(of for of, _ in found)]).sort_by("doc_id")
        shard = write_table(self.folder, self.path, self.name, table)
        return self.recorded(Judged(shard=shard, by_index=sum((by for _, by in found), ByIndex())))


@dataclass(frozen=True)
class InOrder:
    """The documents of clusters, cluster by cluster, the most preferred first.

    rows: (n,), their places among those that were read. groups: (n,), ascending in a cluster: a document goes
    only for one of a smaller group. may_go: (n,). starts: (c + 1,), the place of each cluster's first document
    here, then n.
    """

    doc_ids: Ids
    rows: NDArray[np.int64]
    groups: NDArray[np.int64]
    may_go: NDArray[np.bool_]
    starts: NDArray[np.int64]


def in_order(rows: pa.Table, order: Preference, dedup: Dedup) -> InOrder:
    places = order.order(rows, ["cluster_id", "piece"])
    doc_ids = rows.column("doc_id").to_numpy()[places]
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = False
    for name in ("cluster_id", "piece"):
        of_places = rows.column(name).to_numpy()[places]
        is_first[1:] |= of_places[1:] != of_places[:-1]
    groups = np.arange(len(places))
    if dedup.scope == "across":
        groups = (order.priority(doc_ids) >> np.uint64(SOURCE_SHIFT)).astype(np.int64)
    starts = np.append(np.flatnonzero(is_first), len(places))
    return InOrder(doc_ids, places, groups, ~order.is_protected(doc_ids), starts)


def judged(
    rows: pa.Table, texts: TextFile, order: Preference, dedup: Dedup
) -> Iterator[tuple[pa.Table, ByIndex]]:
    """Judge the clusters of a part: yields JUDGED, and what of it was judged by an index."""
    members = in_order(rows, order, dedup)
    if not dedup.verify:
        yield by_order_alone(members), ByIndex()
        return
    sizes = texts.sizes[members.rows]
    for first, last in batches(members.starts, np.concatenate([[0], np.cumsum(sizes)])):
        start, end = int(members.starts[first]), int(members.starts[last])
        some = slice(start, end)
        ids, groups, may_go = members.doc_ids[some], members.groups[some], members.may_go[some]
        if last - first == 1 and sizes[some].sum() > CLUSTER_BYTES:
            cluster = LargeCluster(
                sets_of(texts, members.rows[some], sizes[some], dedup), groups, may_go, **verify_params(dedup)
            )
            found = with_similarities(ids, *cluster.judge(), cluster.sizes)
            yield found, ByIndex(clusters=1, documents=len(ids), unsure=cluster.unsure)
        else:
            hashes, ends = shingle_sets(texts.take(members.rows[some]), dedup)
            clusters = members.starts[first : last + 1] - start
            of_all = judge(hashes, ends, groups, may_go, clusters, **verify_params(dedup))
            yield with_similarities(ids, *of_all, np.diff(ends)), ByIndex()


def by_order_alone(members: InOrder) -> pa.Table:
    """Let all go for the first of their cluster that are of a later group than it, if they may."""
    sizes = np.diff(members.starts)
    firsts = np.repeat(members.starts[:-1], sizes)
    gone = np.flatnonzero((members.groups > members.groups[firsts]) & members.may_go)
    nothing = pa.nulls(len(gone), pa.float32())
    columns = [pa.array(members.doc_ids[gone]), pa.array(members.doc_ids[firsts[gone]]), nothing, nothing]
    return pa.table(columns, schema=JUDGED)


def rule_of(dedup: Dedup) -> list[Any]:
    """Return all of the recipe by which documents are judged, but the order of preference."""
    return [
        dedup.model_dump(include={"verify", "scope"}),
        shingle_parameters(dedup) if dedup.verify else None,
    ]


def verify_params(dedup: Dedup) -> dict[str, Any]:
    """Return how much a document has to hold of another, as `textkernels.set_similarity.judge` takes it."""
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


def sets_of(
    texts: TextFile, rows: NDArray[np.int64], sizes: NDArray[np.int64], dedup: Dedup
) -> Callable[[NDArray[np.int64]], Iterator[NDArray[np.uint64]]]:
    """Return what gives the shingles of some texts by their places, some MiB of text at a time."""

    def sets(places: NDArray[np.int64]) -> Iterator[NDArray[np.uint64]]:
        before = np.concatenate([[0], np.cumsum(sizes[places])])
        for first, last in batches(np.arange(len(places) + 1), before):
            hashes, ends = shingle_sets(texts.take(rows[places[first:last]]), dedup)
            for start, end in pairwise(ends):
                yield hashes[start:end]

    return sets


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
    def params(self) -> list[Any]:
        return ["decided", self.groups]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.cluster_table.digest, *(shard.digest for shard in self.judged_parts))

    def make(self) -> Shard:
        with opened(self.folder, self.cluster_table) as parquet:
            rows = parquet.read_row_groups(list(self.groups))
        ids, parts = rows.column("doc_id").to_numpy(), [part for part in self.judged_parts if part.rows]
        said = [JUDGED.empty_table()]
        if len(ids) and parts:
            said.append(rows_between(self.folder, parts, int(ids[0]), int(ids[-1])))
        table = with_columns(rows, pa.concat_tables(said).sort_by("doc_id"))
        return write_table(self.folder, self.path, self.name, table)


def verified(
    recipe: Recipe, shards: Sequence[Shard], cluster_table: Shard, order: Preference, order_key: str
) -> tuple[list[Shard], list[Shard], ByIndex]:
    """Decide about all clustered documents of some shards, cluster by cluster.

    Returns the files of what is decided, those that were made on the way, and what was judged by an index.
    """
    folder, dedup = recipe.folder, recipe.dedup
    contested = ContestedDocuments(folder, None, cluster_table, dedup.scope == "across")()
    text = total(shard.counts for shard in shards)
    share = contested.rows / max(1, text.documents)
    size = text.bytes * share if dedup.verify else contested.rows * ROW_BYTES
    bits = min(MOST_BITS, int(size / PART_BYTES).bit_length())
    reading = [
        RowsByCluster(folder, None, group, contested, bits, order, dedup)
        for group in neighbours(shards, share)
    ]
    gathered = fan_out(ShardJob.__call__, reading, stage=recipe.name_in_round("clustered texts"), source=None)
    parts = [
        JudgedPart(folder, None, tuple(gathered), part, order, order_key, dedup) for part in range(1 << bits)
    ]
    of_parts = fan_out(JudgedPart.__call__, parts, stage=recipe.name_in_round("verify"), source=None)
    judged_parts = [of_part.shard for of_part in of_parts]
    by_index = sum((of_part.by_index for of_part in of_parts), ByIndex())
    ranges = [
        DecidedRange(folder, None, cluster_table, groups, tuple(judged_parts))
        for groups in ranges_of(folder, cluster_table)
    ]
    decided = fan_out(ShardJob.__call__, ranges, stage=recipe.name_in_round("decisions"), source=None)
    return decided, [contested, *gathered, *judged_parts], by_index


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
