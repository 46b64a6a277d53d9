"""Train a judge of pooled embeddings with torch: a table of tokens, and a head with one hidden layer.

The network is `textkernels.pooling` and `integer_layers` in float32; at the end its weights become integers.
This module is imported late, because the import of torch takes seconds.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn

from zyda_flows.tasks.quality.integer_layers import quantised
from zyda_flows.tasks.quality.token_models import JudgeConfig, write_model
from zyda_flows.tasks.quality.training.targets import TargetColumn
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.tokens.engine import TokenEngine, TokenIds, batches, concatenated
from zyda_flows.textkernels.pooling import UNITS

DIMS, HIDDEN = 64, 32
WINDOW = 256
WINDOWS_AT_ONCE = 8  # of a document, chosen at random in each epoch
BATCH, EPOCHS = 32, 12
RATE, DECAY, DROPOUT = 4e-3, 0.02, 0.2
CLIPPED = 1e-4  # the share of the largest embeddings that are cut, for a finer unit of the others


def encoded(tokenizer: Tokenizer, texts: pa.LargeStringArray) -> TokenIds:
    """Return the token ids of texts, as a judge encodes them."""
    engine = TokenEngine(tokenizer)
    return concatenated([engine.encode_unchecked(batch, batch.to_pylist()) for batch in batches(texts)])


class PooledNetwork(nn.Module):
    """The network in float32. vocabulary: tokens that the training has seen. outputs: labels, or 1 for a score."""

    def __init__(self, vocabulary: int, outputs: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(vocabulary, DIMS).uniform_(-0.5, 0.5))
        self.dropout = nn.Dropout(DROPOUT)
        self.head = nn.Sequential(nn.Linear(3 * DIMS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))

    def forward(self, ids: Tensor, starts: Tensor, windows: Tensor) -> Tensor:
        """Return the outputs for documents.

        ids: of all windows. starts: of each window in `ids`. windows: their number in each document.
        """
        means = nn.functional.embedding_bag(ids, self.table, starts, mode="mean")
        parts = [torch.segment_reduce(means, kind, lengths=windows) for kind in ("mean", "max", "min")]
        outputs: Tensor = self.head(self.dropout(torch.cat(parts, dim=1)))
        return outputs


def train(
    folder: Path, texts: pa.LargeStringArray, target: TargetColumn, seed: int, tokenizer: Tokenizer
) -> Path:
    """Train a judge and write its folder; return it."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # sums of floats depend on the number
    tokens = encoded(tokenizer, texts)
    seen, ids = np.unique(tokens.ids, return_inverse=True)
    network = PooledNetwork(max(1, len(seen)), max(1, len(target.labels)))
    scale = (float(target.values.mean()), float(target.values.std()) or 1.0)
    steps = EPOCHS * -(-len(texts) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    chance = np.random.default_rng(seed)
    for batch, documents in windows_of_epochs(TokenIds(ids.astype(np.uint32), tokens.ends), chance):
        optimizer.zero_grad()
        loss_of(network(*batch), target, documents, scale).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    tensors = tensors_of_network(network, seen, max(tokenizer.get_vocab().values()) + 1, target, scale)
    config = JudgeConfig(
        form="pooled",
        labels=target.labels,
        tokenizer=digest_of(tokenizer.to_str()),
        window=WINDOW,
        seed=seed,
    )
    return write_model(folder, config, tensors, tokenizer)


def windows_of_epochs(
    tokens: TokenIds, chance: np.random.Generator
) -> Iterator[tuple[tuple[Tensor, Tensor, Tensor], NDArray[np.int64]]]:
    """Yield the inputs of the network for batches of documents, and the places of these documents."""
    for _ in range(EPOCHS):
        order = chance.permutation(len(tokens.ends) - 1)
        for start in range(0, len(order), BATCH):
            documents = order[start : start + BATCH]
            parts = [windows_of(tokens.of(document), chance) for document in documents.tolist()]
            every = [window for windows in parts for window in windows]
            starts = np.cumsum([0, *map(len, every[:-1])])
            inputs = np.concatenate(every).astype(np.int64), starts, np.array([*map(len, parts)])
            ids, starts_of_windows, windows = map(torch.from_numpy, inputs)
            yield (ids, starts_of_windows, windows), documents


def windows_of(ids: NDArray[np.uint32], chance: np.random.Generator) -> list[NDArray[np.uint32]]:
    """Return at most WINDOWS_AT_ONCE windows of a document, divided as by `textkernels.pooling`."""
    windows = max(1, -(-len(ids) // WINDOW))
    chosen = (
        chance.choice(windows, WINDOWS_AT_ONCE, replace=False)
        if windows > WINDOWS_AT_ONCE
        else range(windows)
    )
    return [ids[len(ids) * int(i) // windows : len(ids) * (int(i) + 1) // windows] for i in chosen]


def loss_of(
    outputs: Tensor, target: TargetColumn, documents: NDArray[np.int64], scale: tuple[float, float]
) -> Tensor:
    """Return the cross-entropy of labels, or the squared error of scores. scale: their mean and deviation."""
    values = target.values[documents]
    if target.labels:
        return nn.functional.cross_entropy(outputs, torch.from_numpy(values.astype(np.int64)))
    expected = torch.from_numpy(((values - scale[0]) / scale[1]).astype(np.float32))
    return nn.functional.mse_loss(outputs[:, 0], expected)


def head_weights(
    head: nn.Sequential, target: TargetColumn, scale: tuple[float, float]
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the weights and biases of the linear layers of a head; the last returns scores as in the target."""
    linear = [layer for layer in head if isinstance(layer, nn.Linear)]
    weights = [
        (layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()) for layer in linear
    ]
    if not target.labels:
        weight, bias = weights[-1]
        weights[-1] = (weight * scale[1], bias * scale[1] + scale[0])
    return weights


def tensors_of_network(
    network: PooledNetwork,
    seen: NDArray[np.uint32],
    vocabulary: int,
    target: TargetColumn,
    scale: tuple[float, float],
) -> dict[str, NDArray[Any]]:
    """Return the tensors of a model in integers. Tokens that the training has not seen have embeddings of zeros."""
    weights = network.table.detach().numpy()
    unit = max(float(np.quantile(np.abs(weights), 1 - CLIPPED)), 1e-9) / 127
    table = np.zeros((vocabulary, DIMS), np.int8)
    table[seen] = np.clip(np.rint(weights / unit), -127, 127)[: len(seen)]
    return {"table": table, **quantised(head_weights(network.head, target, scale), unit / UNITS)}
