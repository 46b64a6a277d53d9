"""The passes of `order: epochs`: first one copy of every document, then the second copies, and so on.

The keys of a pass are a range of the 64-bit integers, whose width is the share of the pass in the tokens of the
mixture. Therefore the order of keys is also the order of passes, and output files, which are equal ranges of keys,
have about equal sizes.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.mixing.amounts import Amount
from zyda_flows.tasks.mixing.tallies import Matrix, Tallies

MOST_PASSES = 4096
KEYS = 1 << 64
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
Keys = NDArray[np.uint64]


def passes_of(tallies: Tallies, amounts: Sequence[Amount]) -> tuple[int, ...]:
    """Return the first key of each pass, ascending from 0.

    Raises BadRecipe if a document has more than MOST_PASSES copies.
    """
    tokens = tokens_of_passes(tallies.copies, [tally.tokens for tally in tallies.parts], amounts)
    starts, total, before = list[int](), sum(tokens), 0
    for count in tokens:
        starts.append(before * KEYS // total)
        before += count
    return tuple(starts)


def tokens_of_passes(copies: Matrix, totals: Sequence[int], amounts: Sequence[Amount]) -> list[int]:
    """Return the tokens of each pass; those of a fraction of an epoch are estimated.

    copies: tokens of the documents of each part by their copies in one epoch, each once: (parts, 256).
    totals: tokens of one epoch of each part.
    """
    changes = dict[int, int]()  # of the number of tokens, by the pass from which they apply
    for row, total, amount in zip(copies.tolist(), totals, amounts, strict=True):
        drawn = amount.tokens - amount.whole * total
        for count, unique in enumerate(row):
            if not (count and unique):
                continue
            partial = max(1, unique * drawn // max(1, total)) if amount.last else 0
            steps = ((0, unique), (count * amount.whole, partial - unique))
            for at, change in (*steps, (count * (amount.whole + 1), -partial)):
                changes[at] = changes.get(at, 0) + change
    last = max((at for at, change in changes.items() if change), default=0)
    if last > MOST_PASSES:
        raise BadRecipe(
            f"order: a document has {last:,} copies, and `epochs` allows {MOST_PASSES:,}; lower the epochs or "
            "`repeat`, or remove `order`"
        )
    per_pass = np.zeros(last + 1, object)
    for at, change in changes.items():
        if at <= last:
            per_pass[at] += change
    return [int(count) for count in np.cumsum(per_pass)[:-1]]


def keys_in_passes(keys: Keys, passes: NDArray[np.uint64], starts: Sequence[int]) -> Keys:
    """Map keys, (n,), to the ranges of their passes, (n,). starts: the first key of each pass."""
    widths = [end - start for start, end in pairwise([*starts, KEYS - 1])]
    first, width = np.array(starts, np.uint64), np.array(widths, np.uint64)
    return first[passes] + upper_half(keys, width[passes])


def upper_half(a: Keys, b: Keys) -> Keys:
    """Return the upper 64 bits of products, (n,), or 1 less or 2 less, without a carry from the lower bits."""
    a_high, a_low, b_high, b_low = a >> HALF, a & LOW, b >> HALF, b & LOW
    high: Keys = a_high * b_high + ((a_high * b_low) >> HALF) + ((a_low * b_high) >> HALF)
    return high
