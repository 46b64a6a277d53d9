"""Run quality models with transformers and torch: texts in, labels or scores out.

Only `tasks.quality.encoders` imports this module, and late, because the import of torch takes seconds.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging

from zyda_flows.tasks.log import warn
from zyda_flows.tasks.quality.batches import batches
from zyda_flows.tasks.quality.encoder_files import WEIGHTS, is_multi_label, labels_of, load_config
from zyda_flows.tasks.quality.torch_networks import (
    EmbeddingHead,
    HeadOnFirst,
    SequenceClassifier,
    tokenizer_of,
)
from zyda_flows.tasks.stage.progress import REPORT_SHARD_FRACTION

TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 131_072}  # larger batches on a CPU exceed its cache
TOKENS_LIKE_A_PAIR = 500  # attention to so many tokens costs as much as the other layers for one token
WINDOW = 4096  # texts that are sorted by length together
AHEAD = 2  # windows that are tokenized before the model needs them
CHARACTERS_PER_TOKEN = (
    12  # texts are first cut to so many; a text that then has too few tokens is tokenized whole
)
# The outputs for a text depend on the other texts of its batch, by about 1e-6 on a CPU. They are rounded. If the
# rounding, the label or the whole number would change within the margin, the text is classified again in a batch of
# one text. So its answer does not depend on the other texts. On a GPU, in bfloat16, the outputs differ by more.
DECIMALS = 3
MARGIN = 2e-5


class Classifier:
    """A loaded quality model.

    device: cuda, cpu, or None for the best device of this machine. every_label: whether the answers have the
    probability of each label.
    """

    def __init__(
        self, folder: Path, max_tokens: int, device: str | None = None, *, every_label: bool = False
    ) -> None:
        logging.disable_progress_bar()
        config = load_config(folder)
        self.labels = labels_of(config)
        self.max_tokens, self.every_label = max_tokens, every_label
        self.activation = sigmoid if is_multi_label(config) else softmax
        self.tokenizer = tokenizer_of(folder)
        self.tokenising = Lock()  # truncating tokenizers cannot be used by two threads at the same time
        self.device = device or best_device()
        self.network: nn.Module
        if "base_model" in config:
            self.network = HeadOnFirst(folder)
            self.network.load_state_dict(load_file(folder / WEIGHTS))
        elif "head" in config:
            self.network = EmbeddingHead(folder)
        else:
            self.network = SequenceClassifier(
                AutoModelForSequenceClassification.from_pretrained(
                    folder, use_safetensors=True, trust_remote_code=False, local_files_only=True
                )
            )
        self.tokens_per_batch = TOKENS_PER_BATCH[self.device]
        kind = torch.bfloat16 if self.device == "cuda" else torch.float32
        self.network.to(self.device, kind).eval()

    def logits(self, texts: Sequence[str], window: int = WINDOW) -> NDArray[np.float32]:
        """Return the raw outputs for each text: float32, (n, labels), or (n, 1) for a score.

        Another thread tokenizes the next windows. window: the number of texts that are sorted by length together.
        """
        windows = [texts[i : i + window] for i in range(0, len(texts), window)]
        outputs = [np.empty((0, max(1, len(self.labels))), np.float32)]
        with ThreadPoolExecutor(1) as tokenising:
            encoded = deque(tokenising.submit(self.encode, window) for window in windows[:AHEAD])
            for i in range(len(windows)):
                tokens = encoded.popleft().result()
                if i + AHEAD < len(windows):
                    encoded.append(tokenising.submit(self.encode, windows[i + AHEAD]))
                outputs.append(self.window_logits(tokens, i, len(windows)))
        return np.concatenate(outputs)

    @torch.inference_mode()
    def window_logits(self, tokens: list[list[int]], before: int, windows: int) -> NDArray[np.float32]:
        """Return the raw outputs for a window: float32, (n, labels).

        Args:
            tokens: the token ids of each text.
            before: the number of finished windows, for the progress.
            windows: the number of all windows.
        """
        outputs, order = list[Tensor](), list[int]()
        finished_cost, total_cost = 0, max(1, sum(map(cost_of, tokens)))
        for batch in batches([len(ids) for ids in tokens], self.tokens_per_batch):
            for places, raw in self.outputs_of(tokens, batch):
                outputs.append(raw)
                order += places
                finished_cost += sum(cost_of(tokens[place]) for place in places)
                REPORT_SHARD_FRACTION.get()((before + finished_cost / total_cost) / windows)
        result = np.empty((len(tokens), max(1, len(self.labels))), np.float32)
        # Copied once, because each copy waits for the device.
        result[order] = torch.cat(outputs).cpu().numpy().reshape(result.shape)
        return result

    def outputs_of(self, tokens: list[list[int]], places: list[int]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield the raw outputs for texts, in halves if the memory of the GPU is too small for all."""
        padded = self.tokenizer.pad({"input_ids": [tokens[i] for i in places]}, return_tensors="pt")
        ids, mask = padded["input_ids"], padded["attention_mask"]
        raw = None
        try:
            raw = self.network(ids.to(self.device), mask.to(self.device)).float()
        except torch.OutOfMemoryError:
            if len(places) == 1:
                raise
        if raw is not None:
            yield places, raw
            return
        torch.cuda.empty_cache()
        middle = len(places) // 2
        self.tokens_per_batch = min(self.tokens_per_batch, middle * ids.shape[1])
        warn(f"the memory of the GPU is too small for a batch of {len(places)} texts; it is halved")
        for half in (places[:middle], places[middle:]):
            yield from self.outputs_of(tokens, half)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the first `max_tokens` tokens of each text, including special tokens."""
        cut = [text[: self.max_tokens * CHARACTERS_PER_TOKEN] for text in texts]
        tokens = self.encode_all(cut)
        short = [i for i, ids in enumerate(tokens) if len(ids) < self.max_tokens and cut[i] != texts[i]]
        longer = self.encode_all([texts[i] for i in short]) if short else []
        for i, ids in zip(short, longer, strict=True):
            tokens[i] = ids
        return tokens

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        with self.tokenising:
            tokens: list[list[int]] = self.tokenizer(
                list(texts), truncation=True, max_length=self.max_tokens, return_attention_mask=False
            )["input_ids"]
        return tokens

    def settled_logits(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the raw outputs, (n, labels). On a CPU, a text's answer does not depend on the other texts."""
        logits = self.logits(texts)
        if self.device == "cpu":
            finite = np.nan_to_num(logits, posinf=0, neginf=0)
            unsettled = (
                is_unsettled(self.activation(finite), every_label=self.every_label)
                if self.labels
                else is_unsettled_score(finite[:, 0].astype(np.float64))
            )
            for i in np.flatnonzero(unsettled | ~is_finite(logits)).tolist():
                logits[i] = self.logits(texts[i : i + 1])[0]
        return logits

    def answers(self, texts: Sequence[str]) -> list[pa.Array]:
        """Return the columns of the answers: labels and probabilities, or scores."""
        return [pa.array(column) for column in (self.predict if self.labels else self.score)(texts)]

    def predict(self, texts: Sequence[str]) -> tuple[list[str], *tuple[NDArray[np.float32], ...]]:
        """Return the most probable label of each text, and its probability: float32, (n,), rounded to DECIMALS.

        With `every_label`, the probability of each label follows. Probabilities are NaN if an output of the text is
        not finite.
        """
        logits = self.settled_logits(texts)
        probabilities = self.activation(logits)
        best = probabilities.argmax(axis=1)
        rounded = probabilities.round(DECIMALS).astype(np.float32)
        rounded[~is_finite(logits)] = np.nan
        each = np.ascontiguousarray(rounded.T) if self.every_label else ()
        return [self.labels[i] for i in best.tolist()], rounded[np.arange(len(best)), best], *each

    def score(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """Return each text's score, float32, (n,), rounded to DECIMALS; and as a whole number from 0 to 5."""
        scores = self.settled_logits(texts)[:, 0].astype(np.float64)
        whole = np.rint(np.clip(np.nan_to_num(scores), 0, 5)).astype(np.int8)
        return scores.round(DECIMALS).astype(np.float32), whole


def is_finite(logits: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the texts whose outputs are all finite: bool, (n,)."""
    return np.logical_and.reduce(np.isfinite(logits), axis=1)


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    probabilities: NDArray[np.float64] = torch.softmax(torch.from_numpy(logits).double(), dim=1).numpy()
    return probabilities


def sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    probabilities: NDArray[np.float64] = torch.sigmoid(torch.from_numpy(logits).double()).numpy()
    return probabilities


def is_unsettled_score(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the texts whose score, (n,), may change with the last digits of the outputs: bool, (n,)."""
    scale, margin = 10.0**DECIMALS, MARGIN * np.maximum(1, np.abs(scores))
    return is_between(scores * scale, margin * scale) | is_between(scores, margin)


def is_unsettled(probabilities: NDArray[np.float64], *, every_label: bool) -> NDArray[np.bool_]:
    """Return the texts whose answer may change with the last digits of the outputs: bool, (n,).

    probabilities: of the labels, (n, labels). every_label: whether the answer has all of them.
    """
    ordered = np.sort(probabilities, axis=1)
    is_tie = ordered[:, -1] - ordered[:, -2] < MARGIN
    answered = ordered if every_label else ordered[:, -1:]
    return (
        np.logical_or.reduce(is_between(answered * 10.0**DECIMALS, MARGIN * 10.0**DECIMALS), axis=1) | is_tie
    )


def is_between(values: NDArray[np.float64], margin: float | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the values that are within a margin of the middle between two whole numbers, as bool."""
    is_near: NDArray[np.bool_] = np.abs(values - np.floor(values) - 0.5) < margin
    return is_near


def precision(device: str | None = None) -> str:
    """Return the device and the number format of models here, on which their answers depend."""
    return "cuda-bfloat16" if (device or best_device()) == "cuda" else "cpu-float32"


def best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def cost_of(tokens: list[int]) -> int:
    """Return the relative cost of a text: of each token, and of each pair of tokens in attention layers."""
    return len(tokens) * (len(tokens) + TOKENS_LIKE_A_PAIR)
