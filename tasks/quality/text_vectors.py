"""The vectors of texts whose cosines are compared: whole numbers, and how they are made from others."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNIT = 1 << 14  # the length of a vector
FINE = 1 << 20  # the largest of the whole numbers from which a vector is made


class TextVectors(NamedTuple):
    """The vectors of n texts.

    vectors: int32, (n, dims), each of length UNIT, rounded; zeros for a text without a token.
    windows_left_out: int64, (n,), the windows at the end of each text that were not read.
    """

    vectors: NDArray[np.int32]
    windows_left_out: NDArray[np.int64]


def of_length_unit(numbers: NDArray[Any]) -> NDArray[np.int32]:
    """Return rows of whole numbers with the length UNIT, rounded: (n, dims). Rows of zeros remain zeros.

    The sums of squares are exact below 2**63, so every machine returns the same bits.
    """
    whole = numbers.astype(np.int64)
    lengths = np.sqrt(np.maximum(1, (whole * whole).sum(axis=1, keepdims=True)).astype(np.float64))
    return np.rint(whole * float(UNIT) / lengths).astype(np.int32)


def whole_numbers(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return each row as whole numbers, the largest of which is FINE: (n, dims). The rows are finite."""
    largest = np.abs(rows).max(axis=1, initial=0, keepdims=True)
    return np.rint(np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0) * FINE).astype(
        np.int64
    )
