"""Vectors of documents in the form of Luxical: n-grams of token ids, weighted by TF-IDF, ReLU, and a dense layer.

The form is that of Luxical (github.com/datologyai/luxical) with one hidden layer: 192 numbers of 8 bits, whose
cosines are like those of the encoder of sentences from which the vectors were distilled. As there, no layer has
biases, so the length of a document scales all numbers and is divided out at the end.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.quality.encoder_files import Fault
from zyda_flows.tasks.quality.integer_layers import expect
from zyda_flows.tasks.quality.text_vectors import of_length_unit
from zyda_flows.tasks.tokens.engine import TokenIds
from zyda_flows.textkernels.ngrams import Vocabulary, ngram_sums, vocabulary_of

DIMS = 192  # of a vector
MOST_NGRAMS, MOST_HIDDEN = 1 << 22, 1024
HIDDEN_BITS = 15  # of the numbers of the hidden layer
LARGEST = 127
NAMES = ("ngrams", "idf", "rows", "dense")


class NgramVectors(NamedTuple):
    """A model of vectors: the n-grams, their idf and rows of the first layer, and the second layer, as float64."""

    vocabulary: Vocabulary
    idf: NDArray[np.uint8]
    rows: NDArray[np.int8]
    dense: NDArray[np.float64]

    @classmethod
    def of(cls, tensors: dict[str, NDArray[Any]]) -> "NgramVectors":
        """Return the model of the tensors NAMES, which are taken out of `tensors`. Raises Fault."""
        empty = np.empty((0, 0))
        ngrams, idf, rows, dense = (tensors.pop(name, empty) for name in NAMES)
        if not len(ngrams) <= MOST_NGRAMS or not rows.shape[-1] <= MOST_HIDDEN:
            raise Fault(f"expected at most {MOST_NGRAMS:,} n-grams, and {MOST_HIDDEN:,} hidden numbers")
        expect("ngrams", ngrams, np.uint64, (len(ngrams),))
        expect("idf", idf, np.uint8, (len(ngrams),))
        expect("rows", rows, np.int8, (len(ngrams), rows.shape[-1]))
        expect("dense", dense, np.int16, (DIMS, rows.shape[1]))
        if len(np.unique(ngrams)) < len(ngrams):
            raise Fault("ngrams: two n-grams are equal")
        return cls(vocabulary_of(ngrams), idf, rows, dense.astype(np.float64))

    def vectors(self, tokens: TokenIds) -> NDArray[np.int8]:
        """Return the vectors of documents: (n, DIMS), with LARGEST as the largest number of each.

        A document without a known n-gram has a vector of zeros. Divide by the lengths for cosines.
        """
        sums = ngram_sums(tokens.ids, tokens.ends, self.vocabulary, self.idf, self.rows)
        hidden = np.rint(scaled(np.maximum(sums, 0).astype(np.float64)) * (1 << HIDDEN_BITS))
        # Products of whole numbers, whose sums float64 represents exactly.
        return np.rint(scaled(hidden @ self.dense.T) * LARGEST).astype(np.int8)

    def features(self, tokens: TokenIds) -> NDArray[np.int32]:
        """Return the vectors with the length UNIT, rounded: (n, DIMS)."""
        return of_length_unit(self.vectors(tokens))


def scaled(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide each row by its largest absolute number."""
    return numbers / np.maximum(1, np.abs(numbers).max(axis=1, initial=0, keepdims=True))
