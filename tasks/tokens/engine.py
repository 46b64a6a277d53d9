"""Encode a column of texts to the token ids of `tokenizers`, with the faster library `fastokens`.

`tokenizers` is the reference. If the two libraries encode a probe differently, or `fastokens` cannot load a
tokenizer, `tokenizers` encodes all texts. One document in 4,096 is encoded by both libraries and compared. Texts
for which they are known to differ are encoded by `tokenizers`: with a pattern that ignores case, `fastokens` 0.3.5
differs about the long s (U+017F) and the Kelvin sign (U+212A) in contractions. Special tokens that are written in a
text are encoded as text, or as the control tokens that they name.
"""

import os
from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa
from cachetools import LRUCache, cached
from fastokens import Tokenizer as FastTokenizer
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import BPE

from zyda_flows.tasks.errors import BadInput, first_line
from zyda_flows.tasks.tokens.special import special_names, special_tokens, without_special_words
from zyda_flows.textkernels.buffers import text_buffers

# A worker has one core. Both libraries read it when they begin.
os.environ.setdefault("RAYON_NUM_THREADS", "1")

BATCH_BYTES = 4 << 20  # of text that is encoded at once, with its ids and Python's strings
COMPARED_EVERY = 4096  # one of so many documents is encoded by both libraries
MAX_COMPARED = 1 << 20  # characters of a compared document; tokenizers needs gigabytes for a longer text
PANIC = "PanicException"  # raised for a panic of Rust; it is not a subclass of Exception
FOLDED = ("\u017f".encode(), "\u212a".encode())  # characters that are an ASCII letter in another case
WORDS = (
    "The quick brown fox's 12345 jumps, over\tthe  lazy   dog!\r\n\n  It'S we'LL I'D they're 'tis ''s ",
    "naïve café e\u0301 \u1100\u1161\u11a8 Ångström \u212b漢字かな 한국어 हिन्दी עִבְרִית ไทย 🙂 \u00a0\u200b\ufeff ",
    "x = [i**2 for i in range(10)]  # 3.14e-5\n\tif (a!=b) {return NULL;}\n\n\n\n----====____ a_b-c/d\\e ",
    "McDONALDs HTMLParser iPhone ÀÉÎ ǅungla ªº ①② Ⅷ ½ ١٢٣ \U0001d7d8 \u0301\u0345 \u1ad2 \U0001094a \U00032000 ",
)


@dataclass(frozen=True)
class TokenIds:
    """The concatenated token ids of n documents: `ids`, uint32, (t,); `ends`, int64, (n + 1,), with a first 0."""

    ids: NDArray[np.uint32]
    ends: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.uint32]:
        return np.diff(self.ends).astype(np.uint32)

    def of(self, document: int) -> NDArray[np.uint32]:
        return self.ids[self.ends[document] : self.ends[document + 1]]


class EngineDiffers(Exception):
    """A document has other ids by `fastokens` than by `tokenizers`."""


@dataclass(frozen=True)
class FastEncoder:
    """`fastokens`, which encodes special tokens in texts as text or as control tokens."""

    tokenizer: FastTokenizer
    special_as_text: bool

    def encode_batch_flat(self, strings: list[str]) -> tuple[bytes, bytes]:
        ids, ends = self.tokenizer.encode_batch_flat(strings, False, self.special_as_text)
        return ids, ends


class TokenEngine:
    """Encodes texts with a tokenizer, without adding special tokens.

    Args:
        is_exact: whether `tokenizers` encodes all texts.
        special_as_text: whether special tokens in texts are encoded as text, not as control tokens.

    Attributes:
        why_slow: the reason why `fastokens` is not used, or None.
        special: finds and counts special tokens in texts.
    """

    def __init__(self, tokenizer: Tokenizer, *, is_exact: bool = False, special_as_text: bool = True) -> None:
        self.special = special_tokens(special_names(tokenizer))
        if special_as_text:
            tokenizer = without_special_words(tokenizer)
        tokenizer.encode_special_tokens = special_as_text
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.reference = tokenizer
        self.fast: FastEncoder | None = None
        self.why_slow: str | None = "ZYDA_TOKENS is exact"
        self.checked_strings, self.folds = 0, False
        if not is_exact:
            self.fast, self.why_slow, self.folds = fast_form(
                tokenizer, tokenizer.to_str(), special_as_text=special_as_text
            )

    def count(self, texts: pa.LargeStringArray) -> NDArray[np.uint32]:
        """Count the tokens of each text: uint32, (n,). Raises the errors of `encode`."""
        parts = [part.counts for part in map(self.encode_batch, batches(texts))]
        return np.concatenate([np.empty(0, np.uint32), *parts])

    def encode(self, texts: pa.LargeStringArray) -> TokenIds:
        """Return the ids of each text.

        Raises:
            TypeError: `texts` is not one array of large_string.
            BadInput: the tokenizer has no ids for a text.
            EngineDiffers: a document that both libraries encoded has different ids.
        """
        return concatenated([self.encode_batch(batch) for batch in batches(texts)])

    def encode_batch(self, texts: pa.LargeStringArray) -> TokenIds:
        """Encode a batch of texts, with all ids in memory at once. Raises the errors of `encode`."""
        strings = texts.to_pylist()
        ids = self.encode_unchecked(texts, strings)
        if self.fast is not None:
            self.check(strings, ids)
        return ids

    def encode_unchecked(self, texts: pa.LargeStringArray, strings: list[str]) -> TokenIds:
        """Encode a batch with `fastokens`, or with `tokenizers` where `fastokens` fails or is known to differ."""
        if self.fast is None:
            return self.reference_ids(strings)
        try:
            ids = encode_flat(self.fast, strings)
        except BaseException as error:  # the library raises bare exceptions, and its Rust code can panic
            if isinstance(error, Exception) or type(error).__name__ == PANIC:
                return self.reference_ids(strings)
            raise
        if self.folds and (doubtful := self.doubtful_texts(texts)):
            return with_replacements(ids, doubtful, self.reference_ids([strings[i] for i in doubtful]))
        return ids

    def doubtful_texts(self, texts: pa.LargeStringArray) -> list[int]:
        """Return the numbers of the texts that have a character about which the two libraries differ."""
        data, ends = text_buffers(texts)
        data, ends = data[ends[0] : ends[-1]], ends - ends[0]
        all_places = list[NDArray[np.int64]]()
        for character in FOLDED:  # by its last byte, which is rarer than its first
            places = np.flatnonzero(data == character[-1])
            for back, byte in enumerate(character[-2::-1], 1):
                places = places[data[places - back] == byte]
            all_places.append(places)
        numbers: NDArray[np.int64] = np.searchsorted(ends, np.concatenate(all_places), side="right") - 1
        return [int(number) for number in np.unique(numbers)]

    def check(self, strings: list[str], ids: TokenIds) -> None:
        """Compare the ids of one document of COMPARED_EVERY with the reference. Raises EngineDiffers."""
        # The first document of all batches, and then every 4,096th, whatever the sizes of batches.
        sample = range(-self.checked_strings % COMPARED_EVERY, len(strings), COMPARED_EVERY)
        self.checked_strings += len(strings)
        places = [i for i in sample if len(strings[i]) <= MAX_COMPARED]
        expected = self.reference_ids([strings[i] for i in places])
        for number, place in enumerate(places):
            if not np.array_equal(ids.of(place), expected.of(number)):
                raise EngineDiffers

    def differing(self, texts: pa.LargeStringArray) -> int:
        """Count the texts whose ids differ from the reference."""
        pairs = (
            (self.encode_unchecked(batch, strings := batch.to_pylist()), self.reference_ids(strings))
            for batch in batches(texts)
        )
        return sum(
            not np.array_equal(ids.of(i), expected.of(i))
            for ids, expected in pairs
            for i in range(len(expected.ends) - 1)
        )

    def reference_ids(self, strings: list[str]) -> TokenIds:
        """Encode texts with `tokenizers`. Raises BadInput if the tokenizer has no ids for a text."""
        try:
            encodings = self.reference.encode_batch_fast(strings, add_special_tokens=False)
        except Exception as error:  # the library raises bare exceptions
            raise BadInput(f"the tokenizer cannot count a text: {first_line(error)}") from error
        parts = [encoding.ids for encoding in encodings]
        return concatenated([TokenIds(np.array(ids, np.uint32), np.array([0, len(ids)])) for ids in parts])


def form_key(_: Tokenizer, tokenizer_json: str, *, special_as_text: bool) -> tuple[str, bool]:
    return tokenizer_json, special_as_text


@cached(LRUCache(maxsize=2), key=form_key, lock=Lock())
def fast_form(
    tokenizer: Tokenizer, tokenizer_json: str, *, special_as_text: bool
) -> tuple[FastEncoder | None, str | None, bool]:
    """Load a tokenizer in `fastokens` and compare its ids for the probes.

    Returns:
        The fast tokenizer or None, the reason for None, and whether the pattern of the tokenizer ignores case.
    """
    model, pre_tokenizer = tokenizer.model, tokenizer.pre_tokenizer
    folds = pre_tokenizer is not None and b"(?i" in pre_tokenizer.__getstate__()
    if getattr(model, "dropout", None):
        return None, "its model drops merges by chance", folds
    if not isinstance(model, BPE):  # fastokens is not faster for other models
        return None, f"its model is {type(model).__name__}, not BPE", folds
    try:
        fast = FastEncoder(FastTokenizer.from_json_str(tokenizer_json), special_as_text)
        probes = probes_of(tokenizer)
        ids, expected = (
            encode_flat(fast, probes),
            tokenizer.encode_batch_fast(probes, add_special_tokens=False),
        )
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == PANIC:
            return None, f"fastokens cannot load it: {first_line(error)}", folds
        raise
    wrong = (probe for i, probe in enumerate(probes) if ids.of(i).tolist() != expected[i].ids)
    if (first := next(wrong, None)) is not None:
        return None, f"fastokens returns other ids for {first[:40]!r}", folds
    return fast, None, folds


def probes_of(tokenizer: Tokenizer) -> list[str]:
    """Return the texts that both libraries must encode equally: words, and added tokens inside words."""
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    inside = [f"{left}{token}{right}" for token in added for left, right in (("a ", " b"), ("a", "b"))]
    words = [word for text in WORDS for word in text.split(" ")]
    return ["", *WORDS, *(text.upper() for text in WORDS), *words, *(f"{word} " for word in words), *inside]


def encode_flat(fast: FastEncoder, strings: list[str]) -> TokenIds:
    ids, ends = fast.encode_batch_flat(strings)
    return TokenIds(np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.uint64).astype(np.int64))


def batches(texts: pa.LargeStringArray) -> list[pa.LargeStringArray]:
    """Divide a column into slices of about BATCH_BYTES of text. Raises TypeError if it is not large_string."""
    _, ends = text_buffers(texts)
    if not len(texts):
        return []
    starts = np.flatnonzero(np.diff((ends[:-1] - ends[0]) // BATCH_BYTES, prepend=-1)).tolist()
    return [
        texts.slice(start, stop - start)
        for start, stop in zip(starts, [*starts[1:], len(texts)], strict=True)
    ]


def concatenated(parts: list[TokenIds]) -> TokenIds:
    """Return the ids of the documents of all parts."""
    counts = np.concatenate([np.empty(0, np.int64), *(np.diff(part.ends) for part in parts)])
    ids = np.concatenate([np.empty(0, np.uint32), *(part.ids for part in parts)])
    return TokenIds(ids, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def with_replacements(ids: TokenIds, places: list[int], replacements: TokenIds) -> TokenIds:
    """Return ids in which replacements stand for the documents at `places`, ascending."""
    parts, start = list[TokenIds](), 0
    for number, place in enumerate(places):
        parts += [slice_of(ids, start, place), slice_of(replacements, number, number + 1)]
        start = place + 1
    return concatenated([*parts, slice_of(ids, start, len(ids.ends) - 1)])


def slice_of(ids: TokenIds, start: int, stop: int) -> TokenIds:
    ends = ids.ends[start : stop + 1]
    return TokenIds(ids.ids[ends[0] : ends[-1]], ends - ends[0])
