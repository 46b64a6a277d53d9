"""Compare the bits per byte of removed and kept documents in cells.

Bits per byte differ between sources and with the length of a document. So removed and held-out kept documents are
compared in cells: the documents of a source in a tenth of the lengths of its kept documents. The difference of a
stage and reason is the mean of its cells, by their removed documents. Cells with fewer than FEWEST documents on a
side are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.ablation.preparation import REMOVED, SOURCE
from zyda_flows.tasks.ablation.removed_texts import RemovedGroup
from zyda_flows.tasks.storage.records import Record

KEPT = "kept:"  # begin of the name of kept texts with which a group alone is compared
FEWEST, DECILES = 50, 10
RESAMPLES, ALPHA = 2000, 0.05
Numbers = NDArray[np.float64]


class GroupDifference(Record):
    """The comparison of the documents that a stage removed for a reason.

    documents: all of them. compared: sampled documents in a compared cell. cells, left_out: compared cells, and
    cells with too few documents. difference: bits per byte of removed minus kept documents; low, high: its
    interval, corrected for the number of groups. NaN if no cell is compared.
    """

    stage: str
    reason: str
    documents: int
    compared: int
    cells: int
    left_out: int
    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        if not self.cells:
            return "too few documents"
        if self.low > 0:
            return "less like the kept texts"
        return "more like the kept texts" if self.high < 0 else "no difference seen"


@dataclass(frozen=True)
class Measured:
    """Documents. sizes: bytes. bits: of each in each run, (n, runs)."""

    sizes: Numbers
    bits: Numbers


def differences(groups: Sequence[RemovedGroup], documents: Mapping[str, Measured]) -> list[GroupDifference]:
    """Compare each group with the kept documents of its sources."""
    found = [difference_of(group, documents, ALPHA / len(groups)) for group in groups]
    return sorted(
        found, key=lambda each: (-np.nan_to_num(each.difference, nan=-np.inf), each.stage, each.reason)
    )


def difference_of(group: RemovedGroup, documents: Mapping[str, Measured], level: float) -> GroupDifference:
    """Compare the removed documents of a group with kept documents of the same sources and lengths."""
    cells, left_out = list[tuple[Measured, Measured]](), 0
    for source in dict.fromkeys(group.sources):
        removed, kept = documents.get(f"{REMOVED}{group.name}|{source}"), kept_texts(group, source, documents)
        if removed is None:
            continue
        if kept is None:
            left_out += 1
            continue
        edges = np.quantile(kept.sizes, np.arange(1, DECILES) / DECILES)
        places = [np.searchsorted(edges, each.sizes, side="right") for each in (removed, kept)]
        for cell in range(DECILES):
            both = tuple(
                part_of(each, place == cell) for each, place in zip((removed, kept), places, strict=True)
            )
            if min(len(each.sizes) for each in both) >= FEWEST:
                cells.append((both[0], both[1]))
            else:
                left_out += bool(len(both[0].sizes))
    weights = np.array([len(removed.sizes) for removed, _ in cells], np.float64)
    low, middle, high = np.nan, np.nan, np.nan
    if cells:
        middle = float(np.average([ratio(removed) - ratio(kept) for removed, kept in cells], weights=weights))
        low, high = np.quantile(resampled(cells, weights), [level / 2, 1 - level / 2]).tolist()
    return GroupDifference(
        stage=group.stage, reason=group.reason, documents=group.total, compared=int(weights.sum()),
        cells=len(cells), left_out=left_out, difference=middle, low=low, high=high,
    )  # fmt: skip


def kept_texts(group: RemovedGroup, source: str, documents: Mapping[str, Measured]) -> Measured | None:
    """Return the kept texts of a source with which a group is compared: its own, or the held-out documents."""
    return documents.get(f"{KEPT}{group.name}|{source}", documents.get(f"{SOURCE}{source}"))


def part_of(documents: Measured, is_in: NDArray[np.bool_]) -> Measured:
    return Measured(documents.sizes[is_in], documents.bits[is_in])


def ratio(documents: Measured) -> float:
    """Return the bits per byte of documents together, in the mean of the runs."""
    return float(documents.bits.sum(axis=0).mean() / documents.sizes.sum())


def resampled(cells: Sequence[tuple[Measured, Measured]], weights: Numbers) -> Numbers:
    """Return the difference for resampled documents and runs, (RESAMPLES,)."""
    chance = np.random.default_rng(0)
    runs = chance.integers(0, cells[0][0].bits.shape[1], (RESAMPLES, cells[0][0].bits.shape[1]))
    totals = np.zeros(RESAMPLES)
    for weight, pair in zip(weights / weights.sum(), cells, strict=True):
        for sign, documents in zip((1, -1), pair, strict=True):
            rows = chance.integers(0, len(documents.sizes), (RESAMPLES, len(documents.sizes)))
            counts = np.stack([np.bincount(row, minlength=len(documents.sizes)) for row in rows])
            bits = np.take_along_axis(counts @ documents.bits, runs, axis=1).mean(axis=1)
            totals += sign * weight * bits / (counts @ documents.sizes)
    return totals
