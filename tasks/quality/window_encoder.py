"""Run encoders of sentences with torch over whole texts, window by window.

Each window is computed in a batch whose shape depends only on the window's own length: the length is padded to one
of few, and the batch is filled with empty windows. So the vector of a text does not depend on other texts.
On a GPU the encoder computes in float16, and its pooling in float32: with float32 as the reference, the cosines of
MiniLM are wrong by at most 0.0007, and by 0.004 in bfloat16. Vectors beyond the range of float16 are an error.
This module is imported late, because the import of torch takes seconds.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from transformers.utils import logging

from zyda_flows.tasks.quality.encoder_files import Fault, most_tokens
from zyda_flows.tasks.quality.similarity_encoders import MOST_WINDOWS, layout_of
from zyda_flows.tasks.quality.text_vectors import TextVectors, of_length_unit, whole_numbers
from zyda_flows.tasks.quality.torch_models import best_device
from zyda_flows.tasks.quality.torch_networks import SentenceEncoder, most_positions, tokenizer_of
from zyda_flows.tasks.tokens.engine import batches

TOKENS_PER_BATCH = {"cpu": 256, "cuda": 16_384}  # on a CPU, 1,024 take a quarter more time for MiniLM
MOST_LENGTH = 8192  # tokens of a window
SHORTEST, FINENESS = 16, 8  # padded lengths: multiples of 16, and of an eighth of the next power of two
CHARACTERS_PER_TOKEN = 6  # of the pieces in which a long text is tokenized
PROBE = "a"


class Tokens(NamedTuple):
    """The first tokens of a text, and the number of its further windows."""

    ids: list[int]
    windows_left_out: int


class WindowEncoder:
    """A loaded encoder of sentences.

    device: cuda, cpu, or None for the best device of this machine. Raises Fault if the model cannot be used.
    """

    def __init__(self, folder: Path, device: str | None) -> None:
        logging.disable_progress_bar()
        layout = layout_of(folder)
        self.dims, self.device = layout.dims, device or best_device()
        self.network = (
            SentenceEncoder(layout.folder, layout.pooling, normalize=layout.normalize).float().eval()
        )
        if not all(torch.isfinite(weights).all() for weights in self.network.parameters()):
            raise Fault("some of its weights are NaN or infinite; copy it again")
        self.tokenizer, self.tokenising = tokenizer_of(layout.folder), Lock()
        if len(self.tokenizer) > self.network.model.get_input_embeddings().num_embeddings:
            raise Fault("its tokenizer has more tokens than its table of embeddings")
        self.before, self.after = self.special_ids()
        positions = getattr(self.network.model.config, "max_position_embeddings", None)
        bounds = [most_tokens(layout.folder), most_positions(self.network), positions, MOST_LENGTH]
        self.length = min(filter(None, [*bounds, self.tokenizer.model_max_length]))
        self.content = self.length - len(self.before) - len(self.after)
        if self.content < 1:
            raise Fault(f"it reads {self.length} tokens at once, which is too few")
        self.network.to(self.device)
        if self.device == "cuda":
            self.network.model.to(torch.float16)

    def special_ids(self) -> tuple[list[int], list[int]]:
        """Return the special tokens before and after a text."""
        bare, whole = (self.encode_all([PROBE], special=special)[0] for special in (False, True))
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return whole[:start], whole[start + len(bare) :]
        raise Fault("its tokenizer encodes a text otherwise if it adds special tokens")

    def encode_all(self, texts: Sequence[str], *, special: bool = False) -> list[list[int]]:
        with self.tokenising:
            ids: list[list[int]] = self.tokenizer(
                list(texts), add_special_tokens=special, return_attention_mask=False, verbose=False
            )["input_ids"]
        return ids

    def vectors(self, texts: pa.ChunkedArray) -> TextVectors:
        """Return the vectors of texts: the mean of the embeddings of their windows, weighted by their tokens.

        At most MOST_WINDOWS windows of a text are read. If they are in the beginning of a text, the rest is not
        tokenized, and the number of further windows is an estimate by the tokens per character of the beginning.
        Raises Fault for a vector that is not finite.
        """
        chunks = texts.cast(pa.large_string()).chunks
        parts = [self.vectors_of(batch.to_pylist()) for chunk in chunks for batch in batches(chunk)]
        empty = TextVectors(np.empty((0, self.dims), np.int32), np.empty(0, np.int64))
        return TextVectors(*map(np.concatenate, zip(empty, *parts, strict=True)))

    def vectors_of(self, texts: Sequence[str]) -> TextVectors:
        tokens = self.encode(texts)
        windows = [[*windows_of(each.ids, self.content)] for each in tokens]
        every = [window for own in windows for window in own]
        embeddings, lengths = self.embeddings(every), np.array([*map(len, every)], np.float64)
        if not np.isfinite(embeddings).all():
            raise Fault(f"the vector of a text is NaN or infinite in {precision(self.device)}")
        sums = np.zeros((len(texts), self.dims))
        owners = np.repeat(np.arange(len(texts)), [*map(len, windows)])
        np.add.at(sums, owners, embeddings * lengths[:, None])  # adds in order
        left_out = np.array([each.windows_left_out for each in tokens], np.int64)
        return TextVectors(of_length_unit(whole_numbers(sums)), left_out)

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of at most MOST_WINDOWS windows of each text, without special tokens."""
        step = CHARACTERS_PER_TOKEN * MOST_WINDOWS * self.content
        beginnings = self.encode_all([text[:step] for text in texts])
        return [self.tokens(text, step, ids) for text, ids in zip(texts, beginnings, strict=True)]

    def tokens(self, text: str, end: int, ids: list[int]) -> Tokens:
        """Return the tokens of a text. ids: the tokens of its first `end` characters."""
        most, step = MOST_WINDOWS * self.content, end
        while len(ids) < most and end < len(text):
            ids += self.encode_all([text[end : end + step]])[0]
            end += step
        total = len(ids) * max(len(text), end) // end
        return Tokens(ids[:most], max(0, -(-total // self.content) - MOST_WINDOWS))

    @torch.inference_mode()
    def embeddings(self, windows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the embeddings of windows of tokens: (n, dims)."""
        result = np.empty((len(windows), self.dims), np.float32)
        places = defaultdict[int, list[int]](list)
        for place, window in enumerate(windows):
            places[self.padded(len(window))].append(place)
        for length in sorted(places):
            size = max(1, TOKENS_PER_BATCH[self.device] // length)
            for start in range(0, len(places[length]), size):
                batch = places[length][start : start + size]
                result[batch] = self.batch([windows[place] for place in batch], size, length)
        return result

    def padded(self, tokens: int) -> int:
        """Return the length to which a window is padded. tokens: of the window, without special tokens."""
        tokens += len(self.before) + len(self.after)
        step = max(SHORTEST, (1 << (tokens - 1).bit_length()) // FINENESS)
        return min(self.length, -(-tokens // step) * step)

    def batch(self, windows: Sequence[Sequence[int]], size: int, length: int) -> NDArray[np.float32]:
        """Return the embeddings of windows, (n, dims), computed with empty windows in the shape (size, length)."""
        ids = np.full((size, length), self.tokenizer.pad_token_id or 0, np.int64)
        mask = np.zeros((size, length), np.int64)
        mask[len(windows) :, 0] = 1  # attention to nothing is NaN
        for row, window in enumerate(windows):
            whole = [*self.before, *window, *self.after]
            ids[row, : len(whole)], mask[row, : len(whole)] = whole, 1
        inputs = (torch.from_numpy(each).to(self.device) for each in (ids, mask))
        embeddings: NDArray[np.float32] = self.network(*inputs)[: len(windows)].cpu().numpy()
        return embeddings


def windows_of(ids: list[int], size: int) -> Iterator[list[int]]:
    """Yield windows of so many tokens; the last may be shorter."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def precision(device: str | None) -> str:
    """Return the class of the device and the number format, on which vectors depend."""
    return "cuda-float16" if (device or best_device()) == "cuda" else "cpu-float32"
