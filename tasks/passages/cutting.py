"""Cutting: the bytes of repeated passages that each part of a recipe cuts, and texts without them."""

import string
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.passages import spans
from zyda_flows.tasks.passages.marks import Marks
from zyda_flows.tasks.passages.spans import Places, Spans
from zyda_flows.tasks.passages.units import Units
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.characters import characters_before
from zyda_flows.textkernels.rules.blocks import BLOCK, END, KIND, START, cut
from zyda_flows.textkernels.segments import find_segments

ENDING = np.frombuffer((string.whitespace + string.punctuation).encode(), np.uint8)
SEGMENTS = {"sentence": "sentences", "line": "lines", "paragraph": "paragraphs"}


@dataclass(frozen=True)
class CutOfPart:
    """The bytes of some texts that a part cuts, and the bytes that it keeps as the only copy."""

    cut: Spans
    owned: Spans


def cut_of_part(marks: Marks, units: Units, part: PassagePart) -> CutOfPart:
    """Return the bytes of repeated windows: the bytes to cut, and the bytes of owned windows."""
    if part.keep == "all" or not len(marks.texts):
        return CutOfPart(spans.none(), spans.none())
    begins, ends = units.spans(marks.firsts, marks.lasts + part.window)
    if part.keep == "none":
        return CutOfPart(spans.union(begins, ends), spans.none())
    is_other = ~marks.is_owned
    owned = spans.union(begins[marks.is_owned], ends[marks.is_owned])
    return CutOfPart(spans.without(spans.union(begins[is_other], ends[is_other]), owned), owned)


def cut_spans(texts: pa.LargeStringArray, parts: list[tuple[PassagePart, CutOfPart]]) -> Spans:
    """Return the bytes that all parts together cut; none that a part keeps as the only copy."""
    owned = owned_spans(parts)
    return reduce(
        spans.both,
        (grown_cut(texts, part, spans.without(cut_part.cut, owned), owned) for part, cut_part in parts),
    )


def owned_spans(parts: list[tuple[PassagePart, CutOfPart]]) -> Spans:
    return reduce(spans.both, (cut_part.owned for _, cut_part in parts))


def grown_cut(texts: pa.LargeStringArray, part: PassagePart, cut_bytes: Spans, owned: Spans) -> Spans:
    """Return what a part cuts: grown to its segments, with its gaps, and no part of a block of Markdown."""
    if not len(cut_bytes.starts):
        return cut_bytes
    data, offsets = text_buffers(texts)
    borders = offsets - offsets[0]
    limits = spans.both(owned, blocks_not_marked(texts, cut_bytes)) if part.markdown else owned
    cut_bytes = spans.without(cut_bytes, limits)
    if part.cut != "exact":
        segments = find_segments(data, offsets, SEGMENTS[part.cut])
        starts = segments.starts - offsets[0]
        stops = np.append(starts[1:], borders[-1])
        has_text = np.diff(segments.ends) > 0
        stops[segments.ends[1:][has_text] - 1] = borders[1:][has_text]
        # At the borders of texts, so that no segment of another text is touched.
        cut_bytes = spans.divided(cut_bytes, borders)
        is_text = ~np.isin(data[offsets[0] : offsets[-1]], ENDING)
        contents = np.maximum.accumulate(np.arange(1, len(is_text) + 1) * is_text)[stops - 1]
        cut_bytes = spans.grown(cut_bytes, starts, stops, contents, limits)
    if part.gap:
        gaps = spans.without(gaps_to_cut(data[offsets[0] :], borders, cut_bytes, part.gap), limits)
        cut_bytes = spans.both(cut_bytes, gaps)
    return spans.divided(cut_bytes, borders)


def gaps_to_cut(data: NDArray[np.uint8], borders: Places, cut_bytes: Spans, most: int) -> Spans:
    """Return the bytes between two consecutive spans of a text that have at most `most` characters."""
    begins, ends = cut_bytes.stops[:-1], cut_bytes.starts[1:]
    sizes = characters_before(data, ends) - characters_before(data, begins)
    texts = [np.searchsorted(borders, places, side="right") for places in (begins - 1, ends)]
    is_cut = (sizes <= most) & (texts[0] == texts[1])
    return spans.union(begins[is_cut], ends[is_cut])


def blocks_not_marked(texts: pa.LargeStringArray, cut_bytes: Spans) -> Spans:
    """Return the blocks of code, tables and formulas that are not cut as a whole."""
    data, offsets = text_buffers(texts)
    pieces, _ = cut(data, offsets)
    blocks = pieces[pieces[:, KIND] == BLOCK] - offsets[0]
    begins, ends = blocks[:, START], blocks[:, END]
    is_whole = spans.bytes_before(cut_bytes, ends) - spans.bytes_before(cut_bytes, begins) == ends - begins
    return spans.union(begins[~is_whole], ends[~is_whole])


def without_spans(texts: pa.LargeStringArray, cut_bytes: Spans) -> pa.LargeStringArray:
    """Return texts without some bytes."""
    data, offsets = text_buffers(texts)
    borders = offsets - offsets[0]
    change = np.zeros(int(borders[-1]) + 1, np.int8)
    is_kept = np.ones(int(borders[-1]), np.bool_)
    if len(cut_bytes.starts):
        np.add.at(change, cut_bytes.starts, 1)
        np.add.at(change, cut_bytes.stops, -1)
        is_kept = np.cumsum(change[:-1], dtype=np.int8) == 0
    kept = data[offsets[0] : offsets[-1]][is_kept]
    ends = borders - spans.bytes_before(cut_bytes, borders)
    return pa.LargeStringArray.from_buffers(
        len(texts), pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(kept)
    )


def is_blank(texts: pa.LargeStringArray) -> NDArray[np.bool_]:
    """Return which texts have only white space: (n,)."""
    lengths = pc.binary_length(pc.utf8_trim_whitespace(texts))
    return pc.equal(lengths, 0).to_numpy(zero_copy_only=False)
