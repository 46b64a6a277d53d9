"""Intervals of shares that are estimated from a sample."""

from math import sqrt

Z_95 = 1.959964  # standard errors of a 95 % interval


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; it is within 0 and 1 for all counts.

    The formula is that of E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22 (1927), pages 209 to 212.
    """
    share, size = successes / trials, Z_95 * Z_95 / trials
    middle = (share + size / 2) / (1 + size)
    half = Z_95 * sqrt(share * (1 - share) / trials + size / (4 * trials)) / (1 + size)
    return max(0.0, middle - half), min(1.0, middle + half)
