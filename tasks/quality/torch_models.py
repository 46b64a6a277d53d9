"""Run quality models with transformers and torch: texts in, labels or scores out.

Only `tasks.quality.encoders` imports this module, and late, because the import of torch takes seconds.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
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
from zyda_flows.tasks.quality.encoder_files import WEIGHTS, heads_of, load_config, most_tokens
from zyda_flows.tasks.quality.heads import ModelHead
from zyda_flows.tasks.quality.torch_networks import (
    EmbeddingHead,
    HeadOnFirst,
    SequenceClassifier,
    most_positions,
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
        self.heads = heads_of(config)
        ends = accumulate(head.outputs for head in self.heads)
        self.parts = [
            (head, slice(end - head.outputs, end)) for head, end in zip(self.heads, ends, strict=True)
        ]
        self.outputs = sum(head.outputs for head in self.heads)
        self.every_label = every_label
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
        bounds = [max_tokens, most_positions(self.network), most_tokens(folder) if "head" in config else None]
        self.max_tokens = min(filter(None, bounds))
        self.tokens_per_batch = TOKENS_PER_BATCH[self.device]
        self.network.to(self.device).eval()
        if self.device == "cuda":
            to_bfloat16(self.network)

    def logits(self, texts: Sequence[str], window: int = WINDOW) -> NDArray[np.float32]:
        """Return the raw outputs of all heads for each text: float32, (n, outputs).

        Another thread tokenizes the next windows. window: the number of texts that are sorted by length together.
        """
        windows = [texts[i : i + window] for i in range(0, len(texts), window)]
        outputs = [np.empty((0, self.outputs), np.float32)]
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
        """Return the raw outputs for a window: float32, (n, outputs).

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
        result = np.empty((len(tokens), self.outputs), np.float32)
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
        """Return the raw outputs, (n, outputs). On a CPU, a text's answer does not depend on the other texts."""
        return self.settled(self.logits(texts), lambda i: self.logits(texts[i : i + 1])[0])

    def settled(
        self, logits: NDArray[np.float32], alone: Callable[[int], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        """Replace the outputs for texts whose answer may change with their last digits, on a CPU: (n, outputs).

        alone: returns the outputs for a text by its place, in a batch of its own.
        """
        if self.device == "cpu":
            unsettled = ~is_finite(logits)
            for head, part in self.parts:
                unsettled |= self.is_unsettled(head, np.nan_to_num(logits[:, part], posinf=0, neginf=0))
            for i in np.flatnonzero(unsettled).tolist():
                logits[i] = alone(i)
        return logits

    def is_unsettled(self, head: ModelHead, logits: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return the texts whose answer may change with the last digits of a head's finite outputs: bool, (n,)."""
        if not head.labels:
            return is_unsettled_score(logits[:, 0].astype(np.float64))
        return is_unsettled(probabilities_of(head, logits), every_label=self.every_label)

    def answers(self, texts: Sequence[str]) -> list[pa.Array]:
        """Return the columns of the answers of each head: labels and probabilities, or scores."""
        return self.columns(self.settled_logits(texts))

    def columns(self, logits: NDArray[np.float32]) -> list[pa.Array]:
        """Return the columns of the answers for the outputs of all heads, (n, outputs)."""
        return [
            pa.array(column)
            for head, part in self.parts
            for column in (self.predictions if head.labels else scores)(head, logits[:, part])
        ]

    def predictions(
        self, head: ModelHead, logits: NDArray[np.float32]
    ) -> tuple[list[str], *tuple[NDArray[np.float32], ...]]:
        """Return the most probable label of each text, and its probability: float32, (n,), rounded to DECIMALS.

        With `every_label`, the probability of each label follows. Probabilities are NaN if an output of the text is
        not finite.
        """
        probabilities = probabilities_of(head, logits)
        best = probabilities.argmax(axis=1)
        rounded = probabilities.round(DECIMALS).astype(np.float32)
        rounded[~is_finite(logits)] = np.nan
        each = np.ascontiguousarray(rounded.T) if self.every_label else ()
        return [head.labels[i] for i in best.tolist()], rounded[np.arange(len(best)), best], *each


class Embedder(Classifier):
    """A loaded encoder of sentences with heads on its embedding, which returns the embeddings.

    On a CPU, each text is a batch of its own, so that its embedding does not depend on other texts.
    """

    def __init__(
        self, folder: Path, max_tokens: int, device: str | None = None, *, every_label: bool = False
    ) -> None:
        super().__init__(folder, max_tokens, device, every_label=every_label)
        assert isinstance(self.network, EmbeddingHead)
        self.whole = self.network
        self.network, self.outputs = self.whole.encoder, int(self.whole.encoder.model.config.hidden_size)
        if self.device == "cpu":
            self.tokens_per_batch = 1

    def vectors(self, texts: pa.ChunkedArray) -> NDArray[np.float32]:
        """Return the embeddings of texts: (n, width)."""
        return self.logits(texts.to_pylist())

    def answers_of_vectors(self, vectors: NDArray[np.float32]) -> list[pa.Array]:
        """Return the columns of the answers for embeddings, (n, width)."""
        settled = self.settled(self.head_outputs(vectors), lambda i: self.head_outputs(vectors[i : i + 1])[0])
        return self.columns(settled)

    @torch.inference_mode()
    def head_outputs(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        outputs = self.whole.outputs(torch.from_numpy(vectors).to(self.device)).cpu().numpy()
        return np.array(outputs, np.float32)


def scores(head: ModelHead, logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Return each text's score, float32, (n,), rounded to DECIMALS; and as a whole number from 0 to 5."""
    numbers = logits[:, 0].astype(np.float64)
    whole = np.rint(np.clip(np.nan_to_num(numbers), 0, 5)).astype(np.int8)
    return numbers.round(DECIMALS).astype(np.float32), whole


def to_bfloat16(network: nn.Module) -> None:
    """Convert the weights of a network; heads on an embedding stay in float32, because they cost little."""
    (network.encoder.model if isinstance(network, EmbeddingHead) else network).to(torch.bfloat16)


def is_finite(logits: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return the texts whose outputs are all finite: bool, (n,)."""
    return np.logical_and.reduce(np.isfinite(logits), axis=1)


def probabilities_of(head: ModelHead, logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the probabilities of a head's labels: (n, labels)."""
    outputs = torch.from_numpy(logits).double()
    probabilities: NDArray[np.float64] = (
        torch.sigmoid(outputs) if head.multi_label else torch.softmax(outputs, dim=1)
    ).numpy()
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
    is_tie = np.diff(ordered[:, -2:]).min(axis=1, initial=1) < MARGIN
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
