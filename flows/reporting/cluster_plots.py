"""The report's plots about clusters and rules, as SVG elements for a page."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zyda_flows.flows.reporting.plots import (
    DRAWN,
    IN_A_FIELD,
    axes,
    by_powers_of_ten,
    colours_of,
    groups,
    short,
    svg,
)
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.lookup.cluster_stats import ClusterStats
from zyda_flows.tasks.lookup.report_findings import Findings

MOST_SIZES = 12  # distinct sizes of clusters up to which a table is clearer than a plot
ABBREVIATED_FROM = 100_000  # numbers from this on are abbreviated in a field


def cluster_sizes(ledger: Ledger, stats: ClusterStats) -> str:
    """Draw the numbers of clusters by their number of documents of a source, on two logarithmic axes."""
    figure, plot = axes()
    drawn = groups(ledger)
    for (name, members), (_, colour) in zip(drawn.items(), colours_of(drawn), strict=True):
        sizes, counts = add_histograms([stats.sizes[source] for source in members if source in stats.sizes])
        if len(sizes):
            plot.plot(sizes, counts, "o", markersize=4, label=name, color=colour, alpha=0.8)
    by_powers_of_ten(plot.xaxis)
    by_powers_of_ten(plot.yaxis)
    plot.set_xlim(0.8, max(10.0, 1.25 * plot.get_xlim()[1]))
    plot.set_ylim(0.8, max(10.0, plot.get_ylim()[1]))
    plot.set_xlabel("documents of the source in a cluster")
    plot.set_ylabel("clusters")
    plot.legend(frameon=False, fontsize=8)
    return svg(figure)


def few_sizes(ledger: Ledger, stats: ClusterStats) -> list[list[str]]:
    """Return the numbers of clusters by size and source: a row of names, and a row for each size.

    The result is empty if there are more than MOST_SIZES sizes.
    """
    drawn = groups(ledger)
    histograms = {
        name: add_histograms([stats.sizes[source] for source in members if source in stats.sizes])
        for name, members in drawn.items()
    }
    counts = {
        name: dict(zip(sizes.tolist(), clusters.tolist(), strict=True))
        for name, (sizes, clusters) in histograms.items()
    }
    distinct_sizes = sorted({size for clusters_by_size in counts.values() for size in clusters_by_size})
    if len(distinct_sizes) > MOST_SIZES:
        return []
    rows = [[f"{size:,}", *(f"{counts[name].get(size, 0):,}" for name in drawn)] for size in distinct_sizes]
    return [["documents of the source in a cluster", *drawn], *rows]


def add_histograms(
    histograms: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sum of histograms. Each is a pair of distinct sizes and their counts, both (n,)."""
    sizes, counts = (np.concatenate([h[i] for h in histograms] or [np.zeros(0, np.int64)]) for i in (0, 1))
    distinct, places = np.unique(sizes, return_inverse=True)
    return distinct, np.bincount(places, counts, minlength=len(distinct)).astype(np.int64)


def shown_sources(ledger: Ledger, stats: ClusterStats) -> list[int]:
    """Return the places of the sources in the most clusters, at most IN_A_FIELD, in the order of the ledger."""
    clusters = np.diag(stats.shared)
    largest = np.argsort(-clusters, kind="stable")[:IN_A_FIELD]
    return sorted(int(place) for place in largest if clusters[place] or len(ledger.sources) <= DRAWN)


def shared_clusters(ledger: Ledger, stats: ClusterStats) -> str:
    """Draw the numbers of clusters that pairs of sources share."""
    places = shown_sources(ledger, stats)
    names, shared = [ledger.sources[place] for place in places], stats.shared[np.ix_(places, places)]
    shares = 100 * shared / np.maximum(1, np.diag(shared))[:, None]
    written = [
        [f"{number:,}" if number < ABBREVIATED_FROM else short(number) for number in row]
        for row in shared.tolist()
    ]
    return heat_map(names, names, shares, written)


def origins(rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Draw the shares of each row's documents by column, in per cent."""
    matrix = np.array(counts, float)
    shares = 100 * matrix / np.maximum(1, matrix.sum(axis=1, keepdims=True))
    written = [[f"{share:.3g} %" if share else "" for share in row] for row in shares.tolist()]
    return heat_map(rows, columns, shares, written, "source of kept documents", "source of removed documents")


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    shares: NDArray[np.float64],
    written: Sequence[Sequence[str]],
    across: str = "",
    down: str = "",
) -> str:
    """Draw shares as colours, with a text in each field.

    shares: (rows, columns), in per cent. written: the texts. across, down: the titles of the two axes.
    """
    figure, plot = axes(3 + 0.62 * len(columns), 1.6 + 0.4 * len(rows))
    plot.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for i, row in enumerate(written):
        for j, text in enumerate(row):
            colour = "white" if shares[i, j] > 60 else "black"
            plot.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)
    plot.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    plot.set_yticks(range(len(rows)), rows)
    plot.set_xlabel(across)
    plot.set_ylabel(down)
    plot.spines[:].set_visible(False)
    return svg(figure)


def rules(findings: Findings) -> str:
    """Draw the share of each source's documents that a rule removed, and the share that also broke other rules."""
    ledger, taken = findings.ledger, findings.rules
    drawn = groups(ledger, IN_A_FIELD)
    documents = [
        sum(ledger.of(ledger.stages[0], source).documents for source in members) for members in drawn.values()
    ]
    counts = np.array(
        [
            [sum(rule.documents.get(source, 0) for source in members) for members in drawn.values()]
            for rule in taken
        ],
        float,
    )
    shares = 100 * counts / np.maximum(1, documents)
    figure, plot = axes(max(8, 3.5 + 0.6 * len(drawn)), 1.2 + 0.3 * len(taken))
    plot.imshow(shares, cmap="Reds", vmin=0, vmax=max(1.0, float(shares.max())), aspect="auto")
    for i, rule in enumerate(taken):
        for j in np.flatnonzero(counts[i]):
            colour = "white" if shares[i, j] > 0.6 * max(1.0, shares.max()) else "black"
            plot.text(int(j), i, f"{shares[i, j]:.2g} %", ha="center", va="center", color=colour, fontsize=8)
        also = f"{rule.also / sum(rule.documents.values()):.0%} by others"
        plot.text(len(drawn) - 0.4, i, also, va="center", color="grey")
    plot.set_xticks(range(len(drawn)), list(drawn), rotation=30, ha="right")
    plot.set_yticks(range(len(taken)), [rule.rule for rule in taken])
    plot.spines[:].set_visible(False)
    return svg(figure)
