"""Quality models at work, with transformers and torch: texts to labels or scores.

Imported late, by `tasks.classify` alone: torch takes seconds to import.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from tasks.quality import backbone_config, labels_of, load_config, model_folder

TOKENS_PER_BATCH = {"cpu": 1024, "cuda": 131_072}  # more on a CPU leave its cache
WINDOW = 4096  # texts that are sorted by length together
AHEAD = 2  # windows that are cut into tokens before the model asks for them
CHARACTERS_PER_TOKEN = 12  # a text is first cut here; one that then has too few tokens is not cut


class HeadOnFirst(nn.Module):
    """A backbone, dropout and a linear head over the first position, as NVIDIA's classifiers are."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        config = load_config(folder)
        backbone = AutoConfig.from_pretrained(backbone_config(folder, config["base_model"]))
        self.model = AutoModel.from_config(backbone)
        self.dropout = nn.Dropout(config.get("fc_dropout", 0.0))
        self.fc = nn.Linear(backbone.hidden_size, len(config["id2label"]))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits: Tensor = self.fc(self.dropout(hidden[:, 0]))
        return logits


class SequenceClassifier(nn.Module):
    """A sequence classifier of transformers, which gives its logits."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = AutoModelForSequenceClassification.from_pretrained(folder)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


class Classifier:
    """A quality model on the best device of this machine."""

    def __init__(self, model: str, max_tokens: int) -> None:
        logging.disable_progress_bar()
        folder = model_folder(model)
        config = load_config(folder)
        self.labels = labels_of(config)
        self.max_tokens = max_tokens
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.network: nn.Module
        if "base_model" in config:
            self.network = HeadOnFirst(folder)
            self.network.load_state_dict(load_file(folder / "model.safetensors"))
        else:
            self.network = SequenceClassifier(folder)
        kind = torch.bfloat16 if self.device == "cuda" else torch.float32
        self.network.to(self.device, kind).eval()

    def logits(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the raw outputs for each text: (n, labels) float32, (n, 1) for a score.

        Texts are cut into tokens by a thread of its own, some ahead of those that the model reads.
        """
        windows = [texts[i : i + WINDOW] for i in range(0, len(texts), WINDOW)]
        outputs = [np.empty((0, max(1, len(self.labels))), np.float32)]
        with ThreadPoolExecutor(1) as tokenising:
            coming = deque(tokenising.submit(self.encode, window) for window in windows[:AHEAD])
            for i in range(len(windows)):
                tokens = coming.popleft().result()
                if i + AHEAD < len(windows):
                    coming.append(tokenising.submit(self.encode, windows[i + AHEAD]))
                outputs.append(self.logits_of(tokens))
        return np.concatenate(outputs)

    @torch.inference_mode()
    def logits_of(self, tokens: list[list[int]]) -> NDArray[np.float32]:
        """Return the raw outputs for texts cut into tokens: (n, labels) float32."""
        found, order = list[Tensor](), list[int]()
        for places in batches([len(ids) for ids in tokens], TOKENS_PER_BATCH[self.device]):
            padded = self.tokenizer.pad({"input_ids": [tokens[i] for i in places]}, return_tensors="pt")
            ids, mask = padded["input_ids"], padded["attention_mask"]
            found.append(self.network(ids.to(self.device), mask.to(self.device)).float())
            order += places
        result = np.empty((len(tokens), max(1, len(self.labels))), np.float32)
        result[order] = torch.cat(found).cpu().numpy().reshape(result.shape)  # once: each copy waits
        return result

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the first `max_tokens` tokens of each text, special ones included."""
        cut = [text[: self.max_tokens * CHARACTERS_PER_TOKEN] for text in texts]
        tokens = self.encode_all(cut)
        short = [i for i, ids in enumerate(tokens) if len(ids) < self.max_tokens and cut[i] != texts[i]]
        again = self.encode_all([texts[i] for i in short]) if short else []
        for i, ids in zip(short, again, strict=True):
            tokens[i] = ids
        return tokens

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = self.tokenizer(
            list(texts), truncation=True, max_length=self.max_tokens, return_attention_mask=False
        )["input_ids"]
        return found

    def predict(self, texts: Sequence[str]) -> tuple[list[str], NDArray[np.float32]]:
        """Return each text's most probable label and its probability: (n,) float32."""
        logits = torch.from_numpy(self.logits(texts))
        probabilities, best = torch.softmax(logits, dim=1).max(dim=1)
        return [self.labels[i] for i in best.tolist()], probabilities.numpy()

    def score(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """Return each text's score, (n,) float32, and the same as a whole number from 0 to 5."""
        scores = self.logits(texts)[:, 0]
        return scores, np.rint(np.clip(scores, 0, 5)).astype(np.int8)


def batches(lengths: Sequence[int], tokens_per_batch: int) -> Iterator[list[int]]:
    """Put texts of like lengths together, longest first, so that little is padding."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        size = max(1, tokens_per_batch // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


@lru_cache(maxsize=2)
def load_classifier(model: str, max_tokens: int) -> Classifier:
    """Load a model once for all the shards that a worker classifies."""
    return Classifier(model, max_tokens)
