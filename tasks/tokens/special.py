"""Find and count special tokens that are written in texts, and encode them as text.

A text may contain the characters of a special token, for example `<|endoftext|>`. `tokenizers` encodes them as the
control token, unless `encode_special_tokens` is set. If the model itself has the special token as a word, the word
is also renamed to a name that no text contains.
"""

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, models

from zyda_flows.tasks.storage.counts import SpecialCounts
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.pairs import places_of_pairs

# Put around renamed words. It is random in each process, so no text contains it.
HIDDEN = f"\U0010fffe{secrets.token_hex(16)}"
OTHER_TEXT = "\U0010ffff"
MAX_COMPARISONS = 4  # comparisons of names for each byte of text


class Occurrences(NamedTuple):
    """Special tokens in texts: the numbers of their texts, int64, (m,), and of the tokens, int64, (m,)."""

    texts: NDArray[np.int64]
    tokens: NDArray[np.int64]


class SpecialTokens:
    """Finds the special tokens of a tokenizer in texts. names: the texts of the special tokens."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.anchors = anchors_of(names)
        self.finder = Tokenizer(models.WordLevel({OTHER_TEXT: 0}, unk_token=OTHER_TEXT))
        self.finder.add_tokens([AddedToken(name, normalized=False) for name in names])

    def find(self, texts: pa.LargeStringArray) -> Occurrences:
        """Return the special tokens in texts, from left to right; of overlapping tokens the longest."""
        candidates = self.candidates(texts)
        strings = [texts[number].as_py() for number in candidates.tolist()]
        encodings = self.finder.encode_batch_fast(strings, add_special_tokens=False)
        parts = [np.array(encoding.ids, np.int64) for encoding in encodings]
        ids = np.concatenate([np.empty(0, np.int64), *parts])
        text_numbers = np.repeat(candidates, list(map(len, parts)))
        return Occurrences(text_numbers[ids > 0], ids[ids > 0] - 1)

    def count(self, texts: pa.LargeStringArray) -> dict[str, SpecialCounts]:
        """Count the texts that contain each special token, and its occurrences."""
        found = self.find(texts)
        occurrences = Counter(found.tokens.tolist())
        documents = Counter(token for _, token in set(zip(*map(np.ndarray.tolist, found), strict=True)))
        return {
            self.names[token]: SpecialCounts(documents=documents[token], occurrences=count)
            for token, count in sorted(occurrences.items())
        }

    def count_per_text(self, texts: pa.LargeStringArray) -> NDArray[np.uint32]:
        """Count the special tokens in each text: uint32, (n,)."""
        return np.bincount(self.find(texts).texts, minlength=len(texts)).astype(np.uint32)

    def candidates(self, texts: pa.LargeStringArray) -> NDArray[np.int64]:
        """Return the ascending numbers of the texts that may contain a special token.

        Only the names that contain an anchor, a pair of bytes, are compared with the bytes around its occurrences.
        """
        data, ends = text_buffers(texts)
        if self.anchors is None or not len(texts):
            return np.arange(len(texts))
        data = data[ends[0] : ends[-1]]
        anchors = np.frombuffer(b"".join(self.anchors), np.uint8).reshape(-1, 2)
        at, pairs = places_of_pairs(data, anchors[:, 0].copy(), anchors[:, 1].copy())
        matches = [
            match
            for number, (anchor, names) in enumerate(self.anchors.items())
            for match in matching_places(data, at[pairs == number], anchor, names)
        ]
        places = np.unique(np.concatenate([np.empty(0, np.int64), *matches]))
        return np.unique(np.searchsorted(ends - ends[0], places, side="right") - 1)


def matching_places(
    data: NDArray[np.uint8], at: NDArray[np.int64], anchor: bytes, names: list[bytes]
) -> Iterator[NDArray[np.int64]]:
    """Yield the places in `data` of names that contain an anchor.

    If the anchor occurs too often to compare, yield all its places.

    Args:
        data: the bytes of texts, (t,).
        at: the places of the anchor in `data`.
        names: names that contain the anchor.
    """
    if len(at) * len(names) > MAX_COMPARISONS * len(data):
        yield at
        return
    for name in names if len(at) else ():
        starts = at - name.index(anchor)
        starts = starts[(starts >= 0) & (starts + len(name) <= len(data))]
        for i, byte in enumerate(name):
            starts = starts[data[starts + i] == byte]
        yield starts


def anchors_of(names: tuple[str, ...]) -> dict[bytes, list[bytes]] | None:
    """Return pairs of bytes with the names that contain each; None if a name has fewer than two bytes."""
    remaining, anchors = {name.encode() for name in names}, dict[bytes, list[bytes]]()
    while remaining:
        pairs = Counter(
            pair for name in remaining for pair in {name[i : i + 2] for i in range(len(name) - 1)}
        )
        if not pairs:
            return None
        best = max(pairs, key=lambda pair: (pairs[pair], sum(not chr(byte).isalnum() for byte in pair), pair))
        anchors[best] = sorted(name for name in remaining if best in name)
        remaining = remaining.difference(anchors[best])
    return anchors


@lru_cache(maxsize=4)
def special_tokens(names: tuple[str, ...]) -> SpecialTokens:
    return SpecialTokens(names)


def special_names(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the special tokens of a tokenizer, in the order of their ids."""
    added = sorted(tokenizer.get_added_tokens_decoder().items())
    return tuple(token.content for _, token in added if token.special)


def without_special_words(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer whose model never encodes a text as a special token."""
    if not (names := words_of_model(tokenizer.model, special_names(tokenizer))):
        return tokenizer
    settings = json.loads(tokenizer.to_str())
    hide(settings, names)
    return Tokenizer.from_str(json.dumps(settings))


def words_of_model(model: models.Model, names: tuple[str, ...]) -> set[str]:
    """Return the special tokens that a model may return for a text: its words, of BPE the words that it merges."""
    words = {name: number for name in names if (number := model.token_to_id(name)) is not None}
    if not isinstance(model, models.BPE):
        return {*words}
    return {name for name, number in words.items() if number in {token.id for token in model.tokenize(name)}}


def merges_of(model: dict[str, Any]) -> list[list[str]]:
    return [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]


def hide(settings: dict[str, Any], names: set[str]) -> None:
    """Rename words of a model, and the added tokens of the same names, to names that no text contains.

    settings: of a tokenizer.json, which are changed in place.
    """
    model, hidden = settings["model"], {name: f"{HIDDEN}{name}{HIDDEN}" for name in names}
    vocabulary = model["vocab"]
    pairs = vocabulary if isinstance(vocabulary, list) else vocabulary.items()
    renamed = [[hidden.get(word, word), value] for word, value in pairs]
    model["vocab"] = renamed if isinstance(vocabulary, list) else dict(renamed)
    if "merges" in model:
        merges = merges_of(model)
        model["merges"] = [list(pair) for pair in merges if names.isdisjoint({*pair, "".join(pair)})]
    if model.get("unk_token") in names:
        model["unk_token"] = hidden[model["unk_token"]]
    for token in settings["added_tokens"]:
        token["content"] = hidden.get(token["content"], token["content"])
