"""Fingerprints: the hashes of anchors, by which windows that may be repeated are found."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.part_tables import PART, run_starts
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.passages.units import Units
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.textkernels.anchors import find_anchors

# party: the source if documents must be of different sources; otherwise 1 if a shard repeats it, 0 if not.
FINGERPRINTS = pa.schema([PART, ("fingerprint", pa.uint64()), ("party", pa.uint16())])
REPEATED = pa.schema([PART, ("fingerprint", pa.uint64())])


class DistinctFingerprints:
    """The distinct fingerprints of a shard, each with its first document, and whether the shard repeats it."""

    def __init__(self, *, within: bool) -> None:
        """within: whether a fingerprint that is twice in a document is repeated."""
        self.within = within
        self.fingerprints, self.doc_ids = np.empty(0, np.uint64), np.empty(0, np.uint64)
        self.is_repeated = np.empty(0, np.bool_)
        self.parts = list[tuple[NDArray[np.uint64], Ids, NDArray[np.bool_]]]()
        self.rows = 0

    def add(self, units: Units, part: PassagePart, doc_ids: Ids) -> None:
        """Add the fingerprints of some texts."""
        for anchors in find_anchors(units.values, units.ends, part.window):
            fingerprints = anchors.fingerprints
            texts = doc_ids[units.texts_of(anchors.places)]
            self.parts.append(self.distinct(fingerprints, texts, np.zeros(len(texts), np.bool_)))
            self.rows += len(self.parts[-1][0])
        if self.rows > len(self.fingerprints):
            self.merge()

    def merge(self) -> None:
        """Merge all fingerprints so far."""
        parts = [(self.fingerprints, self.doc_ids, self.is_repeated), *self.parts]
        columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        self.fingerprints, self.doc_ids, self.is_repeated = self.distinct(*columns)
        self.parts, self.rows = [], 0

    def distinct(
        self, fingerprints: NDArray[np.uint64], doc_ids: Ids, is_repeated: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint64], Ids, NDArray[np.bool_]]:
        order = np.argsort(fingerprints, kind="stable")
        fingerprints, doc_ids = fingerprints[order], doc_ids[order]
        starts = run_starts(fingerprints)
        if not len(starts):
            return fingerprints, doc_ids, is_repeated
        repeated = np.logical_or.reduceat(is_repeated[order], starts)
        if self.within:
            repeated |= np.diff(np.append(starts, len(order))) > 1
        first = np.minimum.reduceat(doc_ids, starts)
        repeated |= first != np.maximum.reduceat(doc_ids, starts)
        return fingerprints[starts], first, repeated


def repeated_fingerprints(
    fingerprints: NDArray[np.uint64],
    parties: NDArray[np.uint16],
    places: NDArray[np.uint32],
    part: PassagePart,
) -> pa.Table:
    """Return the fingerprints that are repeated in scope, for each file that has them: REPEATED, sorted by PART.

    fingerprints, parties: (n,) the rows of all files. places: (n,) the file of each row.
    """
    order = np.argsort(fingerprints, kind="stable")
    fingerprints, parties, places = fingerprints[order], parties[order], places[order]
    starts = run_starts(fingerprints)
    if not len(starts):
        return REPEATED.empty_table()
    sizes = np.diff(np.append(starts, len(order)))
    if part.scope == "across" and not part.within:
        is_repeated = np.minimum.reduceat(parties, starts) != np.maximum.reduceat(parties, starts)
    else:
        is_repeated = (sizes > 1) | (np.maximum.reduceat(parties, starts) > 0)
    rows = np.flatnonzero(np.repeat(is_repeated, sizes))
    rows = rows[np.argsort(places[rows], kind="stable")]
    return pa.table([places[rows], fingerprints[rows]], schema=REPEATED)
