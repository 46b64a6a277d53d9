"""The decision rule: Welch's t interval of the difference of means, corrected by Holm over the comparisons."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from zyda_flows.tasks.storage.records import Record

POWER = 0.8
LOWER_IS_BETTER = ("held_out", "source:", "file:", "gold")


class VariantComparison(Record):
    """A comparison of a variant with the baseline.

    mean, baseline: the means of the measure. difference: of the means. low, high: its interval. smallest: the
    smallest true difference that is claimed with probability POWER at this noise: Bloom's minimum detectable
    effect (1995). p: corrected by Holm.
    """

    variant: str
    measure: str
    mean: float
    baseline: float
    runs: tuple[int, int]
    difference: float
    low: float
    high: float
    smallest: float
    p: float
    is_claimed: bool

    @property
    def is_better(self) -> bool:
        return (self.difference < 0) == self.measure.startswith(LOWER_IS_BETTER)


def welch(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """Return the difference of the means (second minus first), its standard error, and the degrees of freedom."""
    variances = [np.var(values, ddof=1) / len(values) for values in (first, second)]
    total = float(sum(variances))
    difference = float(np.mean(second) - np.mean(first))
    if total == 0:
        return difference, 0.0, math.nan
    pairs = zip(variances, (first, second), strict=True)
    degrees = total**2 / sum(variance**2 / (len(values) - 1) for variance, values in pairs)
    return difference, math.sqrt(total), float(degrees)


def p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value of Welch's t test; 1 if all runs of both are equal: their noise is then unknown."""
    from scipy import stats  # late: of the extra `ablation`

    difference, error, degrees = welch(first, second)
    return float(2 * stats.t.sf(abs(difference) / error, degrees)) if error else 1.0


def compare(
    measure: str, baseline: Sequence[float], variants: Mapping[str, Sequence[float]], alpha: float
) -> list[VariantComparison]:
    """Compare variants with a baseline by a measure, with `alpha` as the rate of false claims of all together.

    The interval of a comparison has the level at which Holm's procedure tests it, so that a difference is claimed
    exactly if the interval does not contain 0.
    """
    values = {name: p_value(baseline, runs) for name, runs in variants.items()}
    comparisons, is_open, level, corrected = dict[str, VariantComparison](), True, alpha, 0.0
    for rank, name in enumerate(sorted(values, key=lambda name: values[name])):
        if is_open:
            level = alpha / (len(values) - rank)
            is_open = values[name] < level
        corrected = max(corrected, min(1.0, values[name] * (len(values) - rank)))
        comparisons[name] = comparison(
            measure, name, baseline, variants[name], level, corrected, is_claimed=is_open
        )
    return [comparisons[name] for name in variants]


def comparison(
    measure: str,
    name: str,
    baseline: Sequence[float],
    runs: Sequence[float],
    level: float,
    corrected: float,
    *,
    is_claimed: bool,
) -> VariantComparison:
    from scipy import stats  # late

    difference, error, degrees = welch(baseline, runs)
    half, power = (float(stats.t.ppf(q, degrees)) * error if error else 0.0 for q in (1 - level / 2, POWER))
    return VariantComparison(
        variant=name, measure=measure, mean=float(np.mean(runs)), baseline=float(np.mean(baseline)),
        runs=(len(baseline), len(runs)), difference=difference, low=difference - half, high=difference + half,
        smallest=half + power, p=corrected, is_claimed=is_claimed,
    )  # fmt: skip


def agreed_claims(sizes: Sequence[Sequence[VariantComparison]]) -> list[VariantComparison]:
    """Return the claims of the first size that the second size also claims, with the same sign."""
    if len(sizes) < 2:
        return []
    second = {(each.variant, each.measure): each for each in sizes[1] if each.is_claimed}
    return [
        each
        for each in sizes[0]
        if each.is_claimed
        and (other := second.get((each.variant, each.measure))) is not None
        and (other.difference < 0) == (each.difference < 0)
    ]
