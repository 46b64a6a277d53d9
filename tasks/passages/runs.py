"""Runs of repeated windows, found by comparing the contexts of all shards in a range of fingerprints.

Columns of RUNS: consecutive repeated windows of a context, from the distance `first` (the nearest to the anchor) to
`last`; their owner, its anchor, the code points before its window at `last`, and the number of documents with it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.part_tables import PART, PLACE, run_starts
from zyda_flows.tasks.ids import Ids, sources_of
from zyda_flows.tasks.passages.ranks import ranks_of
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.tasks.storage.parts import offsets_of
from zyda_flows.textkernels.windows import CONTEXT, DOCUMENTS, FROM, OWNER, TO, find_runs

RUNS = pa.schema(
    [
        PART,
        ("fingerprint", pa.uint64()),
        ("high", pa.uint64()),
        ("low", pa.uint64()),
        ("first", pa.uint32()),
        ("last", pa.uint32()),
        ("owner_id", pa.uint64()),
        ("owner_place", pa.int64()),
        ("owner_start", pa.uint32()),
        ("documents", pa.uint32()),
    ]
)
MERGED_BYTES = 16 << 20  # of contexts that are merged together, at least


class Keys:
    """Distinct keys of 128 bits, sorted. high, low: (k,)."""

    def __init__(self, high: Ids, low: Ids) -> None:
        self.high, self.low = high, low

    def find(self, high: Ids, low: Ids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the index of each key, and whether there is one: (n,) twice."""
        if not len(self.high):
            return np.zeros(len(high), np.int64), np.zeros(len(high), np.bool_)
        places = np.minimum(np.searchsorted(self.high, high), len(self.high) - 1)
        while True:  # equal upper halves of different keys follow each other
            is_other = (self.high[places] == high) & (self.low[places] < low)
            is_other &= places + 1 < len(self.high)
            if not is_other.any():
                break
            places = places + is_other
        return places, (self.high[places] == high) & (self.low[places] == low)


@dataclass(frozen=True)
class FoundRuns:
    """The runs of some distinct contexts.

    contexts: (c,) CONTEXTS, sorted by fingerprint, then by preference. runs: (m, 5), sorted by context. starts:
    (m,) the code points before the first window of each run in its owner.
    """

    contexts: pa.Table
    runs: NDArray[np.uint32]
    starts: NDArray[np.uint32]

    def rows(self, tables: Iterable[pa.Table], keys: tuple[str, str] = ("high", "low")) -> Iterator[pa.Table]:
        """Yield RUNS of the contexts in some tables, each sorted by PART.

        tables: CONTEXTS with PLACE, which becomes PART. keys: the columns by which the contexts are distinct.
        """
        high, low = (self.contexts.column(name).to_numpy() for name in keys)
        order = np.lexsort([low, high])
        known = Keys(high[order], low[order])
        firsts = np.searchsorted(self.runs[:, CONTEXT], np.arange(len(order) + 1).astype(np.uint32))
        ids, anchors = (self.contexts.column(name).to_numpy() for name in ("doc_id", "anchor"))
        for table in tables:
            numbers = order[known.find(*(table.column(name).to_numpy() for name in keys))[0]]
            places = table.column(PLACE.name).to_numpy()
            in_order = np.argsort(places, kind="stable")
            counts = (firsts[1:] - firsts[:-1])[numbers[in_order]]
            rows = np.repeat(in_order, counts)
            within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            numbers = firsts[numbers[rows]] + within
            owners = self.runs[numbers, OWNER].astype(np.int64)
            values = [
                places[rows],
                *(table.column(name).to_numpy()[rows] for name in ("fingerprint", "high", "low")),
                self.runs[numbers, FROM],
                self.runs[numbers, TO],
                ids[owners],
                anchors[owners],
                self.starts[numbers],
                self.runs[numbers, DOCUMENTS],
            ]
            yield pa.table([*map(pa.array, values)], schema=RUNS)


def merged_contexts(
    contexts: pa.Table, part: PassagePart, keys: tuple[str, str] = ("high", "low")
) -> pa.Table:
    """Merge rows with the same context: return its best occurrence, sorted by fingerprint, then by preference.

    keys: the columns with the hash of a context.
    """
    ranks, anchors = ranks_of(contexts, part), contexts.column("anchor").to_numpy()
    high, low = (contexts.column(name).to_numpy() for name in keys)
    order = np.lexsort([anchors, ranks, low, high])
    starts = run_starts(high[order], low[order])
    best, fingerprints = order[starts], contexts.column("fingerprint").to_numpy()
    preferred = np.lexsort([anchors[best], ranks[best], fingerprints[best]])
    merged = contexts.take(pa.array(best[preferred]))
    sums = (
        ("first_id", np.minimum), ("last_id", np.maximum), ("documents", np.add), ("occurrences", np.add),
    )  # fmt: skip
    for name, reduce in sums:
        column = contexts.column(name).to_numpy()
        values = reduce.reduceat(column.astype(np.uint64)[order], starts)[preferred]
        values = np.minimum(values, np.iinfo(column.dtype).max).astype(column.dtype)
        merged = merged.set_column(merged.schema.get_field_index(name), name, pa.array(values))
    return merged


def distinct_contexts(
    tables: Iterable[pa.Table], part: PassagePart, most_bytes: float, keys: tuple[str, str] = ("high", "low")
) -> pa.Table | None:
    """Merge the contexts of some tables, without PLACE; None if there are none, or more than `most_bytes`."""
    merged, held, size = list[pa.Table](), list[pa.Table](), 0

    def merge() -> None:
        merged[:] = [merged_contexts(pa.concat_tables([*merged, *held]).combine_chunks(), part, keys)]
        held.clear()

    for table in tables:
        held.append(table.drop_columns(PLACE.name))
        size += held[-1].nbytes
        if size > max(MERGED_BYTES, sum(each.nbytes for each in merged)):
            merge()
            size = 0
            if merged[0].nbytes > most_bytes:
                return None
    if held:
        merge()
    return merged[0].combine_chunks() if merged and 0 < merged[0].nbytes <= most_bytes else None


def find_repeated(contexts: pa.Table, part: PassagePart) -> FoundRuns:
    """Find the repeated windows of distinct contexts. contexts: of `distinct_contexts`."""
    groups = np.append(run_starts(contexts.column("fingerprint").to_numpy()), len(contexts)).astype(np.int64)
    nearest, farthest, first_ids, last_ids, documents, occurrences = (
        contexts.column(name).to_numpy()
        for name in ("nearest", "farthest", "first_id", "last_id", "documents", "occurrences")
    )
    parties = (
        [sources_of(first_ids), sources_of(last_ids)] if part.scope == "across" else [first_ids, last_ids]
    )
    data, firsts, sizes = bytes_of(contexts, "units")
    runs = find_runs(
        data, firsts, sizes // (farthest.astype(np.int64) - nearest + part.window), groups,
        nearest.astype(np.int64), farthest.astype(np.int64),
        np.stack([values.astype(np.uint64) for values in (*parties, documents, occurrences)], axis=1),
        length=part.window, least=part.least, within=part.within,
    )  # fmt: skip
    runs = runs[np.argsort(runs[:, CONTEXT], kind="stable")]
    return FoundRuns(contexts, runs, owner_starts(contexts, runs, part))


def bytes_of(contexts: pa.Table, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return a column of bytes as one array, the first byte of each value, and the values' sizes: (n,) each."""
    (column,) = contexts.column(name).chunks
    offsets, data = offsets_of(column), column.buffers()[2]
    return np.frombuffer(data or b"", np.uint8), offsets[:-1], np.diff(offsets)


def owner_starts(contexts: pa.Table, runs: NDArray[Any], part: PassagePart) -> NDArray[np.uint32]:
    """Return the code points before the first window of each run in its owner: (m,)."""
    owners, lasts = runs[:, OWNER].astype(np.int64), runs[:, TO].astype(np.int64)
    if part.units == "characters":
        return (contexts.column("anchor").to_numpy()[owners] - lasts).astype(np.uint32)
    data, firsts, _ = bytes_of(contexts, "starts")
    windows = contexts.column("farthest").to_numpy()[owners].astype(np.int64) - lasts
    return np.asarray(data[: len(data) // 4 * 4].view(np.uint32)[firsts[owners] // 4 + windows])
