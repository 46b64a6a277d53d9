"""What kernels count of documents, by name, and the statistics of texts that are made of it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Counts = NDArray[np.void]  # (n,): for each document, numbers by the names that `named_counts` was given
Counted = Mapping[str, NDArray[np.int64]]


class Statistic(NamedTuple):
    """A statistic of texts: its type, and how it is made of what is counted, (n,) of (n,) each."""

    type: pa.DataType
    of: Callable[[Counted], NDArray[Any]]


def named_counts(*names: str) -> np.dtype[np.void]:
    """Return the type of what is counted of one document: whole numbers with these names."""
    return np.dtype([(name, np.int64) for name in names])


def together(blocks: list[Counts]) -> Counts:
    """Put the counts of blocks of documents one after another."""
    numbers = np.concatenate([block.view(np.int64) for block in blocks])  # of records it takes far longer
    return numbers.view(blocks[0].dtype)


def by_name(*counts: Counts) -> dict[str, NDArray[np.int64]]:
    """Return what several kernels counted, by name: (n,) int64 each."""
    return {name: of_kernel[name] for of_kernel in counts for name in of_kernel.dtype.names or ()}


def number_of(name: str) -> Statistic:
    """Return the statistic that is what is counted under a name."""
    return Statistic(pa.int64(), lambda counted: counted[name])


def share_of(part: str, whole: str) -> Statistic:
    """Return the statistic that is one count for each of another, or 0 where there is none of that."""

    def share(counted: Counted) -> NDArray[np.float64]:
        parts, wholes = counted[part], counted[whole]
        return np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)

    return Statistic(pa.float64(), share)


def measured_by(statistics: Mapping[str, Statistic], counted: Counted) -> pa.Table:
    """Return a column for each statistic, a row a document."""
    schema = pa.schema([(name, statistic.type) for name, statistic in statistics.items()])
    return pa.table([pa.array(statistic.of(counted)) for statistic in statistics.values()], schema=schema)
