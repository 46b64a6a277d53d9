"""Runs of repeated windows, found by comparing the contexts of all shards in a range of fingerprints.

Columns of RUNS: consecutive repeated windows of a context, from the distance `first` (the nearest to the anchor) to
`last`; their owner, its anchor, the code points before its window at `last`, and the number of documents with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.part_tables import PART, run_starts
from zyda_flows.tasks.ids import sources_of
from zyda_flows.tasks.passages.contexts import CONTEXTS
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


class ContextBytes:
    """The units of contexts, or the places of their windows, without the tables from which they were read."""

    def __init__(self, name: str) -> None:
        """name: of the column."""
        self.name, self.data, self.lock = name, bytearray(), Lock()

    def moved(self, table: pa.Table) -> pa.Table:
        """Copy the bytes of a table's rows; return the table with their first byte and their number instead."""
        for_rows = list[tuple[int, NDArray[np.int64]]]()
        with self.lock:
            for chunk in table.column(self.name).chunks:
                offsets = offsets_of(chunk)
                for_rows.append((len(self.data) - int(offsets[0]), offsets))
                if len(chunk) and chunk.buffers()[2]:
                    self.data += memoryview(chunk.buffers()[2])[offsets[0] : offsets[-1]]
        firsts = [offsets[:-1] + before for before, offsets in for_rows]
        sizes = [np.diff(offsets) for _, offsets in for_rows]
        table = table.drop_columns(self.name)
        for name, values in (("first", firsts), ("size", sizes)):
            table = table.append_column(
                f"{self.name} {name}", pa.array(np.concatenate([np.empty(0, np.int64), *values]))
            )
        return table


@dataclass(frozen=True)
class Contexts:
    """Contexts of some files. rows: CONTEXTS without PART, units and starts. places: (n,) the file of each row."""

    rows: pa.Table
    places: NDArray[np.uint32]
    units: ContextBytes
    starts: ContextBytes


def read_contexts(read: Callable[[Callable[[pa.Table], pa.Table]], Any]) -> Contexts:
    """Read contexts. read: maps a function over the tables, and returns them and the file of each row."""
    units, starts = ContextBytes("units"), ContextBytes("starts")

    def move(table: pa.Table) -> pa.Table:
        return starts.moved(units.moved(table.drop_columns([PART.name, "worst_id"])))

    tables, places = read(move)
    return Contexts(pa.concat_tables([move(CONTEXTS.empty_table()), *tables]), places, units, starts)


@dataclass(frozen=True)
class DistinctContexts:
    """Different contexts, (c,), sorted by fingerprint, then by preference.

    best: the row of the best occurrence. context_numbers: (n,) the context of each row. sums: the sums or extremes
    of all rows, by name, (c,) each.
    """

    contexts: Contexts
    best: NDArray[np.int64]
    context_numbers: NDArray[np.int64]
    sums: dict[str, NDArray[Any]]

    def column(self, name: str) -> NDArray[Any]:
        """Return the values of the best rows: (c,)."""
        return np.asarray(self.contexts.rows.column(name).to_numpy()[self.best])


def distinct_contexts(contexts: Contexts) -> DistinctContexts:
    """Merge rows with the same context."""
    high, low, rank, anchor = (
        contexts.rows.column(name).to_numpy() for name in ("high", "low", "rank", "anchor")
    )
    order = np.lexsort([anchor, rank, low, high])
    starts = run_starts(high[order], low[order])
    best, sizes = order[starts], np.diff(np.append(starts, len(order)))
    fingerprints = contexts.rows.column("fingerprint").to_numpy()
    preferred = np.lexsort([anchor[best], rank[best], fingerprints[best]])
    places = np.empty(len(preferred), np.int64)
    places[preferred] = np.arange(len(preferred))
    context_numbers = np.empty(len(order), np.int64)
    context_numbers[order] = np.repeat(places, sizes)

    def summed(name: str, values: NDArray[Any], reduce: Any) -> tuple[str, NDArray[Any]]:
        return name, reduce.reduceat(values.astype(np.uint64)[order], starts)[preferred]

    source = sources_of(contexts.rows.column("doc_id").to_numpy())
    sums = (
        summed("first_source", source, np.minimum),
        summed("last_source", source, np.maximum),
        *(
            summed(name, contexts.rows.column(name).to_numpy(), reduce)
            for name, reduce in (("worst", np.maximum), ("documents", np.add), ("occurrences", np.add))
        ),
    )
    return DistinctContexts(contexts, best[preferred], context_numbers, dict(sums))


def runs_of(contexts: Contexts, part: PassagePart) -> pa.Table:
    """Find the repeated windows of contexts, for each of their rows: RUNS, sorted by PART."""
    if not len(contexts.rows):
        return RUNS.empty_table()
    distinct = distinct_contexts(contexts)
    groups = np.append(run_starts(distinct.column("fingerprint")), len(distinct.best)).astype(np.int64)
    nearest, farthest = (distinct.column(name).astype(np.int64) for name in ("nearest", "farthest"))
    sums = distinct.sums | {"rank": distinct.column("rank")}
    parties = ("first_source", "last_source") if part.scope == "across" else ("rank", "worst")
    facts = np.stack([sums[name] for name in (*parties, "documents", "occurrences")], axis=1)
    distinct.sums.clear()
    del sums
    runs = find_runs(
        np.frombuffer(contexts.units.data, np.uint8),
        distinct.column("units first"),
        distinct.column("units size") // (farthest - nearest + part.window),
        groups, nearest, farthest, facts, length=part.window, least=part.least, within=part.within,
    )  # fmt: skip
    runs = runs[np.argsort(runs[:, CONTEXT], kind="stable")]
    return runs_by_file(distinct, runs, owner_starts(distinct, runs, part))


def owner_starts(
    distinct: DistinctContexts, runs: NDArray[np.uint32], part: PassagePart
) -> NDArray[np.uint32]:
    """Return the code points before the first window of each run in its owner: (m,)."""
    owners, lasts = runs[:, OWNER].astype(np.int64), runs[:, TO].astype(np.int64)
    if part.units == "characters":
        return (distinct.column("anchor")[owners] - lasts).astype(np.uint32)
    places = np.frombuffer(distinct.contexts.starts.data, np.uint32)
    windows = distinct.column("farthest")[owners].astype(np.int64) - lasts
    return places[distinct.column("starts first")[owners] // 4 + windows]


def runs_by_file(
    distinct: DistinctContexts, runs: NDArray[np.uint32], starts: NDArray[np.uint32]
) -> pa.Table:
    """Return the runs of each row of contexts."""
    firsts = np.searchsorted(runs[:, CONTEXT], np.arange(len(distinct.best) + 1).astype(np.uint32))
    contexts, row_contexts = distinct.contexts, distinct.context_numbers
    in_order = np.argsort(contexts.places, kind="stable")
    counts = (firsts[1:] - firsts[:-1])[row_contexts[in_order]]
    rows = np.repeat(in_order, counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = firsts[row_contexts[rows]] + within
    owners = runs[numbers, OWNER].astype(np.int64)
    values = [
        contexts.places[rows],
        *(contexts.rows.column(name).to_numpy()[rows] for name in ("fingerprint", "high", "low")),
        runs[numbers, FROM],
        runs[numbers, TO],
        distinct.column("doc_id")[owners],
        distinct.column("anchor")[owners],
        starts[numbers],
        runs[numbers, DOCUMENTS],
    ]
    return pa.table([*map(pa.array, values)], schema=RUNS)
