r"""Clean texts: shorten long runs of one character, replace line ends by `\n`, and remove control characters.

Texts that do not change are not copied: a fast scan finds the texts that do.
"""

import unicodedata
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.rules.characters import (
    CODE_POINTS,
    LEFT_OUT,
    NEW_LINE,
    has_any,
    has_long_runs,
    shorten,
    without,
)  # fmt: skip

NO_LIMIT = np.uint32(2**32 - 1)  # no limit
# The longest runs of a character in Zyda-1 (Zyphra's Zyda_processing, `preprocess_and_filter.py`).
ZYDA1 = {**dict.fromkeys("-_/\\\n\r.,:?\xa0", 9), "\t": 19, " ": 39}

NEWLINES = "\r\x85\u2028\u2029"  # replaced by \n, as is \r\n
KEPT_CONTROLS = "\t\n\r"  # control characters that are kept
MARK = "\ufeff"  # the byte order mark


def longest_runs(longest: Mapping[str, int]) -> NDArray[np.uint32]:
    """Return the longest run of each code point: (0x110000,) uint32."""
    limits = np.full(CODE_POINTS, NO_LIMIT, np.uint32)
    for character, most in longest.items():
        limits[ord(character)] = most
    return limits


def without_long_runs(
    texts: pa.LargeStringArray, longest: Mapping[str, int] = ZYDA1
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    """Return the texts with longer runs reduced to one character, and which have changed, (n,) bool."""
    limits = longest_runs(longest)
    is_changed = has_long_runs(*text_buffers(texts), limits)
    if not is_changed.any():
        return texts, is_changed
    return with_changed(texts, is_changed, shorten(*text_buffers(texts.filter(pa.array(is_changed))), limits))


def with_newlines(texts: pa.LargeStringArray) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    r"""Return the texts with \n at the end of each line and paragraph, and which have changed, (n,) bool."""
    return replace_characters(texts, newlines())


def without_control_characters(
    texts: pa.LargeStringArray,
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    r"""Return the texts without control characters except \t, \n and \r, and which have changed, (n,) bool.

    The byte order mark is removed too, and so is \x85, unless `with_newlines` replaced it before.
    """
    return replace_characters(texts, control_characters())


@lru_cache(maxsize=1)
def newlines() -> NDArray[np.uint8]:
    """Return whether each code point is kept or replaced: (0x110000,) uint8."""
    kinds = np.zeros(CODE_POINTS, np.uint8)
    kinds[list(map(ord, NEWLINES))] = NEW_LINE
    return kinds


@lru_cache(maxsize=1)
def control_characters() -> NDArray[np.uint8]:
    """Return whether each code point is kept or removed: (0x110000,) uint8."""
    kinds = np.zeros(CODE_POINTS, np.uint8)
    control_codes = [
        code for code in range(256) if unicodedata.category(chr(code)) == "Cc"
    ]  # there are no others
    kinds[[*control_codes, ord(MARK)]] = LEFT_OUT
    kinds[list(map(ord, KEPT_CONTROLS))] = 0
    return kinds


def replace_characters(
    texts: pa.LargeStringArray, kinds: NDArray[np.uint8]
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    is_changed = has_any(*text_buffers(texts), kinds)
    if not is_changed.any():
        return texts, is_changed
    return with_changed(texts, is_changed, without(*text_buffers(texts.filter(pa.array(is_changed))), kinds))


def with_changed(
    texts: pa.LargeStringArray,
    is_changed: NDArray[np.bool_],
    changed: tuple[NDArray[np.uint8], NDArray[np.int64]],
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    """Replace the changed texts, (m,) of (n,), by their new UTF-8 bytes and ends."""
    data, ends = changed
    column = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(data))
    return pc.replace_with_mask(texts, pa.array(is_changed), column), is_changed
