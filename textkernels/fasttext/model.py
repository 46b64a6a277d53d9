"""What a model of fastText is made of, as the compiled kernels take it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HIERARCHICAL, NEGATIVE, SOFTMAX, ONE_VS_ALL = 1, 2, 3, 4  # losses, as files number them
NOT_PRUNED = -1


class Settings(NamedTuple):
    """Numbers that say how a text becomes rows of the input matrix."""

    dim: int  # columns of both matrices
    words: int  # in the dictionary; entries from there on are labels
    shortest: int  # n-grams of characters, at least this long
    longest: int  # and at most; none where it is 0
    word_ngrams: int  # n-grams of words are at most this long
    buckets: int  # for hashes of n-grams
    pruned: int  # how many buckets have a row, or NOT_PRUNED where all have
    loss: int


class Words(NamedTuple):
    """The dictionary: entry i is the bytes from starts[i] to ends[i]; slots are a table as `hashing` says.

    Where it is pruned, kept has for each 64 buckets a bit for each that has a row, and how many of those before do;
    and kept_rows their rows, counted from the one after the words.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    slots: NDArray[np.uint64]
    kept: NDArray[np.uint64]  # (buckets // 64 + 1, 2)
    kept_rows: NDArray[np.int32]


class Matrix(NamedTuple):
    """The input matrix: rows of numbers, or product-quantised (Jegou, Douze and Schmid, 2011).

    A row that is quantised has a code for each of its pieces, a place among the 256 centroids of the piece, and
    with `norms` one more by which all are multiplied.
    """

    numbers: NDArray[np.uint8]  # the rows' float32 as bytes, which need not be aligned; or empty
    codes: NDArray[np.uint8]  # (rows * pieces,)
    centroids: NDArray[np.float32]  # (256 * dim,): those of the first piece, then of the next
    norm_codes: NDArray[np.uint8]  # (rows,) or empty
    norms: NDArray[np.float32]  # (256,) or empty
    width: int  # columns of a piece; the last one may have fewer
    pieces: int


@dataclass(frozen=True)
class Model:
    """A supervised model of fastText.

    labels: without `__label__`; `textkernels.fasttext.prediction.best` gives places in it.
    output: (labels, dim) float32, for hierarchical softmax of the inner nodes of the tree.
    children: (labels - 1, 2) int32, of the inner nodes of the tree for hierarchical softmax, else (0, 2). Node i
    is a label where i is below their number, else the inner node i minus that number; the last one is the root.
    """

    labels: tuple[str, ...]
    settings: Settings
    words: Words
    matrix: Matrix
    output: NDArray[np.float32]
    children: NDArray[np.int32]
