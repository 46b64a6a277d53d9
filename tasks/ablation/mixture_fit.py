"""Fit the measures of many mixtures, and propose the mixture with the best predicted mean.

Each measure is modelled as `exp(c) + exp(t . w)`, with the shares `w` of the parts: the log-linear law of Data
Mixing Laws (arXiv 2403.16952) and of Olmix (arXiv 2602.12237). The loss is soft L1, because single runs of mixtures
with hardly any of a part may fail. The proposal minimises the mean of all predictions, plus NEAR times the
Kullback-Leibler divergence from the natural shares. No part is repeated more often than a limit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import least_squares, minimize

from zyda_flows.tasks.ablation.records import Trainings
from zyda_flows.tasks.storage.records import Record

Numbers = NDArray[np.float64]
NEAR = 0.1  # weight of the divergence, in units of the measures: Olmix's default
STARTS = (0.1, 0.5, 0.9)  # the constant of a fit begins at these shares of the smallest value
SMALLEST = 1e-9  # a share in the search
RESAMPLES, FOLDS = 200, 5


@dataclass(frozen=True)
class LogLinear:
    """The fit of a measure. constant: c. slopes: t, (parts,)."""

    constant: float
    slopes: Numbers

    def __call__(self, shares: Numbers) -> Numbers:
        """Predict the measure of mixtures: (n, parts) to (n,), or (parts,) to a number."""
        return np.exp(self.constant) + np.exp(np.clip(shares @ self.slopes, -50, 50))


class Proposal(Record):
    """The proposed mixture.

    shares, natural: by part. gain: the predicted decrease of the mean measure from the natural shares, less the
    mean excess of a prediction for the mixture that the same runs chose. low, high: its interval of 95 %. Both
    are from resampled runs (basic bootstrap). means: the mean of the measures of each run, as predicted without
    this run and as measured. rank_correlation: of both. runs: mixtures. trainings: None for the tables of others.
    """

    shares: dict[str, float]
    natural: dict[str, float]
    gain: float
    low: float
    high: float
    means: tuple[tuple[float, float], ...]
    rank_correlation: float
    runs: int
    measures: tuple[str, ...]
    trainings: Trainings | None = None


def fit(shares: Numbers, values: Numbers, start: LogLinear | None = None) -> LogLinear:
    """Fit a measure of mixtures. shares: (n, parts). values: (n,), above 0. start: where the search begins."""
    scale, smallest = float(values.std()) or 1.0, max(float(values.min()), 1e-6)

    def both(parameters: Numbers) -> tuple[Numbers, Numbers]:
        return np.exp(parameters[:1]), np.exp(np.clip(shares @ parameters[1:], -50, 50))

    def residuals(parameters: Numbers) -> Numbers:
        constant, rest = both(parameters)
        return (constant + rest - values) / scale

    def jacobian(parameters: Numbers) -> Numbers:
        constant, rest = both(parameters)
        return np.column_stack([np.full(len(values), constant), rest[:, None] * shares]) / scale

    def starts() -> Iterator[Numbers]:
        if start is not None:
            yield np.r_[start.constant, start.slopes]
            return
        for share in STARTS:
            logs = np.log(np.maximum(values - share * smallest, 1e-3 * smallest))
            yield np.r_[np.log(share * smallest), np.linalg.lstsq(shares, logs, rcond=None)[0]]

    results = [least_squares(residuals, first, jac=jacobian, loss="soft_l1") for first in starts()]
    best = min(results, key=lambda result: result.cost).x
    return LogLinear(float(best[0]), best[1:])


def mean_of(models: Sequence[LogLinear], shares: Numbers) -> Numbers:
    """Predict the mean of all measures: (n, parts) to (n,), or (parts,) to a number."""
    return np.asarray(np.mean([model(shares) for model in models], axis=0))


def best_shares(models: Sequence[LogLinear], natural: Numbers, most: Numbers, near: float = NEAR) -> Numbers:
    """Return the shares of the best mixture: (parts,), with the sum 1.

    Args:
        models: The fits of the measures.
        natural: The natural shares, (parts,), above 0.
        most: The largest share of each part, (parts,).
        near: The weight of the divergence from the natural shares.

    The objective is convex, so the search has a single minimum.
    """
    constants = np.exp([model.constant for model in models])
    slopes = np.stack([model.slopes for model in models])

    def objective(shares: Numbers) -> tuple[float, Numbers]:
        rest = np.exp(np.clip(slopes @ shares, -50, 50))
        logs = np.log(np.maximum(shares, SMALLEST) / natural)
        gradient = (rest[:, None] * slopes).mean(axis=0) + near * (logs + 1)
        return float((constants + rest).mean() + near * (shares @ logs)), gradient

    first = np.minimum(natural, most)
    first = first + (most - first) * (1 - first.sum()) / max(1e-12, float((most - first).sum()))
    result = minimize(
        objective, first, jac=True, method="SLSQP", options={"maxiter": 1000, "ftol": 1e-12},
        bounds=[(SMALLEST, max(SMALLEST, each)) for each in most],
        constraints={"type": "eq", "fun": lambda shares: shares.sum() - 1, "jac": np.ones_like},
    )  # fmt: skip
    found = np.where(result.x > 10 * SMALLEST, result.x, 0.0)
    return np.asarray(found / found.sum())


def propose(
    parts: Sequence[str], shares: Numbers, values: dict[str, Numbers], natural: Numbers, most: Numbers
) -> Proposal:
    """Propose a mixture from the measures of others.

    Args:
        parts: The names of the parts.
        shares: The shares of the mixtures, (n, parts).
        values: Each measure of the mixtures, (n,); smaller values are better.
        natural: The natural shares, (parts,).
        most: The largest share of each part, (parts,).
    """
    table = np.stack([*values.values()], axis=1)
    models = fits(shares, table)
    best = best_shares(models, natural, most)

    def gain(models: Sequence[LogLinear], shares: Numbers) -> float:
        return float(mean_of(models, natural) - mean_of(models, shares))

    chance, excess = np.random.default_rng(0), list[float]()
    for _ in range(RESAMPLES):
        rows = chance.integers(0, len(shares), len(shares))
        resampled = fits(shares[rows], table[rows], models)
        chosen = best_shares(resampled, natural, most)
        excess.append(gain(resampled, chosen) - gain(models, chosen))
    predicted = gain(models, best)
    left_out = predictions(shares, table)
    high, low = (predicted - np.quantile(excess, [0.025, 0.975])).tolist()
    return Proposal(
        shares=dict(zip(parts, best.tolist(), strict=True)),
        natural=dict(zip(parts, natural.tolist(), strict=True)),
        gain=predicted - float(np.mean(excess)), low=low, high=high,
        means=tuple(map(tuple, left_out.tolist())), rank_correlation=rank_correlation(left_out),
        runs=len(shares), measures=tuple(values),
    )  # fmt: skip


def fits(shares: Numbers, table: Numbers, starts: Sequence[LogLinear] = ()) -> list[LogLinear]:
    """Fit each measure. table: (n, measures). starts: of each measure."""
    return [fit(shares, values, start) for values, start in zip_longest(table.T, starts)]


def predictions(shares: Numbers, table: Numbers) -> Numbers:
    """Return the mean of each run as predicted by fits without it, in FOLDS folds, and as measured: (n, 2)."""
    fold, predicted = np.random.default_rng(0).permutation(len(shares)) % FOLDS, np.zeros(len(shares))
    for number in range(FOLDS):
        is_out = fold == number
        predicted[is_out] = mean_of(fits(shares[~is_out], table[~is_out]), shares[is_out])
    return np.column_stack([predicted, table.mean(axis=1)])


def rank_correlation(means: Numbers) -> float:
    """Return Spearman's correlation of `predictions`; 0 if all are equal."""
    found = float(stats.spearmanr(means[:, 0], means[:, 1]).statistic)
    return found if np.isfinite(found) else 0.0
