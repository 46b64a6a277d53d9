"""Units of texts: code points, tokens, words, sentences, lines, paragraphs; each with a number and its bytes."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.passages.token_places import TokenPlaces
from zyda_flows.tasks.recipe.passages import PassagePart, RepeatedLines, RepeatedParagraphs, RepeatedSegments
from zyda_flows.tasks.tokens.engine import EngineDiffers, TokenEngine
from zyda_flows.textkernels.anchors import Values
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.characters import characters_before, find_characters, is_ascii
from zyda_flows.textkernels.segments import find_segments, hash_bytes

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
    data: (b,) the bytes of all texts. offsets: (n + 1,), the bytes of each text. first_bytes, last_bytes: take
    units and their texts, (m,) each, and return where their bytes begin and end.
    """

    values: Values
    lows: Values
    ends: NDArray[np.int64]
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    first_bytes: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]
    last_bytes: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]

    def texts_of(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the text of each unit: (m,) to (m,)."""
        return np.searchsorted(self.ends, units, side="right") - 1

    def first_characters(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of code points of its text before each unit: (m,) to (m,)."""
        order = np.argsort(units, kind="stable")
        texts = self.texts_of(units[order])
        before = np.empty(len(units), np.int64)
        before[order] = characters_before(self.data, self.first_bytes(units[order], texts))
        before[order] -= characters_before(self.data, self.offsets)[texts]
        return before

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
    return segments_of(texts, part)


def segments_of(texts: pa.LargeStringArray, part: PassagePart) -> Units:
    """Return words, sentences, lines or paragraphs as units."""
    data, offsets = text_buffers(texts)
    starts, heads, tops, ends = find_segments(data, offsets, part.units)
    if isinstance(part, RepeatedSegments):
        (high, low), counted = normalised_keys(data, heads, tops, part)
    else:
        (high, low), counted = hash_bytes(data, heads, tops), None
    segments_before = ends
    if counted is not None:
        high, low, ends = high[counted], low[counted], np.searchsorted(counted, ends)

    def first_bytes(units: NDArray[np.int64], _: NDArray[np.int64]) -> NDArray[np.int64]:
        return starts[units if counted is None else counted[units]] - offsets[0]

    def last_bytes(units: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        # A segment ends where the next begins, or with its text.
        following = (units if counted is None else counted[units]) + 1
        has_next = following < segments_before[numbers + 1]
        following[~has_next] = 0
        return np.where(has_next, starts[following], offsets[numbers + 1]) - offsets[0]

    data = data[offsets[0] : offsets[-1]]
    return Units(high, low, ends, data, offsets - offsets[0], first_bytes, last_bytes)


def characters_of(texts: pa.LargeStringArray) -> Units:
    """Return code points as units."""
    data, offsets = text_buffers(texts)
    data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
    if is_ascii(data):
        return Units(data, data, offsets, data, offsets, lambda units, _: units, lambda units, _: units + 1)
    found = find_characters(data, offsets)
    return Units(
        found.codes,
        found.codes,
        found.ends,
        data,
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
    data, offsets = data[offsets[0] : offsets[-1]], offsets - offsets[0]
    places = TokenPlaces(texts, data, offsets, ids, engine)
    return Units(
        ids.ids,
        ids.ids,
        ids.ends,
        data,
        offsets,
        lambda units, numbers: places.bytes_at(units, numbers, 0),
        lambda units, numbers: places.bytes_at(units, numbers, 1),
    )


def normalised_keys(
    data: NDArray[np.uint8], heads: NDArray[np.int64], tops: NDArray[np.int64], part: RepeatedSegments
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hash the normalised content of segments: (2, s), and list those that are counted, (c,)."""
    content = contents(data, heads, tops)
    is_counted = pc.greater_equal(pc.utf8_length(content), least_characters(part))
    for name in part.except_:
        excepted = pc.match_substring_regex(content, EXCEPTIONS[name])
        is_counted = pc.and_(is_counted, pc.invert(excepted))
    if part.normalise == "ccnet":
        lower = pc.replace_substring_regex(pc.utf8_lower(content), r"\p{Nd}", "0")
        content = pc.replace_substring_regex(lower, REMOVED, "")
        is_counted = pc.and_(is_counted, pc.greater(pc.binary_length(content), 0))
    found, ends = text_buffers(content)
    counted = np.flatnonzero(is_counted.to_numpy(zero_copy_only=False))
    return hash_bytes(found, ends[:-1], ends[1:]), counted


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


def contents(
    data: NDArray[np.uint8], heads: NDArray[np.int64], tops: NDArray[np.int64]
) -> pa.LargeStringArray:
    """Return the contents of segments as texts."""
    n = len(heads)
    borders = np.empty(2 * n, np.int64)
    borders[::2], borders[1::2] = heads, tops
    # Between two contents is a text of white space.
    with_spaces = pa.LargeStringArray.from_buffers(
        max(0, 2 * n - 1), pa.py_buffer(borders), pa.py_buffer(data)
    )
    return with_spaces.take(pa.array(np.arange(0, max(0, 2 * n - 1), 2)))
