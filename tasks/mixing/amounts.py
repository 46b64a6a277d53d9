"""Compute the amount of each part from weights and a budget.

A part is read for a number of whole epochs plus a fraction of an epoch. The fraction consists of the documents with
the smallest draws (hashes) until the part has its tokens. A histogram of draws gives the bin of the last such
document, and the documents of this bin give the document.
"""

from collections.abc import Callable, Sequence
from math import floor

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.mixing.choosing import CHOSEN
from zyda_flows.tasks.mixing.mixture import Mixture, Part
from zyda_flows.tasks.mixing.tallies import BIN_BITS, PartTally, Tallies
from zyda_flows.tasks.storage.records import Record

LEAST_FRACTION = 1e-9  # smallest fraction of an epoch


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
    return ((place << 64 - BIN_BITS) - 1, (1 << 64) - 1) if place else None


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
