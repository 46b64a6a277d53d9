"""The decision rule equals SciPy's test and statsmodels' definition of Holm, and keeps its rate of false claims."""

import numpy as np
import pytest
from scipy import stats

from zyda_flows.tasks.ablation.decision import agreed_claims, compare


def test_a_single_comparison_is_welchs_test():
    baseline, other = [1.0, 1.2, 0.9, 1.1], [1.3, 1.5, 1.35]
    (found,) = compare("held_out", baseline, {"other": other}, 0.05)
    expected = stats.ttest_ind(other, baseline, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high, found.p) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert found.is_claimed == (expected.pvalue < 0.05)
    assert not found.is_better
    assert compare("accuracy", baseline, {"other": other}, 0.05)[0].is_better


def test_claims_are_corrected_over_the_comparisons():
    chance = np.random.default_rng(1)
    baseline = chance.normal(size=5)
    variants = {f"v{i}": chance.normal(shift, size=5) for i, shift in enumerate([0, 1.5, 2, 2.5, 3, 6])}
    for alpha in (0.01, 0.05, 0.2):
        found = compare("held_out", baseline, variants, alpha)
        ps = [stats.ttest_ind(runs, baseline, equal_var=False).pvalue for runs in variants.values()]
        order = np.argsort(ps)
        claimed = set()
        for rank, place in enumerate(order):  # Holm (1979)
            if ps[place] >= alpha / (len(ps) - rank):
                break
            claimed.add(place)
        assert [each.is_claimed for each in found] == [place in claimed for place in range(6)]
        assert [each.variant for each in found] == [*variants]
        for each in found:
            assert each.is_claimed == (each.low > 0 or each.high < 0)
            assert each.is_claimed == (each.p < alpha)


def test_the_rate_of_false_claims_of_all_comparisons():
    chance, claims, count = np.random.default_rng(2), 0, 2000
    for _ in range(count):
        runs = chance.normal(size=(5, 4)) * [[1], [1], [3], [1], [0.3]]
        found = compare("held_out", runs[0], {str(i): runs[i] for i in range(1, 5)}, 0.1)
        claims += any(each.is_claimed for each in found)
    assert claims / count <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / count)


def test_smallest_difference_is_claimed_in_four_of_five_experiments():
    chance, claims, sizes = np.random.default_rng(3), 0, []
    for _ in range(2000):
        runs = chance.normal(size=(2, 5))
        sizes.append(compare("held_out", runs[0], {"v": runs[1]}, 0.05)[0].smallest)
    for _ in range(2000):
        runs = chance.normal(size=(2, 5)) + [[0], [np.mean(sizes)]]
        claims += compare("held_out", runs[0], {"v": runs[1]}, 0.05)[0].is_claimed
    assert claims / 2000 == pytest.approx(0.8, abs=0.04)


def test_equal_runs_claim_nothing():
    (found,) = compare("accuracy", [0.5, 0.5], {"other": [0.6, 0.6]}, 0.05)
    assert not found.is_claimed


def test_a_claim_about_a_task_needs_the_same_sign_at_two_sizes():
    low, high = [1.0, 1.01, 0.99], [2.0, 2.01, 1.99]
    up, down = compare("gold:a", low, {"v": high}, 0.05), compare("gold:a", high, {"v": low}, 0.05)
    none = compare("gold:a", low, {"v": low}, 0.05)
    assert agreed_claims([up, up]) == up
    assert agreed_claims([up, down]) == agreed_claims([up, none]) == agreed_claims([up]) == []
