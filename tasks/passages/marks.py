"""Marks: the repeated passages of texts, with their owners."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.part_tables import run_starts
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.passages.contexts import repeated_anchors
from zyda_flows.tasks.passages.runs import Keys
from zyda_flows.tasks.passages.spans import Places
from zyda_flows.tasks.passages.units import Units
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.textkernels.anchors import Anchors, context_keys
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.characters import characters_before
from zyda_flows.textkernels.windows import window_hashes

# A published row: windows of a document that follow each other and have the same owner. start, end: characters.
# owner_start: of the first window in its owner, in characters. documents: that have the first window.
PASSAGES = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("part", pa.uint8()),
        ("start", pa.uint32()),
        ("end", pa.uint32()),
        ("owner_id", pa.uint64()),
        ("owner_start", pa.uint32()),
        ("documents", pa.uint32()),
        ("hash", pa.binary(16)),
    ]
)


@dataclass(frozen=True)
class Marks:
    """Windows of some texts that are repeated: runs, (n,) each, ascending by text and unit.

    texts: the numbers of their texts. firsts, lasts: the first units of the first and the last window of a run.
    owners: doc_ids. owner_starts: the code points before the first window in its owner. is_owned: whether they are
    the kept copy. documents: that have the first window.
    """

    texts: Places
    firsts: Places
    lasts: Places
    owners: Ids
    owner_starts: NDArray[np.uint32]
    is_owned: NDArray[np.bool_]
    documents: NDArray[np.uint32]

    @property
    def columns(self) -> list[NDArray[Any]]:
        return [getattr(self, field.name) for field in fields(self)]

    def joined(self, *, same_owned: bool) -> "Marks":
        """Join runs that follow each other and have the same owner, and, if `same_owned`, the same `is_owned`."""
        if not len(self.texts):
            return self
        is_first = np.ones(len(self.texts), np.bool_)
        is_first[1:] = (self.firsts[1:] != self.lasts[:-1] + 1) | (self.owners[1:] != self.owners[:-1])
        is_first[1:] |= self.texts[1:] != self.texts[:-1]
        if same_owned:
            is_first[1:] |= self.is_owned[1:] != self.is_owned[:-1]
        firsts = np.flatnonzero(is_first)
        chosen = marks_with([column[firsts] for column in self.columns])
        return replace(chosen, lasts=self.lasts[np.append(firsts[1:], len(is_first)) - 1])


def marks_with(columns: Sequence[NDArray[Any]]) -> Marks:
    """Return marks with some arrays, in the order of the fields."""
    texts, firsts, lasts, owners, owner_starts, is_owned, documents = columns
    return Marks(texts, firsts, lasts, owners, owner_starts, is_owned, documents)


NO_MARKS = marks_with(
    [
        *np.empty((3, 0), np.int64), np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.bool_),
        np.empty(0, np.uint32),
    ]
)  # fmt: skip


class RunsOfShard:
    """The runs of a shard's contexts, looked up by fingerprint and hash."""

    def __init__(self, runs: pa.Table) -> None:
        """Sort the runs of a shard. runs: RUNS without PART."""
        columns = {name: runs.column(name).to_numpy() for name in runs.column_names}
        order = np.lexsort([columns["last"], columns["low"], columns["high"]])
        self.columns = {name: column[order] for name, column in columns.items()}
        self.starts = run_starts(self.columns["high"], self.columns["low"])
        self.ends = np.append(self.starts[1:], len(runs))
        self.contexts = Keys(self.columns["high"][self.starts], self.columns["low"][self.starts])
        self.fingerprints = np.unique(columns["fingerprint"])

    def marks(self, units: Units, part: PassagePart, doc_ids: Ids) -> Marks:
        """Return the repeated windows of some texts."""
        if not len(self.starts):
            return NO_MARKS
        parts = [
            self.marks_of(units, part, anchors, doc_ids)
            for anchors in repeated_anchors(units, part, self.fingerprints)
        ]
        columns = zip(*(marks.columns for marks in [NO_MARKS, *parts]), strict=True)
        return marks_with([np.concatenate(column) for column in columns])

    def marks_of(self, units: Units, part: PassagePart, anchors: Anchors, doc_ids: Ids) -> Marks:
        keys = context_keys(units.values, units.lows, anchors, part.window)
        found, is_found = self.contexts.find(keys[:, 0], keys[:, 1])
        found, places = found[is_found], anchors.places[is_found]
        counts = self.ends[found] - self.starts[found]
        rows = np.repeat(self.starts[found], counts) + np.arange(int(counts.sum()))
        rows -= np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(places, counts)
        column = self.columns
        lasts = column["last"][rows].astype(np.int64)
        firsts, texts = places - lasts, units.texts_of(places)
        owners = column["owner_id"][rows]
        is_owned = owners == doc_ids[texts]
        if part.within:
            is_owned &= column["owner_place"][rows] == places - units.ends[texts]
        marks = Marks(
            texts, firsts, places - column["first"][rows].astype(np.int64), owners, column["owner_start"][rows],
            is_owned, column["documents"][rows],
        )  # fmt: skip
        order = np.argsort(firsts, kind="stable")
        marks = marks_with([values[order] for values in marks.columns])
        return marks.joined(same_owned=True) if part.window > 1 else marks


def passages_of(
    marks: Marks, units: Units, texts: pa.LargeStringArray, doc_ids: Ids, part: PassagePart, number: int
) -> pa.Table:
    """Return the passages of marks: PASSAGES. number: of the part in the recipe."""
    if not len(marks.texts):
        return PASSAGES.empty_table()
    if part.window > 1:
        marks = marks.joined(same_owned=False)
    begins, ends = units.spans(marks.firsts, marks.lasts + part.window)
    numbers, hashes = marks.texts, window_hashes(units.values, units.lows, marks.firsts, part.window)
    columns = [
        doc_ids[numbers],
        np.full(len(numbers), number, np.uint8),
        characters_at(texts, begins, units.offsets[numbers]),
        characters_at(texts, ends, units.offsets[numbers]),
        marks.owners,
        marks.owner_starts,
        marks.documents,
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(hashes), [None, pa.py_buffer(hashes)]),
    ]
    return pa.table([*map(pa.array, columns)], schema=PASSAGES)


def characters_at(texts: pa.LargeStringArray, places: Places, starts: Places) -> NDArray[np.uint32]:
    """Return the number of characters from byte `starts` to byte `places`: (n,)."""
    data, offsets = text_buffers(texts)
    data = data[offsets[0] : offsets[-1]]
    return (characters_before(data, places) - characters_before(data, starts)).astype(np.uint32)
