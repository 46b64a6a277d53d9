"""Banding: how often pairs of a similarity share a bucket, and which bands and rows suit a threshold.

A pair of documents with the Jaccard similarity s agrees in a value of their signatures with probability s,
in all rows of a band with s^r, and in one band of b or more with 1 - (1 - s^r)^b: the S-curve. Of pairs
whose similarities are spread evenly from 0 to 1, with a threshold t,

    false positives   the integral of 1 - (1 - s^r)^b  from 0 to t: found, and below the threshold
    false negatives   the integral of     (1 - s^r)^b  from t to 1: above it, and not found

are the shares by which LSH errs (Zhu et al., "LSH Ensemble", VLDB 2016; the parameters of
Zyda-1 were chosen so).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.kinds import half_found

DEGREE = 1024  # of the polynomial at the most: signatures have no more values
MOST_BANDS = 256


@lru_cache(maxsize=1)
def nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the nodes and weights of Gauss and Legendre on 0 to 1, exact for polynomials of DEGREE: both (k,)."""
    places, weights = np.polynomial.legendre.leggauss(DEGREE // 2 + 1)
    return (places + 1) / 2, weights / 2


@dataclass(frozen=True)
class Banding:
    """Bands of rows, and a threshold that they are to tell pairs by."""

    bands: int
    rows: int
    threshold: float

    def found(self, similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how probable it is that a pair of a similarity shares a bucket: (n,) to (n,)."""
        return 1 - (1 - similarity**self.rows) ** self.bands

    @cached_property
    def false_positives(self) -> float:
        places, weights = nodes()
        return float(self.threshold * (weights @ self.found(self.threshold * places)))

    @cached_property
    def false_negatives(self) -> float:
        places, weights = nodes()
        above = 1 - self.threshold
        return float(above * (weights @ (1 - self.found(self.threshold + above * places))))

    @property
    def recall(self) -> float:
        """Of the pairs above the threshold, the share that is found."""
        return 1 - self.false_negatives / (1 - self.threshold)

    def errors(self, positive: float = 1, negative: float = 1) -> float:
        """Return the false positives and false negatives, each so many times."""
        return positive * self.false_positives + negative * self.false_negatives

    @property
    def half(self) -> float:
        """The similarity at which half of the pairs are found."""
        return half_found(self.bands, self.rows)


def bandings(threshold: float, values: int, positive: float = 1, negative: float = 1) -> list[Banding]:
    """Return the best bands for each number of rows, those with the fewest errors first.

    Of more bands of as many rows the false negatives are fewer and the false positives more, so that not
    all of the values may be wanted. positive, negative: what a false positive and a false negative weigh.
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
