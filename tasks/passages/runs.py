"""Runs of repeated windows, found by comparing the contexts of all shards in a range of fingerprints.

Columns of RUNS: consecutive repeated windows of a context, from the distance `first` (the nearest to the anchor) to
`last`; their owner, its anchor, the code points before its window at `last`, and the number of documents with it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.part_tables import PART, run_starts
from zyda_flows.tasks.ids import sources_of
from zyda_flows.tasks.passages.contexts import BINARY
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


@dataclass(frozen=True)
class DistinctContexts:
    """Different contexts, (c,), sorted by fingerprint, then by preference.

    best: the row of the best occurrence. context_numbers: (n,) the context of each row. columns: by name, (c,)
    each, with the sums or extremes of all rows. contexts: CONTEXTS without PART, (n,) rows.
    """

    contexts: pa.Table
    best: NDArray[np.int64]
    context_numbers: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]

    def binary(self, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """Return a column of bytes: all bytes, and where those of each context begin, and how many they are."""
        column = self.contexts.column(name).combine_chunks()
        data, offsets = np.frombuffer(column.buffers()[2] or b"", np.uint8), offsets_of(column)
        return data, offsets[self.best], np.diff(offsets)[self.best]


def distinct_contexts(contexts: pa.Table) -> DistinctContexts:
    """Merge rows with the same context. contexts: CONTEXTS without PART."""
    columns = {name: contexts.column(name).to_numpy() for name in contexts.column_names if name not in BINARY}
    order = np.lexsort([columns["anchor"], columns["rank"], columns["low"], columns["high"]])
    starts = run_starts(columns["high"][order], columns["low"][order])
    best, sizes = order[starts], np.diff(np.append(starts, len(order)))
    preferred = np.lexsort([columns["anchor"][best], columns["rank"][best], columns["fingerprint"][best]])
    source = sources_of(columns["doc_id"])
    merged = {
        name: np.asarray(reduce.reduceat(values.astype(np.uint64)[order], starts)[preferred])
        for name, values, reduce in (
            ("documents", columns["documents"], np.add),
            ("occurrences", columns["occurrences"], np.add),
            ("worst", columns["worst"], np.maximum),
            ("first_source", source, np.minimum),
            ("last_source", source, np.maximum),
        )
    }
    best = best[preferred]
    places = np.empty(len(preferred), np.int64)
    places[preferred] = np.arange(len(preferred))
    context_numbers = np.empty(len(order), np.int64)
    context_numbers[order] = np.repeat(places, sizes)
    return DistinctContexts(
        contexts, best, context_numbers, {n: c[best] for n, c in columns.items()} | merged
    )


def runs_of(contexts: pa.Table, places: NDArray[np.uint32], part: PassagePart) -> pa.Table:
    """Find the repeated windows of contexts, for each of their rows: RUNS, sorted by PART.

    contexts: CONTEXTS without PART. places: (n,) the file of each row.
    """
    if not len(contexts):
        return RUNS.empty_table()
    distinct = distinct_contexts(contexts)
    columns = distinct.columns
    groups = np.append(run_starts(columns["fingerprint"]), len(distinct.best)).astype(np.int64)
    data, begins, sizes = distinct.binary("units")
    nearest, farthest = columns["nearest"].astype(np.int64), columns["farthest"].astype(np.int64)
    parties = ("first_source", "last_source") if part.scope == "across" else ("rank", "worst")
    facts = np.stack(
        [columns[name].astype(np.uint64) for name in (*parties, "documents", "occurrences")], axis=1
    )
    runs = find_runs(
        data, begins, sizes // (farthest - nearest + part.window), groups, nearest, farthest, facts,
        length=part.window, least=part.least, within=part.within,
    )  # fmt: skip
    runs = runs[np.argsort(runs[:, CONTEXT], kind="stable")]
    return runs_by_file(distinct, places, runs, owner_starts(distinct, runs, part))


def owner_starts(
    distinct: DistinctContexts, runs: NDArray[np.uint64], part: PassagePart
) -> NDArray[np.uint32]:
    """Return the code points before the first window of each run in its owner: (m,)."""
    owners, lasts = runs[:, OWNER].astype(np.int64), runs[:, TO].astype(np.int64)
    if part.units == "characters":
        return (distinct.columns["anchor"][owners] - lasts).astype(np.uint32)
    data, begins, _ = distinct.binary("starts")
    windows = distinct.columns["farthest"][owners].astype(np.int64) - lasts
    return data.view(np.uint32)[begins[owners] // 4 + windows]


def runs_by_file(
    distinct: DistinctContexts,
    places: NDArray[np.uint32],
    runs: NDArray[np.uint64],
    starts: NDArray[np.uint32],
) -> pa.Table:
    """Return the runs of each row of contexts."""
    firsts = np.searchsorted(runs[:, CONTEXT], np.arange(len(distinct.best) + 1).astype(np.uint64))
    in_order = np.argsort(places, kind="stable")
    counts = (firsts[1:] - firsts[:-1])[distinct.context_numbers[in_order]]
    rows = np.repeat(in_order, counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = firsts[distinct.context_numbers[rows]] + within
    chosen = runs[numbers]
    owners = chosen[:, OWNER].astype(np.int64)
    values = [
        places[rows],
        *(distinct.contexts.column(name).to_numpy()[rows] for name in ("fingerprint", "high", "low")),
        chosen[:, FROM].astype(np.uint32),
        chosen[:, TO].astype(np.uint32),
        distinct.columns["doc_id"][owners],
        distinct.columns["anchor"][owners],
        starts[numbers],
        chosen[:, DOCUMENTS].astype(np.uint32),
    ]
    return pa.table([*map(pa.array, values)], schema=RUNS)
