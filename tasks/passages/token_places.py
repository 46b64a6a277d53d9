"""The bytes of tokens in their texts."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers.decoders import ByteLevel

from zyda_flows.tasks.dedup.part_tables import run_starts
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.tokens.engine import TokenEngine, TokenIds


@dataclass(frozen=True)
class TokenPlaces:
    """The bytes of tokens, for the texts that have passages.

    Tokens of a byte-level tokenizer are the bytes of the text one after another. The places of others are found by
    `tokenizers`.
    """

    texts: pa.LargeStringArray
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    ids: TokenIds
    engine: TokenEngine

    def bytes_at(self, units: NDArray[np.int64], numbers: NDArray[np.int64], side: int) -> NDArray[np.int64]:
        """Return the first (side 0) or the last byte of tokens of texts, which ascend by text."""
        places = np.empty(len(units), np.int64)
        starts = run_starts(numbers)
        for start, stop in pairwise([*starts.tolist(), len(numbers)]):
            number = int(numbers[start])
            borders = self.borders(number)
            tokens = units[start:stop] - self.ids.ends[number]
            places[start:stop] = self.offsets[number] + borders[tokens, side]
        return places

    def borders(self, number: int) -> NDArray[np.int64]:
        """Return the first and the last byte of each token of a text, within the text: (t, 2)."""
        data = self.data[self.offsets[number] : self.offsets[number + 1]]
        sizes = token_bytes(self.engine)[self.ids.of(number)]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        is_normalised = self.engine.reference.normalizer is not None and (data >= 0x80).any()
        if is_normalised or ends[-1] != len(data) or not sizes.all():
            return self.borders_by_tokenizers(number, data)
        return whole_characters(data, np.stack([ends[:-1], ends[1:]], axis=1))

    def borders_by_tokenizers(self, number: int, data: NDArray[np.uint8]) -> NDArray[np.int64]:
        encoding = self.engine.reference.encode(self.texts[number].as_py(), add_special_tokens=False)
        characters = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        if len(characters) != len(self.ids.of(number)):
            raise BadInput(
                "fastokens and tokenizers divide a text into different tokens; set ZYDA_TOKENS=exact for "
                "`passages` with unit: tokens"
            )
        borders = np.flatnonzero(np.append(data & 0xC0 != 0x80, [True]))[characters]
        # `tokenizers` leaves out the white space at the begin of a token.
        borders[:, 0] = np.minimum(borders[:, 0], np.concatenate([[0], borders[:-1, 1]]))
        return borders


@lru_cache(maxsize=2)
def token_bytes(engine: TokenEngine) -> NDArray[np.int64]:
    """Return the bytes of text of each token of a byte-level tokenizer, by id; 0 for unused ids: (ids,)."""
    vocabulary = engine.reference.get_vocab(with_added_tokens=False)
    added = {token.content: number for number, token in engine.reference.get_added_tokens_decoder().items()}
    sizes = np.zeros(max([*vocabulary.values(), *added.values()]) + 1, np.int64)
    if isinstance(engine.reference.decoder, ByteLevel):
        for token, number in vocabulary.items():
            sizes[number] = len(token)  # a character for each byte
        for token, number in added.items():
            sizes[number] = len(token.encode())
    return sizes


def whole_characters(data: NDArray[np.uint8], borders: NDArray[np.int64]) -> NDArray[np.int64]:
    """Extend ranges of bytes to whole characters: (t, 2) to (t, 2)."""
    is_first = np.append(data & 0xC0 != 0x80, [True])
    for side, step in ((0, -1), (1, 1)):
        while (is_inside := ~is_first[borders[:, side]]).any():
            borders[is_inside, side] += step
    return borders
