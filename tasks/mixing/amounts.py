"""Compute the amount of each part from weights and a budget.

A part is read for a number of whole epochs plus a fraction of an epoch. The fraction consists of the documents with
the smallest draws (hashes) until the part has its tokens. A histogram of draws gives the bin of the last such
document, and the documents of this bin give the document.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import floor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.mixing.choosing import BINS, CHOSEN, SHIFT
from zyda_flows.tasks.mixing.mixture import Mixture, Part
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import read_table

SPECIAL = ("special_documents", "special_tokens")
LEAST_FRACTION = 1e-9  # smallest fraction of an epoch


class PartTally(Record):
    """The documents of a part, and the tokens of one epoch, of which `repeated` are in further copies.

    unused: documents without copies, because other documents of their cluster have all of them. special_documents,
    special_tokens: documents, with those held out, whose text contains special tokens, and the number of these.
    """

    name: str
    documents: int = 0
    tokens: int = 0
    repeated: int = 0
    held_out: int = 0
    held_out_tokens: int = 0
    unused: int = 0
    special_documents: int = 0
    special_tokens: int = 0


class Amount(Record):
    """The amount of a part: `whole` epochs, plus one copy of the documents up to the draw `last`.

    last: draw and doc_id of the last document of the fraction, or None without a fraction. target: the planned
    tokens, of which `tokens` is the nearest possible number.
    """

    part: str
    whole: int
    last: tuple[int, int] | None
    target: int
    epochs: float
    tokens: int


@dataclass(frozen=True)
class Tallies:
    """The summed tallies of all files: by part, and the tokens by part and bin of draws, (parts, 65,536) int64."""

    parts: tuple[PartTally, ...]
    bins: NDArray[np.int64]


def tallies_of(folder: Folder, mixture: Mixture, artifacts: Iterable[Artifact]) -> Tallies:
    """Return the sum of the tallies of all files."""
    names = ("documents", "tokens", "repeated", "unused", "held_out", "held_out_tokens", *SPECIAL)
    sums = np.zeros((len(mixture.parts), len(names)), np.int64)
    bins = np.zeros((len(mixture.parts), BINS), np.int64)
    for artifact in artifacts:
        table = read_table(folder, artifact)
        part, place, held_out, documents, tokens, repeated, unused, *special = (
            column.to_numpy() for column in table.columns
        )
        np.add.at(bins, (part[~held_out], place[~held_out]), tokens[~held_out].astype(np.int64))
        for column, values in enumerate((documents, tokens, repeated, unused)):
            np.add.at(sums[:, column], part[~held_out], values[~held_out].astype(np.int64))
        for column, values in enumerate(special, names.index(SPECIAL[0])):
            np.add.at(sums[:, column], part, values.astype(np.int64))
        np.add.at(sums[:, 4], part[held_out], documents[held_out].astype(np.int64))
        np.add.at(sums[:, 5], part[held_out], tokens[held_out].astype(np.int64))
    parts = (
        PartTally(name=part.name, **dict(zip(names, row, strict=True)))
        for part, row in zip(mixture.parts, sums.tolist(), strict=True)
    )
    return Tallies(tuple(parts), bins)


def epochs_of(mixture: Mixture, tallies: Sequence[PartTally]) -> list[float]:
    """Return the number of epochs of each part. Raises BadRecipe if a part cannot fill its weight."""
    faults = [
        f"parts[{number}] {tally.name}: it has no {'training ' * bool(tally.held_out)}documents"
        for number, (part, tally) in enumerate(zip(mixture.parts, tallies, strict=True))
        if not tally.tokens and part.weight != 0
    ]
    if faults:
        raise BadRecipe(*faults)
    if mixture.budget is None:
        return [part.epochs or 0.0 for part in mixture.parts]
    available = sum(tally.tokens for part, tally in zip(mixture.parts, tallies, strict=True) if part.weight)
    budget = mixture.budget.tokens or available * (mixture.budget.epochs or 0)
    most = [most_of(mixture, part) * tally.tokens for part, tally in zip(mixture.parts, tallies, strict=True)]
    targets = targets_of(mixture, budget, most)
    return [
        target / tally.tokens if tally.tokens else 0.0 for target, tally in zip(targets, tallies, strict=True)
    ]


def most_of(mixture: Mixture, part: Part) -> float:
    return part.max_epochs or mixture.max_epochs


def targets_of(mixture: Mixture, budget: float, most: Sequence[float]) -> list[float]:
    """Distribute a budget by weights with a maximum for each part.

    Raises BadRecipe with the numbers if it is exceeded.
    """
    weights = [part.weight or 0.0 for part in mixture.parts]
    targets = [budget * weight / sum(weights) for weight in weights]
    if all(target <= limit for target, limit in zip(targets, most, strict=True)):
        return targets
    if mixture.shortfall == "fail":
        raise BadRecipe(
            *(
                f"parts[{number}] {part.name}: its weight requires {target:,.0f} tokens, but "
                f"{most_of(mixture, part):g} epochs have {limit:,.0f}; lower the weight or the budget, raise "
                "max_epochs, or set shortfall: share"
                for number, (part, target, limit) in enumerate(zip(mixture.parts, targets, most, strict=True))
                if target > limit
            )
        )
    is_full = [False] * len(weights)
    while True:
        remaining = budget - sum(limit for limit, full in zip(most, is_full, strict=True) if full)
        open_weight = sum(weight for weight, full in zip(weights, is_full, strict=True) if not full)
        if open_weight <= 0:
            raise BadRecipe(
                f"budget: {budget:,.0f} tokens, but all parts have {sum(most):,.0f} tokens with their max_epochs"
            )
        targets = [
            limit if full else remaining * weight / open_weight
            for weight, limit, full in zip(weights, most, is_full, strict=True)
        ]
        over = [target > limit for target, limit in zip(targets, most, strict=True)]
        if not any(over):
            return targets
        is_full = [full or more for full, more in zip(is_full, over, strict=True)]


def amounts_of(
    mixture: Mixture, tallies: Tallies, documents_in: Callable[[dict[int, int]], pa.Table], around: int
) -> list[Amount]:
    """Return the amount of each part.

    documents_in: returns the training documents of a bin for each of the given parts: CHOSEN. around: number of
    tokens that are added around each document.
    """
    epochs, bins, rests = epochs_of(mixture, tallies.parts), dict[int, int](), dict[int, int]()
    for number, (count, tally) in enumerate(zip(epochs, tallies.parts, strict=True)):
        rest = round((count - floor(count + LEAST_FRACTION)) * tally.tokens)
        if rest > 0:
            rests[number] = rest
            ends = np.cumsum(tallies.bins[number])
            bins[number] = int(np.searchsorted(ends, rest))
    within = documents_in(bins) if bins else CHOSEN.empty_table()
    amounts = list[Amount]()
    for number, (count, tally) in enumerate(zip(epochs, tallies.parts, strict=True)):
        whole, last = floor(count + LEAST_FRACTION), None
        tokens = whole * tally.tokens
        if number in rests:
            before = int(tallies.bins[number][: bins[number]].sum())
            last, more = last_drawn(within, number, rests[number] - before, around) or (
                below(bins[number]),
                0,
            )
            tokens += before + more
        amounts.append(
            Amount(
                part=tally.name, whole=whole, last=last, target=round(count * tally.tokens), epochs=count,
                tokens=tokens,
            )
        )  # fmt: skip
    return amounts


def below(place: int) -> tuple[int, int] | None:
    """Return the largest draw and doc_id below a bin, or None for the first bin."""
    return ((place << int(SHIFT)) - 1, (1 << 64) - 1) if place else None


def last_drawn(within: pa.Table, number: int, tokens: int, around: int) -> tuple[tuple[int, int], int] | None:
    """Return draw and doc_id of the last drawn document of a bin, and the tokens of the bin up to it.

    The sum of tokens up to this document is the nearest to `tokens`. None if no document should be drawn.
    """
    rows = within.filter(pa.array(within.column("part").to_numpy() == number))
    draw, ids = rows.column("draw").to_numpy(), rows.column("doc_id").to_numpy()
    lengths = rows.column("n_tokens").to_numpy().astype(np.int64) + around
    order = np.lexsort([ids, draw])
    ends = np.cumsum((lengths * rows.column("copies").to_numpy())[order])
    place = min(int(np.searchsorted(ends, tokens)), len(ends) - 1)
    if tokens - (ends[place - 1] if place else 0) < ends[place] - tokens:
        place -= 1
    if place < 0:
        return None
    return (int(draw[order[place]]), int(ids[order[place]])), int(ends[place])


@dataclass(frozen=True)
class DocumentsInBins:
    """Read the training documents of a file in the given bin of each part: CHOSEN."""

    folder: Folder
    chosen: Artifact
    bins: tuple[tuple[int, int], ...]

    def __call__(self) -> pa.Table:
        table = read_table(self.folder, self.chosen)
        part, draw = table.column("part").to_numpy(), table.column("draw").to_numpy()
        wanted = np.full(1 << 16, BINS, np.int64)
        for number, place in self.bins:
            wanted[number] = place
        is_in = wanted[part] == (draw >> SHIFT).astype(np.int64)
        return table.filter(pa.array(is_in & ~table.column("is_held_out").to_numpy()))
