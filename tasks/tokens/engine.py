"""Token ids of a column of text, exactly those of `tokenizers`, by a library that is many times as fast.

`fastokens` encodes, and `tokenizers` is the judge. A tokenizer for which the two disagree about a probe, or
that `fastokens` does not know, is encoded by `tokenizers` alone. Of the documents, one in some is encoded by
both. What is known to differ goes to the judge at once: with a pattern that ignores case, `fastokens` 0.3.5
takes the long s (U+017F) and the Kelvin sign (U+212A) for letters of a contraction or not as the judge does not.
Special tokens that are written in a text are encoded as text, or as the control tokens that they name.
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
ONE_OF = 4096  # documents, of which one is encoded by both libraries
MOST_COMPARED = 1 << 20  # characters of a document: of longer ones tokenizers takes gigabytes
PANIC = "PanicException"  # of Rust, which is no Exception
FOLDED = ("\u017f".encode(), "\u212a".encode())  # what is a letter of ASCII in another case
WORDS = (
    "The quick brown fox's 12345 jumps, over\tthe  lazy   dog!\r\n\n  It'S we'LL I'D they're 'tis ''s ",
    "naïve café e\u0301 \u1100\u1161\u11a8 Ångström \u212b漢字かな 한국어 हिन्दी עִבְרִית ไทย 🙂 \u00a0\u200b\ufeff ",
    "x = [i**2 for i in range(10)]  # 3.14e-5\n\tif (a!=b) {return NULL;}\n\n\n\n----====____ a_b-c/d\\e ",
    "McDONALDs HTMLParser iPhone ÀÉÎ ǅungla ªº ①② Ⅷ ½ ١٢٣ \U0001d7d8 \u0301\u0345 \u1ad2 \U0001094a \U00032000 ",
)


@dataclass(frozen=True)
class Ids:
    """The token ids of n documents, one after another: `ids`, (t,) uint32, and `ends`, (n + 1,) int64, from 0."""

    ids: NDArray[np.uint32]
    ends: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.uint32]:
        return np.diff(self.ends).astype(np.uint32)

    def of(self, document: int) -> NDArray[np.uint32]:
        return self.ids[self.ends[document] : self.ends[document + 1]]


class EngineDiffers(Exception):
    """A document whose ids are not those of `tokenizers`."""


@dataclass(frozen=True)
class Fast:
    """`fastokens`, which encodes special tokens in texts as text or as control tokens."""

    tokenizer: FastTokenizer
    special_as_text: bool

    def encode_batch_flat(self, strings: list[str]) -> tuple[bytes, bytes]:
        ids, ends = self.tokenizer.encode_batch_flat(strings, False, self.special_as_text)
        return ids, ends


class Engine:
    """Encodes text as a tokenizer does, without adding special tokens.

    is_exact: by `tokenizers` alone. special_as_text: whether special tokens in texts are text, not control tokens.
    why_slow: what keeps `fastokens` from it, or None. special: what counts special tokens in texts.
    """

    def __init__(self, tokenizer: Tokenizer, *, is_exact: bool = False, special_as_text: bool = True) -> None:
        self.special = special_tokens(special_names(tokenizer))
        if special_as_text:
            tokenizer = without_special_words(tokenizer)
        tokenizer.encode_special_tokens = special_as_text
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.judge = tokenizer
        self.fast: Fast | None = None
        self.why_slow: str | None = "it was asked for"
        self.seen, self.folds = 0, False
        if not is_exact:
            self.fast, self.why_slow, self.folds = fast_form(
                tokenizer, tokenizer.to_str(), special_as_text=special_as_text
            )

    def count(self, texts: pa.LargeStringArray) -> NDArray[np.uint32]:
        """Count the tokens of each text: (n,) uint32. Raises what `encode` does."""
        parts = [part.counts for part in map(self.encode_batch, batches(texts))]
        return np.concatenate([np.empty(0, np.uint32), *parts])

    def encode(self, texts: pa.LargeStringArray) -> Ids:
        """Return the ids of each text.

        Raises TypeError where they are no large_string, BadInput where the tokenizer has no ids for a text,
        EngineDiffers where a document that was encoded by both libraries is not the same.
        """
        return joined([self.encode_batch(batch) for batch in batches(texts)])

    def encode_batch(self, texts: pa.LargeStringArray) -> Ids:
        """Encode some texts, all of them in memory at once."""
        strings = texts.to_pylist()
        found = self.unchecked(texts, strings)
        if self.fast is not None:
            self.check(strings, found)
        return found

    def unchecked(self, texts: pa.LargeStringArray, strings: list[str]) -> Ids:
        """Encode some texts, by `fastokens` where it can."""
        if self.fast is None:
            return self.judged(strings)
        try:
            found = flat(self.fast, strings)
        except BaseException as error:  # it raises what it likes, and its Rust panics
            if isinstance(error, Exception) or type(error).__name__ == PANIC:
                return self.judged(strings)
            raise
        if self.folds and (doubtful := self.doubtful(texts)):
            return replaced(found, doubtful, self.judged([strings[i] for i in doubtful]))
        return found

    def doubtful(self, texts: pa.LargeStringArray) -> list[int]:
        """Return which texts hold what the two libraries are known to see otherwise."""
        data, ends = text_buffers(texts)
        data, ends = data[ends[0] : ends[-1]], ends - ends[0]
        found = list[NDArray[np.int64]]()
        for character in FOLDED:  # by its last byte, which is rarer than its first
            places = np.flatnonzero(data == character[-1])
            for back, byte in enumerate(character[-2::-1], 1):
                places = places[data[places - back] == byte]
            found.append(places)
        return np.unique(np.searchsorted(ends, np.concatenate(found), side="right") - 1).tolist()

    def check(self, strings: list[str], found: Ids) -> None:
        """Compare one document in some with what the judge says. Raises EngineDiffers."""
        # The first of all, then every so many, wherever batches begin.
        wanted = range(-self.seen % ONE_OF, len(strings), ONE_OF)
        self.seen += len(strings)
        places = [i for i in wanted if len(strings[i]) <= MOST_COMPARED]
        judged = self.judged([strings[i] for i in places])
        for number, place in enumerate(places):
            if not np.array_equal(found.of(place), judged.of(number)):
                raise EngineDiffers

    def differing(self, texts: pa.LargeStringArray) -> int:
        """Count the texts that have other ids by `fastokens`, but for those known to."""
        pairs = (
            (self.unchecked(batch, strings := batch.to_pylist()), self.judged(strings))
            for batch in batches(texts)
        )
        return sum(
            not np.array_equal(found.of(i), judged.of(i))
            for found, judged in pairs
            for i in range(len(judged.ends) - 1)
        )

    def judged(self, strings: list[str]) -> Ids:
        """Encode texts by `tokenizers`. Raises BadInput."""
        try:
            encoded = [one.ids for one in self.judge.encode_batch_fast(strings, add_special_tokens=False)]
        except Exception as error:  # the library raises bare exceptions
            raise BadInput(f"the tokenizer cannot count a text: {first_line(error)}") from error
        return joined([Ids(np.array(ids, np.uint32), np.array([0, len(ids)])) for ids in encoded])


def form_key(_: Tokenizer, written: str, *, special_as_text: bool) -> tuple[str, bool]:
    return written, special_as_text


@cached(LRUCache(maxsize=2), key=form_key, lock=Lock())
def fast_form(
    tokenizer: Tokenizer, written: str, *, special_as_text: bool
) -> tuple[Fast | None, str | None, bool]:
    """Return the fast form of a tokenizer, or why there is none; and whether its pattern ignores case.

    written: its tokenizer.json. Large ones take seconds to parse, so nothing is asked of it that the tokenizer has.
    """
    model, cut = tokenizer.model, tokenizer.pre_tokenizer
    folds = cut is not None and b"(?i" in cut.__getstate__()
    if getattr(model, "dropout", None):
        return None, "its model drops merges by chance", folds
    if not isinstance(model, BPE):  # which are as slow there, and less tried
        return None, f"its model is {type(model).__name__}, not BPE", folds
    try:
        fast = Fast(FastTokenizer.from_json_str(written), special_as_text)
        probes = probes_of(tokenizer)
        found, judged = flat(fast, probes), tokenizer.encode_batch_fast(probes, add_special_tokens=False)
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == PANIC:
            return None, f"fastokens does not read it: {first_line(error)}", folds
        raise
    wrong = (probe for i, probe in enumerate(probes) if found.of(i).tolist() != judged[i].ids)
    if (first := next(wrong, None)) is not None:
        return None, f"fastokens gives other ids for {first[:40]!r}", folds
    return fast, None, folds


def probes_of(tokenizer: Tokenizer) -> list[str]:
    """Return texts for which a fast form has to give the same ids before it is trusted."""
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    inside = [f"{left}{token}{right}" for token in added for left, right in (("a ", " b"), ("a", "b"))]
    words = [word for text in WORDS for word in text.split(" ")]
    return ["", *WORDS, *(text.upper() for text in WORDS), *words, *(f"{word} " for word in words), *inside]


def flat(fast: Fast, strings: list[str]) -> Ids:
    ids, ends = fast.encode_batch_flat(strings)
    return Ids(np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.uint64).astype(np.int64))


def batches(texts: pa.LargeStringArray) -> list[pa.LargeStringArray]:
    """Cut a column into slices of about BATCH_BYTES of text. Raises TypeError where it is no large_string."""
    _, ends = text_buffers(texts)
    if not len(texts):
        return []
    starts = np.flatnonzero(np.diff((ends[:-1] - ends[0]) // BATCH_BYTES, prepend=-1)).tolist()
    return [
        texts.slice(start, stop - start)
        for start, stop in zip(starts, [*starts[1:], len(texts)], strict=True)
    ]


def joined(parts: list[Ids]) -> Ids:
    """Put the documents of some parts one after another."""
    counts = np.concatenate([np.empty(0, np.int64), *(np.diff(part.ends) for part in parts)])
    ids = np.concatenate([np.empty(0, np.uint32), *(part.ids for part in parts)])
    return Ids(ids, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def replaced(found: Ids, places: list[int], others: Ids) -> Ids:
    """Put other ids in the place of those of some documents."""
    parts, before = list[Ids](), 0
    for number, place in enumerate(places):
        parts += [part_of(found, before, place), part_of(others, number, number + 1)]
        before = place + 1
    return joined([*parts, part_of(found, before, len(found.ends) - 1)])


def part_of(ids: Ids, start: int, stop: int) -> Ids:
    ends = ids.ends[start : stop + 1]
    return Ids(ids.ids[ends[0] : ends[-1]], ends - ends[0])
