"""Special tokens that are written in texts: which, how often, and how none of them becomes a control token.

A text may hold the very characters of a special token, `<|endoftext|>` say. `tokenizers` makes its control token of
them, unless `encode_special_tokens` is set. That is not enough for models that find a special token among their own
words: then the model's word gets a name that no text has.
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

from zyda_flows.tasks.storage.artifacts import SpecialCounts
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.pairs import places_of_pairs

# Around a word of a model that no text may become. No text can hold it, as it is another in each process.
HIDDEN = f"\U0010fffe{secrets.token_hex(16)}"
REST = "\U0010ffff"
MOST_LOOKS = 4  # for names, a byte of text


class Occurrences(NamedTuple):
    """Special tokens in texts: of each the text, (m,), and the number of the token, (m,)."""

    texts: NDArray[np.int64]
    tokens: NDArray[np.int64]


class SpecialTokens:
    """The special tokens of a tokenizer, as they may be written in texts."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.anchors = anchors_of(names)
        self.finder = Tokenizer(models.WordLevel({REST: 0}, unk_token=REST))
        self.finder.add_tokens([AddedToken(name, normalized=False) for name in names])

    def found(self, texts: pa.LargeStringArray) -> Occurrences:
        """Return where special tokens are written, from left to right, of several the longest."""
        places = self.candidates(texts)
        strings = [texts[place].as_py() for place in places.tolist()]
        found = [one.ids for one in self.finder.encode_batch_fast(strings, add_special_tokens=False)]
        ids = np.concatenate([np.empty(0, np.int64), *(np.array(of, np.int64) for of in found)])
        of_text = np.repeat(places, [len(of) for of in found])
        return Occurrences(of_text[ids > 0], ids[ids > 0] - 1)

    def counted(self, texts: pa.LargeStringArray) -> dict[str, SpecialCounts]:
        """Count the texts that hold each special token, and how often they do."""
        found = self.found(texts)
        occurrences = Counter(found.tokens.tolist())
        documents = Counter(token for _, token in set(zip(*map(np.ndarray.tolist, found), strict=True)))
        return {
            self.names[token]: SpecialCounts(documents=documents[token], occurrences=count)
            for token, count in sorted(occurrences.items())
        }

    def per_text(self, texts: pa.LargeStringArray) -> NDArray[np.uint32]:
        """Count the special tokens in each text: (n,)."""
        return np.bincount(self.found(texts).texts, minlength=len(texts)).astype(np.uint32)

    def candidates(self, texts: pa.LargeStringArray) -> NDArray[np.int64]:
        """Return the texts that may hold a special token, ascending: by the bytes around each anchor."""
        data, ends = text_buffers(texts)
        if self.anchors is None or not len(texts):
            return np.arange(len(texts))
        data = data[ends[0] : ends[-1]]
        anchors = np.frombuffer(b"".join(self.anchors), np.uint8).reshape(-1, 2)
        at, pairs = places_of_pairs(data, anchors[:, 0].copy(), anchors[:, 1].copy())
        found = [
            held
            for number, (anchor, names) in enumerate(self.anchors.items())
            for held in holding(data, at[pairs == number], anchor, names)
        ]
        places = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
        return np.unique(np.searchsorted(ends - ends[0], places, side="right") - 1)


def holding(
    data: NDArray[np.uint8], at: NDArray[np.int64], anchor: bytes, names: list[bytes]
) -> Iterator[NDArray[np.int64]]:
    """Yield where some bytes hold names that have an anchor, by its places; these where it is all over."""
    if len(at) * len(names) > MOST_LOOKS * len(data):
        yield at
        return
    for name in names if len(at) else ():
        starts = at - name.index(anchor)
        starts = starts[(starts >= 0) & (starts + len(name) <= len(data))]
        for i, byte in enumerate(name):
            starts = starts[data[starts + i] == byte]
        yield starts


def anchors_of(names: tuple[str, ...]) -> dict[bytes, list[bytes]] | None:
    """Return pairs of bytes with the names that have each; None where a name has no pair."""
    left, chosen = {name.encode() for name in names}, dict[bytes, list[bytes]]()
    while left:
        pairs = Counter(pair for name in left for pair in {name[i : i + 2] for i in range(len(name) - 1)})
        if not pairs:
            return None
        best = max(pairs, key=lambda pair: (pairs[pair], sum(not chr(byte).isalnum() for byte in pair), pair))
        chosen[best] = sorted(name for name in left if best in name)
        left = left.difference(chosen[best])
    return chosen


@lru_cache(maxsize=4)
def special_tokens(names: tuple[str, ...]) -> SpecialTokens:
    return SpecialTokens(names)


def special_names(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the special tokens of a tokenizer, in the order of their ids."""
    added = sorted(tokenizer.get_added_tokens_decoder().items())
    return tuple(token.content for _, token in added if token.special)


def without_special_words(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer whose model makes no special token of a text."""
    if not (names := words_of_model(tokenizer.model, special_names(tokenizer))):
        return tokenizer
    settings = json.loads(tokenizer.to_str())
    hide(settings, names)
    return Tokenizer.from_str(json.dumps(settings))


def words_of_model(model: models.Model, names: tuple[str, ...]) -> set[str]:
    """Return the special tokens that a model may make of a text: its own words, of BPE those that merges make."""
    own = {name: number for name in names if (number := model.token_to_id(name)) is not None}
    if not isinstance(model, models.BPE):
        return {*own}
    return {name for name, number in own.items() if any(one.id == number for one in model.tokenize(name))}


def merges_of(model: dict[str, Any]) -> list[list[str]]:
    return [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]


def hide(settings: dict[str, Any], names: set[str]) -> None:
    """Give some words of a model, and the tokens that are added as them, names that no text has."""
    model, hidden = settings["model"], {name: f"{HIDDEN}{name}{HIDDEN}" for name in names}
    if isinstance(model["vocab"], list):
        model["vocab"] = [[hidden.get(word, word), score] for word, score in model["vocab"]]
    else:
        model["vocab"] = {hidden.get(word, word): number for word, number in model["vocab"].items()}
    if "merges" in model:
        pairs = (pair for pair in merges_of(model) if not names.intersection({*pair, "".join(pair)}))
        model["merges"] = [list(pair) for pair in pairs]
    if model.get("unk_token") in names:
        model["unk_token"] = hidden[model["unk_token"]]
    for token in settings["added_tokens"]:
        token["content"] = hidden.get(token["content"], token["content"])
