"""Counts that kernels make of documents, by name, and the statistics that are computed from them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Counts = NDArray[np.void]  # (n,): for each document, integers by the names that `named_counts` was given
CountsByName = Mapping[str, NDArray[np.int64]]


class Statistic(NamedTuple):
    """A statistic of texts: its Arrow type, and a function from the counts, (n,) each, to its values, (n,)."""

    type: pa.DataType
    compute: Callable[[CountsByName], NDArray[Any]]


def named_counts(*names: str) -> np.dtype[np.void]:
    """Return the dtype of the counts of one document: int64 fields with these names."""
    return np.dtype([(name, np.int64) for name in names])


def concatenate_counts(blocks: list[Counts]) -> Counts:
    """Concatenate the counts of blocks of documents."""
    numbers = np.concatenate([block.view(np.int64) for block in blocks])  # structured arrays take far longer
    return numbers.view(blocks[0].dtype)


def counts_by_name(*counts: Counts) -> dict[str, NDArray[np.int64]]:
    """Return the counts of several kernels by name: (n,) int64 each."""
    return {name: kernel_counts[name] for kernel_counts in counts for name in kernel_counts.dtype.names or ()}


def count_statistic(name: str) -> Statistic:
    """Return a statistic equal to the count of this name."""
    return Statistic(pa.int64(), lambda counted: counted[name])


def share_statistic(part: str, whole: str) -> Statistic:
    """Return a statistic: the count `part` divided by the count `whole`, or 0 where `whole` is 0."""

    def share(counted: CountsByName) -> NDArray[np.float64]:
        parts, wholes = counted[part], counted[whole]
        return np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)

    return Statistic(pa.float64(), share)


def statistics_table(statistics: Mapping[str, Statistic], counted: CountsByName) -> pa.Table:
    """Return a table with a column for each statistic and a row for each document."""
    schema = pa.schema([(name, statistic.type) for name, statistic in statistics.items()])
    return pa.table(
        [pa.array(statistic.compute(counted)) for statistic in statistics.values()], schema=schema
    )
