"""Quality models at work, with transformers and torch: texts to labels or scores.

Imported late, by `tasks.quality.encoders` alone: torch takes seconds to import.
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
from zyda_flows.tasks.quality.encoder_files import WEIGHTS, labels_of, load_config
from zyda_flows.tasks.quality.torch_networks import HeadOnFirst, SequenceClassifier, tokenizer_of
from zyda_flows.tasks.stage.progress import REPORT_PART

TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 131_072}  # more on a CPU leave its cache
TOKENS_LIKE_A_PAIR = 500  # so many tokens beside a token cost as much as it does itself
WINDOW = 4096  # texts
AHEAD = 2  # windows that are cut into tokens before the model asks for them
CHARACTERS_PER_TOKEN = 12  # a text is first cut here; one that then has too few tokens is not cut
# What a model says of a text differs in its last digits with the texts beside it (by some 1e-6 on a CPU). It
# is rounded, and where the rounding, the label or the whole number hangs on less than the margin the text is
# asked about again, alone: so its answer is the same whatever else is classified with it. On a GPU, in bfloat16,
# it differs by more than a margin can be.
DECIMALS = 3
MARGIN = 2e-5


class Classifier:
    """A quality model on a device: cuda or cpu, the best of this machine unless it is given."""

    def __init__(self, folder: Path, max_tokens: int, device: str | None = None) -> None:
        logging.disable_progress_bar()
        config = load_config(folder)
        self.labels = labels_of(config)
        self.max_tokens = max_tokens
        self.tokenizer = tokenizer_of(folder)
        self.tokenising = Lock()  # the library's tokenizers cannot be shared by threads that cut texts
        self.device = device or best_device()
        self.network: nn.Module
        if "base_model" in config:
            self.network = HeadOnFirst(folder)
            self.network.load_state_dict(load_file(folder / WEIGHTS))
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
        """Return the raw outputs for each text: (n, labels) float32, (n, 1) for a score.

        Texts are cut into tokens by a thread of its own, some ahead of those that the model reads. window: how many
        are sorted by length together.
        """
        windows = [texts[i : i + window] for i in range(0, len(texts), window)]
        outputs = [np.empty((0, max(1, len(self.labels))), np.float32)]
        with ThreadPoolExecutor(1) as tokenising:
            encoded = deque(tokenising.submit(self.encode, window) for window in windows[:AHEAD])
            for i in range(len(windows)):
                tokens = encoded.popleft().result()
                if i + AHEAD < len(windows):
                    encoded.append(tokenising.submit(self.encode, windows[i + AHEAD]))
                outputs.append(self.logits_of(tokens, i, len(windows)))
        return np.concatenate(outputs)

    @torch.inference_mode()
    def logits_of(self, tokens: list[list[int]], before: int, windows: int) -> NDArray[np.float32]:
        """Return the raw outputs for a window's texts, cut into tokens: (n, labels) float32.

        before: how many of the windows are done.
        """
        outputs, order = list[Tensor](), list[int]()
        read, whole = 0, max(1, sum(map(cost_of, tokens)))
        for batch in batches([len(ids) for ids in tokens], self.tokens_per_batch):
            for places, raw in self.outputs_of(tokens, batch):
                outputs.append(raw)
                order += places
                read += sum(cost_of(tokens[place]) for place in places)
                REPORT_PART.get()((before + read / whole) / windows)
        result = np.empty((len(tokens), max(1, len(self.labels))), np.float32)
        result[order] = torch.cat(outputs).cpu().numpy().reshape(result.shape)  # once: each copy waits
        return result

    def outputs_of(self, tokens: list[list[int]], places: list[int]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield the raw outputs for some texts, longest first, in as few parts as memory has room for."""
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
        warn(f"{len(places)} texts of a batch find no room in the memory of the GPU: they are cut in half")
        for half in (places[:middle], places[middle:]):
            yield from self.outputs_of(tokens, half)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the first `max_tokens` tokens of each text, special ones included."""
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
        """Return the raw outputs, (n, labels): on a CPU, so that a text's answer does not depend on the others."""
        logits = self.logits(texts)
        if self.device == "cpu":
            finite = np.nan_to_num(logits, posinf=0, neginf=0)
            for i in np.flatnonzero(is_unsettled(finite) | ~is_finite(logits)).tolist():
                logits[i] = self.logits(texts[i : i + 1])[0]
        return logits

    def answers(self, texts: Sequence[str]) -> list[pa.Array]:
        """Return the columns of what the model says of each text: of its labels, or of its score."""
        return [pa.array(column) for column in (self.predict if self.labels else self.score)(texts)]

    def predict(self, texts: Sequence[str]) -> tuple[list[str], NDArray[np.float32]]:
        """Return each text's most probable label and its probability: (n,) float32, to DECIMALS.

        A probability is not a number where one of the outputs is not finite.
        """
        logits = self.settled_logits(texts)
        probabilities = softmax(logits)
        best = probabilities.argmax(axis=1)
        highest = probabilities.max(axis=1, initial=0).round(DECIMALS).astype(np.float32)
        highest[~is_finite(logits)] = np.nan
        return [self.labels[i] for i in best.tolist()], highest

    def score(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """Return each text's score, (n,) float32 to DECIMALS, and as a whole number from 0 to 5."""
        scores = self.settled_logits(texts)[:, 0].astype(np.float64)
        whole = np.rint(np.clip(np.nan_to_num(scores), 0, 5)).astype(np.int8)
        return scores.round(DECIMALS).astype(np.float32), whole


def is_finite(logits: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Say of which texts all outputs are finite numbers: (n,) bool."""
    return np.logical_and.reduce(np.isfinite(logits), axis=1)


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    probabilities: NDArray[np.float64] = torch.softmax(torch.from_numpy(logits).double(), dim=1).numpy()
    return probabilities


def is_unsettled(logits: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Say of which texts the answer hangs on the last digits of the outputs: (n,) bool."""
    scale = 10.0**DECIMALS
    if logits.shape[1] == 1:
        scores = logits[:, 0].astype(np.float64)
        margin = MARGIN * np.maximum(1, np.abs(scores))
        return is_between(scores * scale, margin * scale) | is_between(scores, margin)
    ordered = np.sort(softmax(logits), axis=1)
    is_tie = ordered[:, -1] - ordered[:, -2] < MARGIN
    return is_between(ordered[:, -1] * scale, MARGIN * scale) | is_tie


def is_between(values: NDArray[np.float64], margin: float | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say which values, (n,), lie so near the middle of two whole numbers that they may be rounded to either."""
    is_near: NDArray[np.bool_] = np.abs(values - np.floor(values) - 0.5) < margin
    return is_near


def precision(device: str | None = None) -> str:
    """Name the device and the numbers that a model works with here: its answers depend on them."""
    return "cuda-bfloat16" if (device or best_device()) == "cuda" else "cpu-float32"


def best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def cost_of(tokens: list[int]) -> int:
    """Return about what a text costs beside others: each token, and each pair of them, which a model compares."""
    return len(tokens) * (len(tokens) + TOKENS_LIKE_A_PAIR)


def batches(lengths: Sequence[int], tokens_per_batch: int) -> Iterator[list[int]]:
    """Put texts of like lengths together, longest first, so that little is padding."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        # The longest text of a batch is its first, to whose length the others are padded.
        size = max(1, tokens_per_batch // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size
