"""Banding: the probability that a pair shares a bucket, and the bands and rows that suit a threshold.

Two documents with the Jaccard similarity s agree in a value of their signatures with probability s, in all rows of
a band with s^r, and in at least one of b bands with 1 - (1 - s^r)^b: the S-curve. For pairs whose similarities are
uniform from 0 to 1, and a threshold t, the error rates of LSH are

    false positives   the integral of 1 - (1 - s^r)^b  from 0 to t: candidates below the threshold
    false negatives   the integral of     (1 - s^r)^b  from t to 1: pairs above it that are no candidates

(Zhu et al., "LSH Ensemble", VLDB 2016; Zyda-1 chose its parameters by them).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.kinds import half_found

DEGREE = 1024  # of the polynomial at most: signatures have no more values
MOST_BANDS = 256


@lru_cache(maxsize=1)
def nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the nodes and weights of Gauss-Legendre on 0 to 1, exact for polynomials of DEGREE: both (k,)."""
    places, weights = np.polynomial.legendre.leggauss(DEGREE // 2 + 1)
    return (places + 1) / 2, weights / 2


@dataclass(frozen=True)
class Banding:
    """Bands of rows, and the threshold by which they should separate pairs."""

    bands: int
    rows: int
    threshold: float

    def find_probability(self, similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability that a pair of a similarity shares a bucket: (n,) to (n,)."""
        return 1 - (1 - similarity**self.rows) ** self.bands

    @cached_property
    def false_positives(self) -> float:
        places, weights = nodes()
        return float(self.threshold * (weights @ self.find_probability(self.threshold * places)))

    @cached_property
    def false_negatives(self) -> float:
        places, weights = nodes()
        above = 1 - self.threshold
        return float(above * (weights @ (1 - self.find_probability(self.threshold + above * places))))

    @property
    def recall(self) -> float:
        """The share of the pairs above the threshold that become candidates."""
        return 1 - self.false_negatives / (1 - self.threshold)

    def errors(self, positive: float = 1, negative: float = 1) -> float:
        """Return the sum of false positives and false negatives, weighted."""
        return positive * self.false_positives + negative * self.false_negatives

    @property
    def half(self) -> float:
        """The similarity at which half of the pairs become candidates."""
        return half_found(self.bands, self.rows)


def bandings(threshold: float, values: int, positive: float = 1, negative: float = 1) -> list[Banding]:
    """Return the best number of bands for each number of rows, sorted by their errors.

    More bands of the same rows have fewer false negatives and more false positives, so not all values may be used.
    positive, negative: the weights of a false positive and a false negative.
    """

    def errors(banding: Banding) -> float:
        return banding.errors(positive, negative)

    best = [
        min(
            (Banding(bands, rows, threshold) for bands in range(1, min(MOST_BANDS, values // rows) + 1)),
            key=errors,
        )
        for rows in range(1, values + 1)
    ]
    return sorted((b for b in best if b.bands * b.rows > 1), key=errors)
