"""Compare the answers of a judge with scores: rank correlation, AUC, a curve, and the noise of repeats."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

BINS = 10  # of a curve
MOST_REPEATS = 10
# The quantile 0.975 of Student's t for 1 to 9 degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


class Bin(NamedTuple):
    """Documents with similar answers: their number, their mean answer, and their mean score."""

    documents: int
    answer: float
    score: float


class Range(NamedTuple):
    """The mean of repeats, and the range in which a further repeat is expected with a probability of 95 %.

    The range is Student's prediction interval, up to the largest correlation; it is infinite for a single repeat.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], least: float = -1.0) -> "Range":
        """Return the range of repeats. least: the smallest value that the measure can have."""
        if len(values) < 2:
            return cls(values[0], -np.inf, np.inf)
        half = STUDENT[len(values) - 2] * stdev(values) * (1 + 1 / len(values)) ** 0.5
        return cls(fmean(values), max(least, fmean(values) - half), min(1.0, fmean(values) + half))


def ranks(values: Numbers) -> Numbers:
    """Return the rank of each value from 1, equal values with their mean rank: (n,)."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def spearman(answers: Numbers, scores: Numbers) -> float:
    """Return Spearman's rank correlation; 0 if all values of either are equal."""
    first, second = (ranked - ranked.mean() for ranked in (ranks(answers), ranks(scores)))
    size = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / size if size else 0.0


def auc(answers: Numbers, is_high: NDArray[np.bool_]) -> float:
    """Return the probability that a document of `is_high` has a higher answer than another (Mann and Whitney)."""
    high, low = int(is_high.sum()), int((~is_high).sum())
    return float(ranks(answers)[is_high].sum() - high * (high + 1) / 2) / max(1, high * low)


def is_high(scores: Numbers) -> NDArray[np.bool_]:
    """Return which scores are above the median, or equal to it if that halves them more evenly."""
    above, from_it = scores > np.median(scores), scores >= np.median(scores)
    return above if abs(above.mean() - 0.5) <= abs(from_it.mean() - 0.5) else from_it


def curve(answers: Numbers, scores: Numbers) -> list[Bin]:
    """Return at most BINS bins of equally many documents, in the order of their answers."""
    order = np.argsort(answers, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    return [Bin(len(part), float(answers[part].mean()), float(scores[part].mean())) for part in parts]


class Figures(NamedTuple):
    """An answer of a judge, compared with a target, or with a label of it.

    answer: "score", or the label whose probability it is.
    """

    answer: str
    target: str
    label: str
    spearman: float
    auc: float
    curve: list[Bin]


class Result(NamedTuple):
    """The comparison of the written model, and the ranges of all repeats."""

    model: Figures
    spearman: Range
    auc: Range

    @classmethod
    def of_repeats(cls, repeats: Sequence[Sequence[Figures]]) -> "list[Result]":
        """Return a result for each comparison. repeats: the comparisons of each, in the same order."""
        return [
            cls(
                every[0],
                Range.of([one.spearman for one in every]),
                Range.of([one.auc for one in every], least=0.0),
            )
            for every in zip(*repeats, strict=True)
        ]


def compared(answer: str, answers: Numbers, target: str, label: str, scores: Numbers) -> Figures:
    """Compare the answers for documents with their scores, or with 0 and 1 for documents of a label."""
    high = scores == 1 if label else is_high(scores)
    return Figures(
        answer, target, label, spearman(answers, scores), auc(answers, high), curve(answers, scores)
    )
