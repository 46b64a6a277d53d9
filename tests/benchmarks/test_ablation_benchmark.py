"""The rate of false claims, as the benchmark of ablations computes it."""

import numpy as np
import pytest

from benchmarks import ablation


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(ablation, "SPLITS", 300)
    monkeypatch.setattr(ablation, "WORLDS", 20)


def test_the_rate_of_normal_values_is_the_stated_one():
    row = ablation.false_claims(np.random.default_rng(3).normal(size=24), 4)
    assert row["bootstrap of the runs, from"] <= row["stated rate"] <= row["to "]
    assert row["block bootstrap, from"] <= row["rate of false claims"] <= row["to"]


def test_values_that_depend_on_their_group_are_claimed():
    values = np.array([1.0, 1.001, 0.999, 1.002, 9.0, 9.001, 8.999, 9.002])
    shares = ablation.claims_of(values, 4, 400, np.random.default_rng(0))
    assert shares.mean() == pytest.approx(2 / 70, abs=0.025)  # two of 70 splits divide the values by size
