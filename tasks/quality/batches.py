"""Divide texts into batches of similar lengths."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

MOST_PADDING = 0.05  # share of the positions of a batch that are padding, if the batch is not small
SMALL = 8  # a batch with an eighth of the tokens may have more padding


def batches(lengths: Sequence[int], tokens_per_batch: int) -> Iterator[list[int]]:
    """Yield batches of the numbers of texts with similar lengths, longest first, to limit the padding."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        longest = max(1, lengths[order[start]])  # the other texts of the batch are padded to its length
        most = max(1, tokens_per_batch // longest)
        sums = accumulate(lengths[i] for i in order[start : start + most])
        padding = [1 - tokens / (longest * size) for size, tokens in enumerate(sums, 1)]  # ascends
        size = max(1, most // SMALL, bisect_right(padding, MOST_PADDING))
        yield order[start : start + size]
        start += size
