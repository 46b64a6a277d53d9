"""Train a judge in the form of Luxical: vectors distilled from an encoder of sentences, and a linear head on them.

The loss of the distillation is Luxical's: the softmax of the cosines of a document with the others of its batch is
to be that of the encoder (the divergence of Kullback and Leibler). The head is trained on the vectors of the model
in integers, as it is written. This module is imported late, because the import of torch takes seconds.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn

from zyda_flows.tasks.quality.batches import batches
from zyda_flows.tasks.quality.integer_layers import quantised
from zyda_flows.tasks.quality.ngram_vectors import DIMS, NgramVectors
from zyda_flows.tasks.quality.text_vectors import UNIT
from zyda_flows.tasks.quality.token_models import JudgeConfig, write_model
from zyda_flows.tasks.quality.torch_networks import tokenizer_of
from zyda_flows.tasks.quality.training.pooled_training import encoded, head_weights, loss_of
from zyda_flows.tasks.quality.training.targets import TargetColumn
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.tokens.engine import TokenIds
from zyda_flows.textkernels.ngrams import Vocabulary, counts_of, hashes_of, vocabulary_of

HIDDEN = 96
MOST_NGRAMS, FEWEST = 1 << 17, 3  # n-grams of a vocabulary, and occurrences of each in the training
BATCH, EPOCHS, RATE = 96, 12, 0.01
TEMPERATURE = 0.2
HEAD_STEPS, HEAD_RATE, HEAD_DECAY = 400, 0.05, 1e-4
IDF_UNITS = 16  # the weight of an n-gram is a whole number of 1/16
TOKENS_PER_BATCH, TOKENS_OF_TEACHER = 4096, 256  # as most encoders of sentences are trained
CHARACTERS_OF_TEACHER = 12 * TOKENS_OF_TEACHER


@torch.inference_mode()
def teacher_vectors(folder: Path, texts: pa.LargeStringArray) -> NDArray[np.float32]:
    """Return the vectors of an encoder of sentences, of length 1: the mean of the first tokens of each text."""
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()  # else it lists weights that are not used, such as a pooler's
    model, tokenizer = AutoModel.from_pretrained(folder, local_files_only=True).eval(), tokenizer_of(folder)
    strings = [text.as_py()[:CHARACTERS_OF_TEACHER] for text in texts]
    ids = tokenizer(strings, truncation=True, max_length=TOKENS_OF_TEACHER)["input_ids"]
    vectors = np.empty((len(ids), model.config.hidden_size), np.float32)
    for places in batches([len(each) for each in ids], TOKENS_PER_BATCH):
        padded = tokenizer.pad({"input_ids": [ids[place] for place in places]}, return_tensors="pt")
        mask = padded["attention_mask"].unsqueeze(-1)
        hidden = model(**padded).last_hidden_state
        mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        vectors[places] = nn.functional.normalize(mean, dim=1).numpy()
    return vectors


def train(
    folder: Path,
    texts: pa.LargeStringArray,
    target: TargetColumn,
    seed: int,
    tokenizer: Tokenizer,
    teacher: NDArray[np.float32],
) -> Path:
    """Train a judge and write its folder; return it. teacher: the vectors of the texts by an encoder, (n, dims)."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # sums of floats depend on the number
    tokens = encoded(tokenizer, texts)
    ngrams, idf = frequent_ngrams(tokens)
    tensors = distilled(tokens, ngrams, idf, teacher, seed)
    features = NgramVectors.of({**tensors}).features(tokens)
    tensors |= quantised(trained_head(features, target), 1 / UNIT)
    config = JudgeConfig(
        form="luxical", labels=target.labels, tokenizer=digest_of(tokenizer.to_str()), seed=seed
    )
    return write_model(folder, config, tensors, tokenizer)


def frequent_ngrams(tokens: TokenIds) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Return the most frequent n-grams, ascending by hash, and their idf: log(all n-grams / occurrences)."""
    hashes = hashes_of(tokens.ids, tokens.ends)
    ngrams, counts = np.unique(hashes[hashes != 0], return_counts=True)
    chosen = np.argsort(-counts, kind="stable")[:MOST_NGRAMS]
    chosen = np.sort(chosen[counts[chosen] >= min(FEWEST, counts.max(initial=0))])
    idf = np.log(counts[chosen].sum() / counts[chosen])
    return ngrams[chosen], np.clip(np.rint(idf * IDF_UNITS), 1, 255).astype(np.uint8)


class LuxicalNetwork(nn.Module):
    """The network in float32: the rows of n-grams, ReLU, and a dense layer."""

    def __init__(self, ngrams: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(ngrams, HIDDEN).uniform_(-1, 1))
        self.dense = nn.Parameter(torch.empty(DIMS, HIDDEN).uniform_(-1, 1) * (6 / HIDDEN) ** 0.5)

    def forward(self, places: Tensor, weights: Tensor, starts: Tensor) -> Tensor:
        """Return vectors of length 1. places, weights: of all n-grams. starts: of each document in them."""
        sums = nn.functional.embedding_bag(places, self.rows, starts, mode="sum", per_sample_weights=weights)
        hidden = nn.functional.normalize(nn.functional.relu(sums), dim=1)
        return nn.functional.normalize(hidden @ self.dense.T, dim=1)


def distilled(
    tokens: TokenIds,
    ngrams: NDArray[np.uint64],
    idf: NDArray[np.uint8],
    teacher: NDArray[np.float32],
    seed: int,
) -> dict[str, NDArray[Any]]:
    """Return the tensors of `NgramVectors`, in integers."""
    numbers, places, weights = weighted(tokens, vocabulary_of(ngrams), idf)
    ends, network = np.concatenate([[0], np.cumsum(numbers)]), LuxicalNetwork(len(ngrams))
    size = min(BATCH, len(numbers))
    steps = EPOCHS * (len(numbers) // size)
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    chance = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        order = chance.permutation(len(numbers))
        for start in range(0, len(order) - size + 1, size):
            documents = order[start : start + size]
            parts = np.concatenate([np.arange(ends[i], ends[i + 1]) for i in documents.tolist()])
            starts = np.concatenate([[0], np.cumsum(numbers[documents])[:-1]])
            inputs = (places[parts].astype(np.int64), weights[parts], starts)
            optimizer.zero_grad()
            vectors = network(*map(torch.from_numpy, inputs))
            distillation_loss(vectors, torch.from_numpy(teacher[documents])).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    rows, dense = network.rows.detach().numpy(), network.dense.detach().numpy()
    return {
        "ngrams": ngrams,
        "idf": idf,
        "rows": np.rint(rows * (127 / np.abs(rows).max())).astype(np.int8),
        "dense": np.rint(dense * (np.iinfo(np.int16).max / np.abs(dense).max())).astype(np.int16),
    }


def weighted(
    tokens: TokenIds, vocabulary: Vocabulary, idf: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return the number of n-grams of each document, and of all documents their places and TF-IDF of length 1."""
    numbers, places, counts = counts_of(tokens.ids, tokens.ends, vocabulary)
    weights = counts * idf[places].astype(np.float64)
    documents = np.repeat(np.arange(len(numbers)), numbers)
    squares = np.bincount(documents, weights * weights, len(numbers))
    return numbers, places, (weights / np.sqrt(squares)[documents]).astype(np.float32)


def distillation_loss(vectors: Tensor, teacher: Tensor) -> Tensor:
    """Return Luxical's loss of a batch. vectors, teacher: of length 1, (n, dims)."""
    others = ~torch.eye(len(vectors), dtype=torch.bool)
    logits, expected = (
        nn.functional.log_softmax((each @ each.T)[others].view(len(each), -1) / TEMPERATURE, dim=1)
        for each in (vectors, teacher)
    )
    return nn.functional.kl_div(logits, expected, log_target=True, reduction="batchmean")


def trained_head(
    features: NDArray[np.int32], target: TargetColumn
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the weight and bias of a linear head on vectors, by some hundred steps with all documents."""
    head = nn.Sequential(nn.Linear(DIMS, max(1, len(target.labels))))
    inputs = torch.from_numpy((features / UNIT).astype(np.float32))
    scale, everyone = (
        (float(target.values.mean()), float(target.values.std()) or 1.0),
        np.arange(len(features)),
    )
    optimizer = torch.optim.AdamW(head.parameters(), HEAD_RATE, weight_decay=HEAD_DECAY)
    for _ in range(HEAD_STEPS):
        optimizer.zero_grad()
        loss_of(head(inputs), target, everyone, scale).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return head_weights(head, target, scale)
