"""Contexts of anchors: the units around a repeated fingerprint, by which repeated windows are found.

Columns of CONTEXTS: the fingerprint; `high` and `low`, a hash of the context; of its best occurrence in a shard the
document, its rank, and the position of the anchor in units; the first and the last document of the shard with the
context; distances from the first and the last window to the anchor; in how many documents and how often the shard
has the context; the units; and, unless units are characters, the code points before each window of the best
occurrence in its text (uint32). Ranks are compared in a shard only if `prefer` depends on documents: the rows then
have the values by which documents of several shards are ordered.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.part_tables import PART, run_starts
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.passages.units import Units
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.textkernels.anchors import Anchors, context_keys, find_anchors, units_as_bytes

CONTEXTS = pa.schema(
    [
        PART,
        ("fingerprint", pa.uint64()),
        ("high", pa.uint64()),
        ("low", pa.uint64()),
        ("rank", pa.uint64()),
        ("doc_id", pa.uint64()),
        ("first_id", pa.uint64()),
        ("last_id", pa.uint64()),
        ("anchor", pa.int64()),
        ("nearest", pa.uint32()),
        ("farthest", pa.uint32()),
        ("documents", pa.uint32()),
        ("occurrences", pa.uint32()),
        ("units", pa.large_binary()),
        ("starts", pa.large_binary()),
    ]
)


BINARY = ("units", "starts")


def repeated_anchors(units: Units, part: PassagePart, fingerprints: NDArray[np.uint64]) -> Iterator[Anchors]:
    """Yield the anchors with some fingerprints, (f,) ascending."""
    for anchors in find_anchors(units.values, units.ends, part.window):
        places = np.searchsorted(fingerprints, anchors.fingerprints)
        places[places == len(fingerprints)] = 0
        yield anchors.take(
            fingerprints[places] == anchors.fingerprints
            if len(fingerprints)
            else np.zeros(len(places), np.bool_)
        )


def contexts_of(
    units: Units, part: PassagePart, fingerprints: NDArray[np.uint64], doc_ids: Ids, ranks: Ids
) -> Iterator[pa.Table]:
    """Yield the distinct contexts of anchors with some fingerprints: CONTEXTS without PART.

    doc_ids, ranks: (n,) of the texts; doc_ids ascend, and a document with a smaller rank is preferred.
    """
    for anchors in repeated_anchors(units, part, fingerprints):
        if len(anchors.places):
            yield distinct_contexts(units, part, anchors, doc_ids, ranks)


def distinct_contexts(
    units: Units, part: PassagePart, anchors: Anchors, doc_ids: Ids, ranks: Ids
) -> pa.Table:
    keys = context_keys(units.values, units.lows, anchors, part.window)
    texts = units.texts_of(anchors.places)
    order = np.lexsort([anchors.places, keys[:, 1], keys[:, 0]])
    starts = run_starts(keys[order, 0], keys[order, 1])
    sorted_texts = texts[order]
    is_new = np.ones(len(order), np.int64)
    is_new[1:] = sorted_texts[1:] != sorted_texts[:-1]
    is_new[starts] = 1
    lasts = order[np.append(starts[1:], len(order)) - 1]
    best = order[best_of_runs(ranks[sorted_texts], starts)]
    firsts, stops = anchors.firsts[best], anchors.lasts[best] + part.window
    return pa.table(
        {
            "fingerprint": anchors.fingerprints[best],
            "high": keys[best, 0],
            "low": keys[best, 1],
            "rank": ranks[texts[best]],
            "doc_id": doc_ids[texts[best]],
            "first_id": doc_ids[texts[order[starts]]],
            "last_id": doc_ids[texts[lasts]],
            "anchor": anchors.places[best] - units.ends[texts[best]],
            "nearest": (anchors.places - anchors.lasts)[best].astype(np.uint32),
            "farthest": (anchors.places - anchors.firsts)[best].astype(np.uint32),
            "documents": np.add.reduceat(is_new, starts).astype(np.uint32),
            "occurrences": np.diff(np.append(starts, len(order))).astype(np.uint32),
            "units": as_binary(*units_as_bytes(units.values, units.lows, firsts, stops)),
            "starts": window_starts(units, part, firsts, anchors.lasts[best]),
        }
    )


def best_of_runs(ranks: Ids, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first index with the smallest rank of each run that begins at `starts`: (m,)."""
    least = np.repeat(np.minimum.reduceat(ranks, starts), np.diff(np.append(starts, len(ranks))))
    places = np.where(ranks == least, np.arange(len(ranks)), len(ranks))
    return np.minimum.reduceat(places, starts)


def window_starts(
    units: Units, part: PassagePart, firsts: NDArray[np.int64], lasts: NDArray[np.int64]
) -> pa.LargeBinaryArray:
    """Return the code points before the windows from `firsts` to `lasts`, (n,) each; empty for characters."""
    counts = lasts - firsts + 1 if part.units != "characters" else np.zeros(len(firsts), np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)])
    windows = np.repeat(firsts - ends[:-1], counts) + np.arange(ends[-1])
    starts = units.first_characters(windows) if len(windows) else windows
    return as_binary(starts.astype(np.uint32), ends * 4)


def as_binary(data: NDArray[Any], offsets: NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Return ranges of bytes. offsets: (n + 1,)."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def combined_contexts(contexts: pa.Table) -> pa.Table:
    """Return the distinct contexts of a shard, from tables of consecutive documents, sorted by fingerprint."""
    if not len(contexts):
        return contexts
    columns = {name: contexts.column(name).to_numpy() for name in contexts.column_names if name not in BINARY}
    order = np.lexsort([columns["low"], columns["high"], columns["fingerprint"]])  # stable: by document
    starts = run_starts(columns["high"][order], columns["low"][order])
    lasts = order[np.append(starts[1:], len(order)) - 1]
    # A document in two parts of its text is counted once.
    again = np.zeros(len(order), np.int64)
    again[1:] = columns["last_id"][order][:-1] == columns["first_id"][order][1:]
    again[starts] = 0
    combined = contexts.take(pa.array(order[best_of_runs(columns["rank"][order], starts)]))
    documents = np.add.reduceat(columns["documents"][order].astype(np.int64) - again, starts)
    occurrences = np.add.reduceat(columns["occurrences"][order].astype(np.int64), starts)
    for name, values in (
        ("documents", documents.astype(np.uint32)),
        ("occurrences", occurrences.astype(np.uint32)),
        ("first_id", columns["first_id"][order[starts]]),
        ("last_id", columns["last_id"][lasts]),
    ):
        combined = combined.set_column(combined.schema.get_field_index(name), name, pa.array(values))
    return combined
