"""Measure a causal model: the nats of documents and of continuations, and bits per byte.

This module is imported late, because the import of torch takes seconds.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from zyda_flows.tasks.tokens.engine import TokenIds

TOKENS_AT_ONCE, TIMES_ON_GPU = 2048, 16  # larger batches are slower on a CPU, whose cache is small
IGNORED = -100  # label of a token that is not measured


class TokenWindow(NamedTuple):
    """Tokens that a model reads at once. first: the first measured token, at least 1. owner: of its nats."""

    ids: NDArray[Any]
    first: int
    owner: int


def bits_per_byte(nats: NDArray[np.float64], n_bytes: NDArray[np.integer[Any]]) -> float:
    """Return the bits per byte of texts together, from the nats and the UTF-8 bytes of each."""
    return float(nats.sum() / math.log(2) / max(1, int(n_bytes.sum())))


def document_nats(model: Any, documents: TokenIds, sequence: int) -> NDArray[np.float64]:
    """Return the negative log likelihood of each document in nats, (n,), of all its tokens but the first.

    Documents begin with the separator of documents. A long document is read in windows of `sequence` tokens, each
    of which begins with the last token of the window before.
    """
    windows = [
        TokenWindow(documents.of(document)[start : start + sequence], 1, document)
        for document, length in enumerate(documents.counts.tolist())
        for start in range(0, max(0, length - 1), sequence - 1)
    ]
    return nats_of(model, windows, len(documents.ends) - 1)


def continuation_nats(
    model: Any, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], sequence: int
) -> NDArray[np.float64]:
    """Return the negative log likelihood of each continuation given its context, in nats, (n,).

    pairs: token ids of contexts, which are not empty, and of continuations. If a pair has more than `sequence`
    tokens, the beginning of its context is cut; a longer continuation is read in windows, as a document.
    """
    windows = list[TokenWindow]()
    for owner, (context, continuation) in enumerate(pairs):
        ids = np.array([*context, *continuation])[-max(sequence, len(continuation) + 1) :]
        first = len(ids) - len(continuation)
        windows += [
            TokenWindow(ids[start : start + sequence], max(1, first - start), owner)
            for start in range(0, max(1, len(ids) - 1), sequence - 1)
        ]
    return nats_of(model, windows, len(pairs))


@torch.inference_mode()
def nats_of(model: Any, windows: Sequence[TokenWindow], owners: int) -> NDArray[np.float64]:
    """Return the sum of the nats of the windows of each owner, (owners,)."""
    torch.set_num_threads(1)  # sums of floats depend on the number
    model.eval()
    device = next(model.parameters()).device
    totals = np.zeros(owners)
    for batch in batches_of(windows, TOKENS_AT_ONCE * (1 if device.type == "cpu" else TIMES_ON_GPU)):
        length = max(len(window.ids) for window in batch)
        rows = torch.zeros((len(batch), length), dtype=torch.int64)
        labels = torch.full((len(batch), length), IGNORED)
        for row, window in enumerate(batch):
            ids = torch.from_numpy(window.ids.astype(np.int64))
            rows[row, : len(ids)] = ids
            labels[row, window.first : len(ids)] = ids[window.first :]
        logits = model(input_ids=rows.to(device)).logits[:, :-1].float()
        expected = labels[:, 1:].to(device)
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), expected.flatten(), reduction="none", ignore_index=IGNORED
        ).view(expected.shape)
        np.add.at(totals, [window.owner for window in batch], losses.double().sum(dim=1).cpu().numpy())
    return totals


def batches_of(windows: Sequence[TokenWindow], tokens: int) -> Iterator[list[TokenWindow]]:
    """Yield windows of similar lengths, about `tokens` tokens at a time."""
    batch = list[TokenWindow]()
    for window in sorted(windows, key=lambda window: -len(window.ids)):
        if batch and (len(batch) + 1) * len(batch[0].ids) > tokens:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch
