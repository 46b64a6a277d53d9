r"""Cleaning a text: long runs of one character become one, all ends of lines `\n`, and control characters go.

A text that nothing changes is not copied: first it is found out which there are, at the speed of the scan.
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

ANY = np.uint32(2**32 - 1)  # as many as there are
# How many of a character may stand together in Zyda-1 (Zyphra's Zyda_processing, `preprocess_and_filter.py`).
ZYDA1 = {**dict.fromkeys("-_/\\\n\r.,:?\xa0", 9), "\t": 19, " ": 39}

NEWLINES = "\r\x85\u2028\u2029"  # that become \n, and \r\n does
KEPT = "\t\n\r"  # of the control characters
MARK = "\ufeff"  # of the order of bytes


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
    return with_changed(
        texts, is_changed, shorten(*text_buffers(texts.filter(pa.array(is_changed))), of_codes)
    )


def with_newlines(texts: pa.LargeStringArray) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    r"""Return the texts with \n at the end of each line and paragraph, and which have changed, (n,) bool."""
    return replaced(texts, newlines())


def without_control_characters(
    texts: pa.LargeStringArray,
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    r"""Return the texts without control characters but \t, \n and \r, and which have changed, (n,) bool.

    The mark of the order of bytes goes too. So does \x85, unless `with_newlines` came first.
    """
    return replaced(texts, control_characters())


@lru_cache(maxsize=1)
def newlines() -> NDArray[np.uint8]:
    """Return what becomes of each code point: (0x110000,) uint8."""
    kinds = np.zeros(CODE_POINTS, np.uint8)
    kinds[list(map(ord, NEWLINES))] = NEW_LINE
    return kinds


@lru_cache(maxsize=1)
def control_characters() -> NDArray[np.uint8]:
    """Return what becomes of each code point: (0x110000,) uint8."""
    kinds = np.zeros(CODE_POINTS, np.uint8)
    of_latin = [code for code in range(256) if unicodedata.category(chr(code)) == "Cc"]  # where they all are
    kinds[[*of_latin, ord(MARK)]] = LEFT_OUT
    kinds[list(map(ord, KEPT))] = 0
    return kinds


def replaced(
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
    """Put what the changed texts, (m,) of (n,), have become, UTF-8 and ends, in their places."""
    data, ends = changed
    column = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(data))
    return pc.replace_with_mask(texts, pa.array(is_changed), column), is_changed
