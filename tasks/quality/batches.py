"""Divide texts into batches of similar lengths."""

from collections.abc import Iterator, Sequence


def batches(lengths: Sequence[int], tokens_per_batch: int) -> Iterator[list[int]]:
    """Yield batches of the numbers of texts with similar lengths, longest first, to limit the padding."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        # The first text of a batch is the longest; the other texts are padded to its length.
        size = max(1, tokens_per_batch // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size
