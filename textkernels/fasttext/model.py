"""The parts of a fastText model, in the form that the compiled kernels take."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HIERARCHICAL, NEGATIVE, SOFTMAX, ONE_VS_ALL = 1, 2, 3, 4  # numbers of the losses in files
NOT_PRUNED = -1


NO_BYTES, NO_NUMBERS = np.empty(0, np.uint8), np.empty(0, np.float32)
for _array in (NO_BYTES, NO_NUMBERS):
    _array.flags.writeable = False


class Settings(NamedTuple):
    """Numbers that determine the rows of the input matrix for a text."""

    dim: int  # columns of the input matrix
    words: int  # number of words in the dictionary; the entries after them are labels
    shortest: int  # n-grams of characters, at least this long
    longest: int  # and at most; 0: no n-grams of characters
    word_ngrams: int  # n-grams of words are at most this long
    buckets: int  # for hashes of n-grams
    pruned: int  # number of buckets that have a row, or NOT_PRUNED if all have
    loss: int


class Words(NamedTuple):
    """The dictionary: slots is a table as in `hashing`, with the number of each word plus 1; data has the words.

    If the dictionary is pruned, kept has two numbers for each 64 buckets: a bit for each bucket that has a row, and
    the number of rows before. kept_rows has the rows of these buckets, counted from the row after the words.
    """

    data: NDArray[np.uint8]
    slots: NDArray[np.int64]
    kept: NDArray[np.uint64]  # (buckets // 64 + 1, 2)
    kept_rows: NDArray[np.int32]


class Matrix(NamedTuple):
    """The input matrix: rows of numbers, or product-quantised (Jegou, Douze and Schmid, 2011).

    A quantised row has a code for each of its pieces: an index into the 256 centroids of the piece. With `norms`,
    it has another code for a factor of the whole row.
    """

    numbers: NDArray[np.uint8]  # the rows' float32 as bytes, possibly unaligned; or empty
    codes: NDArray[np.uint8]  # (rows * pieces,)
    centroids: NDArray[np.float32]  # (256 * dim,): centroids of the first piece, then of the next
    norm_codes: NDArray[np.uint8]  # (rows,) or empty
    norms: NDArray[np.float32]  # (256,) or empty
    width: int  # columns of a piece; the last piece may have fewer
    pieces: int


@dataclass(frozen=True)
class FasttextModel:
    """A supervised model of fastText.

    labels: without `__label__`; `textkernels.fasttext.prediction.predict` returns indices into it.
    output: (labels, dim) float32; with hierarchical softmax, the rows of the tree's inner nodes. (0, 0) if the rows
    of the input matrix are multiplied by it already: then column i of a sum of rows is its product with row i.
    children: (labels - 1, 2) int32, of the inner nodes of the tree for hierarchical softmax, else (0, 2). Node i is
    label i if i is less than the number of labels, else inner node i minus that number. The last node is the root.
    """

    labels: tuple[str, ...]
    settings: Settings
    words: Words
    matrix: Matrix
    output: NDArray[np.float32]
    children: NDArray[np.int32]

    @property
    def type_of_sums(self) -> type[np.float32 | np.float64]:
        """The type of sums of rows. Sums of products have few columns, so float64 costs no time."""
        return np.float32 if self.output.size else np.float64
