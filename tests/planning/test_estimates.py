"""Test estimates with ranges: each range contains the true value as often as stated, and is not wider."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyda_flows.tasks.planning.estimates import exactly, ratio_estimate

positive = st.floats(1, 1e6)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20))
def test_estimate_of_completely_read_parts_is_exact(parts):
    sizes, counts = zip(*parts, strict=True)
    estimate = ratio_estimate(sizes, counts, sum(sizes))
    assert estimate.value == pytest.approx(sum(counts))
    assert estimate.low == pytest.approx(estimate.high)


@given(st.lists(positive, min_size=2, max_size=20), st.floats(0.1, 10), st.floats(1.5, 100))
def test_equal_ratios_give_a_narrow_range(sizes, ratio, times):
    whole = sum(sizes) * times
    estimate = ratio_estimate(sizes, [size * ratio for size in sizes], whole)
    assert estimate.value == pytest.approx(ratio * whole)
    assert estimate.high - estimate.low <= 1e-3 * estimate.value


@pytest.mark.parametrize("parts", [2, 6, 16])
def test_range_contains_the_true_value_at_the_stated_rate(parts):
    """1,000 random samples of 400 files with documents of different lengths; 90 % to 99 % of the ranges match."""
    chance, contained = np.random.default_rng(7), 0
    for _ in range(1000):
        sizes = chance.uniform(50, 150, 400)
        counts = sizes * chance.lognormal(0, 0.3, 400)
        chosen = chance.choice(400, parts, replace=False)
        contained += ratio_estimate(sizes[chosen], counts[chosen], sizes.sum()).holds(counts.sum())
    assert 900 <= contained <= 990


def test_single_part_gives_a_wide_range_and_no_parts_give_zero():
    guess = ratio_estimate([10.0], [5.0], 100.0)
    assert (guess.value, guess.holds(40), guess.holds(60)) == (50.0, True, True)
    assert ratio_estimate([], [], 0.0) == exactly(0.0)


def test_independent_errors_partly_cancel_out():
    estimate = ratio_estimate([10.0], [5.0], 100.0)
    both = estimate + estimate
    assert both.value == 100.0
    assert both.high - both.low == pytest.approx((estimate.high - estimate.low) * 2**0.5)
