"""Which rules documents break, from their statistics alone."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.documents.planning import Bound


def breaks(column: pa.Array, bound: Bound) -> NDArray[np.bool_]:
    """Say which documents break a rule, by its column: (n,) bool. What was not measured breaks none."""
    if bound.is_noted:
        return pc.is_valid(column).to_numpy(zero_copy_only=False)
    values = column.to_numpy(zero_copy_only=False)  # null is nan, of which no comparison is true
    is_broken = np.zeros(len(values), np.bool_)
    if bound.low is not None:
        is_broken |= values < bound.low
    if bound.high is not None:
        is_broken |= values > bound.high
    return is_broken


def broken_rules(columns: Mapping[str, pa.Array], bounds: Sequence[Bound]) -> NDArray[np.bool_]:
    """Say which rules each document breaks: (rules, n) bool."""
    n = len(next(iter(columns.values()))) if columns else 0
    rows = [breaks(columns[bound.column], bound) for bound in bounds]
    return np.array(rows, np.bool_).reshape(len(bounds), n)


def first_broken(is_broken: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first rule that each document breaks, or -1: (n,) int64. is_broken: (rules, n)."""
    if not len(is_broken):
        return np.full(is_broken.shape[1], -1)
    return np.where(is_broken.any(axis=0), is_broken.argmax(axis=0), -1)
