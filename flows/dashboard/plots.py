"""The report's plots, as SVG to stand inside a page."""

import io

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tasks.accounts.ledger import Ledger
from tasks.publish.findings import LENGTH_BINS, AuditFindings, Findings
from tasks.signatures.banding import Banding

mpl.rcParams.update({
    "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
    "figure.constrained_layout.use": True, "font.family": "sans-serif",
})  # fmt: skip
COLOURS = [f"C{i}" for i in range(10)]


def svg(figure: Figure) -> str:
    """Write a figure as an <svg> element."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue().partition("<svg")[1] + out.getvalue().partition("<svg")[2]


def axes(width: float = 8, height: float = 3.4) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    return figure, figure.add_subplot()


def short(number: float, _: object = None) -> str:
    """Write a count as people say it: 1.2M."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def funnel(ledger: Ledger) -> str:
    """Draw the tokens of each source after each stage, stacked."""
    figure, plot = axes()
    left = np.zeros(len(ledger.stages))
    for i, source in enumerate(ledger.sources):
        tokens = np.array([ledger.of(stage, source).tokens for stage in ledger.stages], float)
        plot.barh(ledger.stages, tokens, left=left, label=source, color=COLOURS[i % 10])
        left += tokens
    for place, total in enumerate(left):
        plot.text(total, place, f" {short(total)}", va="center")
    plot.invert_yaxis()
    plot.xaxis.set_major_formatter(short)
    plot.set_xlabel("tokens")
    plot.legend(frameon=False, loc="center left", bbox_to_anchor=(1.04, 0.5))
    return svg(figure)


def composition(findings: Findings) -> str:
    """Draw the share of each source's tokens, at the start and at the end."""
    figure, plot = axes(8, 1.8)
    ends = (findings.ledger.stages[0], findings.ledger.stages[-1])
    left = np.zeros(2)
    for i, source in enumerate(findings.ledger.sources):
        shares = np.array(
            [findings.ledger.of(s, source).tokens / max(1, findings.ledger.of(s).tokens) for s in ends]
        )
        plot.barh(("before", "after"), 100 * shares, left=left, label=source, color=COLOURS[i % 10])
        left += 100 * shares
    plot.invert_yaxis()
    plot.set_xlabel("% of the tokens")
    plot.legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return svg(figure)


def cluster_sizes(findings: Findings) -> str:
    """Draw how many clusters have so many documents of a source, on two logarithmic axes."""
    figure, plot = axes()
    for i, (source, (sizes, counts)) in enumerate(findings.cluster_sizes.items()):
        plot.loglog(sizes, counts, "o", markersize=4, label=source, color=COLOURS[i % 10], alpha=0.8)
    plot.set_xlabel("documents of the source in a cluster")
    plot.set_ylabel("clusters")
    plot.legend(frameon=False)
    return svg(figure)


def shared_clusters(findings: Findings) -> str:
    """Draw the clusters that pairs of sources share."""
    names = findings.ledger.sources
    figure, plot = axes(6, 4.2)
    shares = 100 * findings.shared / np.maximum(1, np.diag(findings.shared))[:, None]
    plot.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    for i in range(len(names)):
        for j in range(len(names)):
            colour = "white" if shares[i, j] > 60 else "black"
            plot.text(j, i, f"{findings.shared[i, j]:,}", ha="center", va="center", color=colour)
    plot.set_xticks(range(len(names)), names, rotation=30, ha="right")
    plot.set_yticks(range(len(names)), names)
    plot.spines[:].set_visible(False)
    return svg(figure)


def s_curve(banding: Banding) -> str:
    """Draw how probable it is that a pair is found, by its similarity, and where that is an error."""
    figure, plot = axes(6, 3.6)
    similarity = np.linspace(0, 1, 401)
    found, is_above = banding.found(similarity), similarity >= banding.threshold
    plot.plot(similarity, found, color="C0")
    plot.fill_between(
        similarity, 0, found, where=~is_above, color="C3", alpha=0.3,
        label=f"false positives, {banding.false_positives:.1%}",
    )  # fmt: skip
    plot.fill_between(
        similarity, found, 1, where=is_above, color="C1", alpha=0.3,
        label=f"false negatives, {banding.false_negatives:.1%}",
    )  # fmt: skip
    plot.axvline(banding.threshold, color="black", linewidth=0.8, linestyle=":")
    plot.set_title(f"{banding.bands} bands of {banding.rows} rows, threshold {banding.threshold:g}")
    plot.set_xlabel("Jaccard similarity of a pair")
    plot.set_ylabel("probability of a shared bucket")
    plot.legend(frameon=False, loc="upper left")
    return svg(figure)


def rules(findings: Findings) -> str:
    """Draw the share of each source's documents that a rule took, and how many of them others would have, too."""
    sources, taken = findings.ledger.sources, findings.rules
    first = findings.ledger.stages[0]
    documents = np.array([max(1, findings.ledger.of(first, source).documents) for source in sources])
    counts = np.array([[rule.documents.get(source, 0) for source in sources] for rule in taken], float)
    shares = 100 * counts / documents
    figure, plot = axes(8, 1.2 + 0.3 * len(taken))
    plot.imshow(shares, cmap="Reds", vmin=0, vmax=max(1.0, float(shares.max())), aspect="auto")
    for i, rule in enumerate(taken):
        for j in range(len(sources)):
            colour = "white" if shares[i, j] > 0.6 * max(1.0, shares.max()) else "black"
            if counts[i, j]:
                plot.text(j, i, f"{shares[i, j]:.2g} %", ha="center", va="center", color=colour)
        also = f"{rule.also / sum(rule.documents.values()):.0%} by others"
        plot.text(len(sources) - 0.4, i, also, va="center", color="grey")
    plot.set_xticks(range(len(sources)), sources, rotation=30, ha="right")
    plot.set_yticks(range(len(taken)), [rule.rule for rule in taken])
    plot.spines[:].set_visible(False)
    return svg(figure)


def lengths(findings: Findings) -> str:
    """Draw the lengths of the published documents of each source."""
    figure, plot = axes()
    middles = np.sqrt(LENGTH_BINS[:-1] * LENGTH_BINS[1:])
    for i, (source, counts) in enumerate(findings.lengths.items()):
        if counts.sum():
            plot.step(middles, 100 * counts / counts.sum(), where="mid", label=source, color=COLOURS[i % 10])
    plot.set_xscale("log")
    plot.set_xlabel("tokens in a document")
    plot.set_ylabel("% of the source's documents")
    plot.legend(frameon=False)
    return svg(figure)


def unlike(audit: AuditFindings) -> str:
    """Draw the share of unlike pairs among those up to a length."""
    figure, plot = axes(8, 2.8)
    lengths, shares = zip(*audit.by_length, strict=True)
    plot.plot(lengths, [100 * share for share in shares], "o-", markersize=3)
    plot.set_xscale("log")
    plot.set_ylim(bottom=0)
    plot.set_xlabel("characters of the removed document, at the most")
    plot.set_ylabel("% unlike")
    return svg(figure)


def labels(findings: Findings) -> str:
    """Draw the labels of the published documents that a quality model judged."""
    figure, plot = axes(8, 2.4)
    sources = sorted({source for of_label in findings.labels.values() for source in of_label})
    left = np.zeros(len(sources))
    for i, (label, of_label) in enumerate(sorted(findings.labels.items())):
        counts = np.array([of_label.get(source, 0) for source in sources], float)
        plot.barh(sources, counts, left=left, label=label, color=COLOURS[i % 10])
        left += counts
    plot.xaxis.set_major_formatter(short)
    plot.set_xlabel("documents")
    plot.legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return svg(figure)
