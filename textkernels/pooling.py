"""Pool the embeddings of token ids: the mean of a document, and the largest and smallest means of its windows.

All arithmetic is of integers, so that every machine computes the same numbers. Compiled by numba.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

UNITS = 256  # a mean is a whole number of 1/256 of a unit of the embeddings
MOST_IN_WINDOW = 256  # tokens; the sum of as many numbers of 8 bits has 16 bits


@njit(cache=True, nogil=True)
def _pool(ids, ends, table, window, sums, totals, features):
    dims = table.shape[1]
    for text in range(len(ends) - 1):
        start, count = ends[text], ends[text + 1] - ends[text]
        windows = -(-count // window)
        totals[:] = 0
        for number in range(windows):
            first, last = start + count * number // windows, start + count * (number + 1) // windows
            sums[:] = 0
            for place in range(first, last):
                row = table[ids[place]]
                for dim in range(dims):
                    sums[dim] += row[dim]
            for dim in range(dims):
                totals[dim] += sums[dim]
                mean = np.int64(sums[dim]) * UNITS // (last - first)
                if number == 0 or mean > features[text, dims + dim]:
                    features[text, dims + dim] = mean
                if number == 0 or mean < features[text, 2 * dims + dim]:
                    features[text, 2 * dims + dim] = mean
        for dim in range(dims if count else 0):
            features[text, dim] = totals[dim] * UNITS // count


def pooled(
    ids: NDArray[np.uint32], ends: NDArray[np.int64], table: NDArray[np.int8], window: int
) -> NDArray[np.int32]:
    """Return the features of documents, (n, 3 * dims), in 1/UNITS of a unit of the embeddings, rounded down.

    They are the mean of all tokens, and the largest and the smallest mean of a window in each dimension; 0 for a
    document without tokens. The windows of a document are as few and as equal as possible.

    Args:
        ids: the token ids of all documents, (t,).
        ends: the end of each document in `ids`, (n + 1,), with a first 0.
        table: the embeddings of tokens, (vocabulary, dims).
        window: the most tokens of a window, at most MOST_IN_WINDOW.

    Raises ValueError for an id outside the table, and for a longer window.
    """
    if len(ids) and ids.max() >= len(table):
        raise ValueError(f"token {ids.max()}: expected ids below {len(table)}")
    if not 0 < window <= MOST_IN_WINDOW:
        raise ValueError(f"window: expected 1 to {MOST_IN_WINDOW} tokens, got {window}")
    dims = table.shape[1]
    features = np.zeros((len(ends) - 1, 3 * dims), np.int32)
    _pool(ids, ends, table, window, np.empty(dims, np.int16), np.empty(dims, np.int64), features)
    return features
