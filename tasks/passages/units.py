"""Units of texts: code points, tokens, words, sentences, lines, paragraphs; each with a number and its bytes."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers.decoders import ByteLevel

from zyda_flows.tasks.dedup.part_tables import run_starts
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.recipe.passages import PassagePart, RepeatedLines, RepeatedParagraphs, RepeatedSegments
from zyda_flows.tasks.tokens.engine import EngineDiffers, TokenEngine, TokenIds
from zyda_flows.textkernels.anchors import Values
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.characters import find_characters
from zyda_flows.textkernels.segments import Segments, find_segments, hash_bytes

VERSION = 1
# The characters that CCNet's `normalize_for_dedup` removes (cc_net/text_normalizer.py): these, and controls.
PUNCTUATION = "，。、„”“«»１」「《》´∶：？！（）；–—．～’…━〈〉【】％►"  # noqa: RUF001
REMOVED = f"[{re.escape(PUNCTUATION)}\\x00-\\x1f\\x7f-\\x{{9f}}]"
EXCEPTIONS = {
    "brackets": r"^[\s\[\](){}<>,;:]*$",
    "headings": r"^#{1,6}\s",
    "latex": r"^(\\[A-Za-z]+|\$\$|%)",
}


@dataclass(frozen=True)
class Units:
    """The units of some texts.

    values, lows: (u,), two numbers of each unit, equal if a single number identifies it. ends: (n + 1,) by text.
    offsets: (n + 1,), the bytes of each text. first_bytes, last_bytes: take units and their texts, (m,) each, and
    return where their bytes begin and end.
    """

    values: Values
    lows: Values
    ends: NDArray[np.int64]
    offsets: NDArray[np.int64]
    first_bytes: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]
    last_bytes: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]

    def texts_of(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the text of each unit: (m,) to (m,)."""
        return np.searchsorted(self.ends, units, side="right") - 1

    def spans(
        self, firsts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the bytes of ranges of units, up to but without `stops`: begins and ends, (m,) each."""
        texts = self.texts_of(firsts)
        return self.first_bytes(firsts, texts), self.last_bytes(stops - 1, texts)


def units_of(texts: pa.LargeStringArray, part: PassagePart, engine: TokenEngine | None) -> Units:
    """Return the units of which the passages of a part consist. engine: needed for tokens."""
    if part.units == "characters":
        return characters_of(texts)
    if part.units == "tokens":
        assert engine is not None
        return tokens_of(texts, engine)
    data, offsets = text_buffers(texts)
    segments = find_segments(data, offsets, part.units)
    is_counted = np.ones(len(segments.starts), np.bool_)
    if isinstance(part, RepeatedSegments):
        keys, is_counted = normalised_keys(texts, segments, part)
    else:
        keys = hash_bytes(data, segments.heads, segments.tops)
    # A segment ends where the next begins.
    lasts = np.append(segments.starts[1:], offsets[-1])
    nexts = segments.ends[1:][np.diff(segments.ends) > 0]
    lasts[nexts - 1] = offsets[1:][np.diff(segments.ends) > 0]
    ends = np.concatenate([[0], np.cumsum(is_counted)])[segments.ends]
    starts, lasts = segments.starts[is_counted] - offsets[0], lasts[is_counted] - offsets[0]
    high, low = np.ascontiguousarray(keys[is_counted].T)
    return Units(
        high, low, ends, offsets - offsets[0], lambda units, _: starts[units], lambda units, _: lasts[units]
    )


def characters_of(texts: pa.LargeStringArray) -> Units:
    """Return code points as units."""
    data, offsets = text_buffers(texts)
    data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
    found = find_characters(data, offsets)
    return Units(
        found.codes,
        found.codes,
        found.ends,
        offsets,
        lambda units, _: found.first_bytes(units),
        lambda units, _: found.first_bytes(units + 1),
    )


def tokens_of(texts: pa.LargeStringArray, engine: TokenEngine) -> Units:
    """Return tokens as units. A character of several tokens belongs to each of them."""
    try:
        ids = engine.encode(texts)
    except EngineDiffers:
        ids = engine.reference_ids(texts.to_pylist())
    data, offsets = text_buffers(texts)
    places = TokenPlaces(texts, data[offsets[0] : offsets[-1]], offsets - offsets[0], ids, engine)
    return Units(
        ids.ids,
        ids.ids,
        ids.ends,
        offsets - offsets[0],
        lambda units, numbers: places.bytes_at(units, numbers, 0),
        lambda units, numbers: places.bytes_at(units, numbers, 1),
    )


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


def normalised_keys(
    texts: pa.LargeStringArray, segments: Segments, part: RepeatedSegments
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Hash the normalised content of segments: (s, 2), and which are counted, (s,)."""
    data, _ = text_buffers(texts)
    content = contents(data, segments)
    is_counted = pc.greater_equal(pc.utf8_length(content), least_characters(part))
    for name in part.except_:
        excepted = pc.match_substring_regex(content, EXCEPTIONS[name])
        is_counted = pc.and_(is_counted, pc.invert(excepted))
    if part.normalise == "ccnet":
        lower = pc.replace_substring_regex(pc.utf8_lower(content), r"\p{Nd}", "0")
        content = pc.replace_substring_regex(lower, REMOVED, "")
        is_counted = pc.and_(is_counted, pc.greater(pc.binary_length(content), 0))
    found, ends = text_buffers(content)
    return hash_bytes(found, ends[:-1], ends[1:]), is_counted.to_numpy(zero_copy_only=False)


def least_characters(part: RepeatedSegments) -> int:
    shared = (
        part.lines
        if isinstance(part, RepeatedLines)
        else part.paragraphs
        if isinstance(part, RepeatedParagraphs)
        else None
    )
    assert shared is not None
    return shared.at_least


def contents(data: NDArray[np.uint8], segments: Segments) -> pa.LargeStringArray:
    """Return the contents of segments as texts."""
    n = len(segments.heads)
    borders = np.empty(2 * n, np.int64)
    borders[::2], borders[1::2] = segments.heads, segments.tops
    # Between two contents is a text of white space.
    with_spaces = pa.LargeStringArray.from_buffers(
        max(0, 2 * n - 1), pa.py_buffer(borders), pa.py_buffer(data)
    )
    return with_spaces.take(pa.array(np.arange(0, max(0, 2 * n - 1), 2)))
