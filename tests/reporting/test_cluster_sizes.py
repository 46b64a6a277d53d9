"""Test the sizes of clusters: a plot of many sizes, a table of few sizes."""

from types import SimpleNamespace

import numpy as np
import pytest

from zyda_flows.flows.reporting.cluster_plots import cluster_sizes, few_sizes

LEDGER = SimpleNamespace(sources=("a", "b"), lines=(), stages=("ingest",))


def stats_of(**sizes):
    return SimpleNamespace(
        sizes={
            name: (np.array([*clusters_by_size]), np.array([*clusters_by_size.values()]))
            for name, clusters_by_size in sizes.items()
        }
    )


@pytest.fixture
def ledger(monkeypatch):
    monkeypatch.setattr(
        "zyda_flows.flows.reporting.cluster_plots.groups", lambda _: {"a": ("a",), "b": ("b",)}
    )
    return LEDGER


def test_few_sizes_are_shown_as_a_table(ledger):
    stats = stats_of(a={2: 5, 3: 1}, b={2: 1200})
    assert few_sizes(ledger, stats) == [
        ["documents of the source in a cluster", "a", "b"],
        ["2", "5", "1,200"],
        ["3", "1", "0"],
    ]


def test_many_sizes_are_shown_as_a_plot(ledger):
    stats = stats_of(a={size: 100 - size for size in range(2, 20)})
    assert few_sizes(ledger, stats) == []
    assert cluster_sizes(ledger, stats).startswith("<svg")
