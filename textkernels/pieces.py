"""Copy pieces of an array to other positions: a gather of ragged rows. Compiled by numba."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit


def copy_pieces(
    source: NDArray[Any], starts: NDArray[np.int64], lengths: NDArray[np.int64], target: NDArray[Any],
    places: NDArray[np.int64],
) -> None:  # fmt: skip
    """Copy pieces of `source`, (n,) with a start and a length each, to positions in `target`, of the same dtype.

    Raises ValueError for a piece outside of either array.
    """
    if source.dtype != target.dtype:
        raise ValueError(f"target: expected an array of {source.dtype}, got {target.dtype}")
    if len(starts) and (
        min(starts.min(), lengths.min(), places.min()) < 0
        or (starts + lengths).max() > len(source)
        or (places + lengths).max() > len(target)
    ):
        raise ValueError("a piece lies outside of its array")
    copy(source, starts.astype(np.int64), lengths.astype(np.int64), target, places.astype(np.int64))


@njit(cache=True, nogil=True)
def copy(source, starts, lengths, target, places):
    for i in range(len(starts)):
        piece = source[starts[i] : starts[i] + lengths[i]]
        place = target[places[i] : places[i] + lengths[i]]
        for j in range(len(piece)):  # so written it is copied many bytes at a time
            place[j] = piece[j]  # a loop that is compiled to copy many bytes at a time
