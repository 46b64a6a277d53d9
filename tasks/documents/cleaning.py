"""Cleaning a text: long runs of one character become one.

A text that nothing changes is not copied: first it is found out which there are, at the speed of the scan.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.kernels.characters import CODE_POINTS, has_long_runs, shorten
from tasks.kernels.texts import text_buffers

ANY = np.uint32(2**32 - 1)  # as many as there are
# How many of a character may stand together in Zyda-1 (Zyphra's Zyda_processing, `preprocess_and_filter.py`).
ZYDA1 = {**dict.fromkeys("-_/\\\n\r.,:?\xa0", 9), "\t": 19, " ": 39}


def longest_runs(longest: Mapping[str, int]) -> NDArray[np.uint32]:
    """Return how many of each code point may stand together: (0x110000,) uint32."""
    of_codes = np.full(CODE_POINTS, ANY, np.uint32)
    for character, most in longest.items():
        of_codes[ord(character)] = most
    return of_codes


def without_long_runs(
    texts: pa.LargeStringArray, longest: Mapping[str, int] = ZYDA1
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    """Return the texts with one character for each run of more than so many, and which have changed, (n,) bool."""
    of_codes = longest_runs(longest)
    is_changed = has_long_runs(*text_buffers(texts), of_codes)
    if not is_changed.any():
        return texts, is_changed
    mask = pa.array(is_changed)
    data, ends = shorten(*text_buffers(texts.filter(mask)), of_codes)
    changed = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(data))
    return pc.replace_with_mask(texts, mask, changed), is_changed
