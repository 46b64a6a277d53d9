"""Runs of repeated windows, found by comparing the contexts of all shards in a range of fingerprints.

Columns of RUNS: consecutive repeated windows of a context, from the distance `first` (the nearest to the anchor) to
`last`; their owner and its anchor; the number of documents, and a hash of the window at `last`.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.part_tables import PART, run_starts
from zyda_flows.tasks.ids import sources_of
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.textkernels.windows import find_runs

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
        ("documents", pa.uint32()),
        ("hash_1", pa.uint64()),
        ("hash_2", pa.uint64()),
    ]
)


def merged_contexts(contexts: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
    """Merge rows with the same context: their best row with the sums of all, and for each row its context, (n,).

    Sorted by fingerprint, then by preference. contexts: CONTEXTS without PART.
    """
    columns = {name: contexts.column(name).to_numpy() for name in contexts.column_names if name != "units"}
    order = np.lexsort([columns["anchor"], columns["rank"], columns["low"], columns["high"]])
    starts = run_starts(columns["high"][order], columns["low"][order])
    best, sizes = order[starts], np.diff(np.append(starts, len(order)))
    preferred = np.lexsort([columns["anchor"][best], columns["rank"][best], columns["fingerprint"][best]])
    merged = contexts.take(pa.array(best[preferred]))
    for name in ("documents", "occurrences"):
        sums = np.add.reduceat(columns[name][order].astype(np.uint64), starts)
        merged = merged.set_column(merged.schema.get_field_index(name), name, pa.array(sums[preferred]))
    source = sources_of(columns["doc_id"])
    for name, values, reduce in (
        ("worst", columns["worst"], np.maximum),
        ("first_source", source, np.minimum),
        ("last_source", source, np.maximum),
    ):
        reduced = pa.array(reduce.reduceat(values[order], starts)[preferred])
        if name in merged.column_names:
            merged = merged.set_column(merged.schema.get_field_index(name), name, reduced)
        else:
            merged = merged.append_column(name, reduced)
    places = np.empty(len(preferred), np.int64)
    places[preferred] = np.arange(len(preferred))
    row_contexts = np.empty(len(order), np.int64)
    row_contexts[order] = np.repeat(places, sizes)
    return merged, row_contexts


def runs_of(contexts: pa.Table, places: NDArray[np.uint32], part: PassagePart) -> pa.Table:
    """Find the repeated windows of contexts, for each of their rows: RUNS, sorted by PART.

    contexts: CONTEXTS without PART. places: (n,) the file of each row.
    """
    if not len(contexts):
        return RUNS.empty_table()
    merged, row_contexts = merged_contexts(contexts)
    columns = {name: merged.column(name).to_numpy() for name in merged.column_names if name != "units"}
    groups = np.append(run_starts(columns["fingerprint"]), len(merged)).astype(np.int64)
    units = merged.column("units").combine_chunks()
    offsets = np.frombuffer(units.buffers()[1], np.int64)[units.offset : units.offset + len(units) + 1]
    data = np.frombuffer(units.buffers()[2], np.uint8)
    nearest, farthest = columns["nearest"].astype(np.int64), columns["farthest"].astype(np.int64)
    sizes = np.diff(offsets) // (farthest - nearest + part.window)
    parties = ("first_source", "last_source") if part.scope == "across" else ("rank", "worst")
    facts = np.stack(
        [columns[name].astype(np.uint64) for name in (*parties, "documents", "occurrences")], axis=1
    )
    runs = find_runs(
        data, offsets[:-1].copy(), sizes, groups, nearest, farthest, facts,
        length=part.window, least=part.least, within=part.within,
    )  # fmt: skip
    return runs_by_file(contexts, places, row_contexts, columns, runs)


def runs_by_file(
    contexts: pa.Table,
    places: NDArray[np.uint32],
    row_contexts: NDArray[np.int64],
    columns: dict[str, NDArray[Any]],
    runs: NDArray[np.uint64],
) -> pa.Table:
    """Return the runs of each row of contexts."""
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    firsts = np.searchsorted(runs[:, 0], np.arange(len(columns["anchor"]) + 1).astype(np.uint64))
    counts = (firsts[1:] - firsts[:-1])[row_contexts]
    rows = np.repeat(np.arange(len(row_contexts)), counts)
    rows = rows[np.argsort(places[rows], kind="stable")]
    within = np.arange(int(counts.sum()))
    counts_in_order = counts[np.argsort(places, kind="stable")]
    starts = np.repeat(np.cumsum(counts_in_order) - counts_in_order, counts_in_order)
    chosen = runs[firsts[row_contexts[rows]] + within - starts]
    owners = chosen[:, 3].astype(np.int64)
    keys = [contexts.column(name).to_numpy()[rows] for name in ("fingerprint", "high", "low")]
    values = [
        chosen[:, 1].astype(np.uint32),
        chosen[:, 2].astype(np.uint32),
        columns["doc_id"][owners],
        columns["anchor"][owners],
        chosen[:, 4].astype(np.uint32),
        chosen[:, 5],
        chosen[:, 6],
    ]
    return pa.table([*map(pa.array, [places[rows], *keys, *values])], schema=RUNS)
