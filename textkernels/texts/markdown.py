"""The prose of Markdown: rules for prose measure it, and rules for lines clean it.

Code, tables and formulas are excluded: rules that count words, line ends or punctuation would take them for bad
prose, and rules for lines would remove the indentation and the short lines of code.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.rules.blocks import KIND, PROSE, cut, join, prose_of, prose_pieces

Clean = Callable[[pa.LargeStringArray], tuple[pa.LargeStringArray, NDArray[np.bool_]]]


def prose(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return texts in Markdown, (n,), without code, tables and formulas, and without the marks of headings."""
    return _column(*prose_of(*text_buffers(texts)))


def with_clean_prose(
    texts: pa.LargeStringArray, clean: Clean
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    """Clean the prose of texts in Markdown, (n,), and return which have changed, (n,) bool.

    Blocks are not changed. Headings of empty sections are removed.
    """
    data, offsets = text_buffers(texts)
    pieces, ends = cut(data, offsets)
    is_prose = pieces[:, KIND] == PROSE
    if is_prose.all():
        return clean(texts)
    cleaned, _ = clean(_column(*prose_pieces(data, pieces, ends)))
    joined = _column(*join(data, pieces, ends, *text_buffers(cleaned)))
    return joined, pc.not_equal(joined, texts).to_numpy(zero_copy_only=False)


def _column(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> pa.LargeStringArray:
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
