"""The report's plots about audits and bandings, as SVG elements for a page."""

from collections.abc import Sequence

import numpy as np

from zyda_flows.flows.reporting.plots import (
    axes,
    by_powers_of_ten,
    colours_of,
    groups,
    segment,
    short,
    sum_of_group,
    svg,
)
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.lookup.report_findings import AuditFindings
from zyda_flows.tasks.planning.bandings import BandingResult
from zyda_flows.tasks.signatures.banding import Banding

SIMILARITY = {  # names in plots and tables
    "jaccard": "Jaccard", "containment": "containment", "edit": "edit, by both lengths",
    "levenshtein": "edit, by the longer",
}  # fmt: skip


def unlike(audit: AuditFindings) -> str:
    """Draw the share of dissimilar pairs among the pairs up to a length."""
    figure, plot = axes(8, 2.8)
    lengths, shares = zip(*audit.by_length, strict=True)
    plot.plot(lengths, [100 * share for share in shares], "o-", markersize=3)
    by_powers_of_ten(plot.xaxis)
    plot.set_ylim(bottom=0)
    plot.set_xlabel("characters of the removed document, at most")
    plot.set_ylabel("% dissimilar")
    return svg(figure)


def similarities(audit: AuditFindings) -> str:
    """Draw the distribution of the similarity of pairs, by each measure."""
    figure, plot = axes(8, 2.8)
    for (name, histogram), style in zip(audit.similarities.items(), ("-", "-.", "--", ":"), strict=False):
        label = SIMILARITY[name]
        plot.stairs(histogram.counts, histogram.ends, label=label, linewidth=2, linestyle=style)
    plot.set_xlim(0, 1)
    plot.set_ylim(bottom=0)
    plot.set_xlabel("similarity")
    plot.set_ylabel("pairs")
    plot.legend(frameon=False, loc="upper left", fontsize=8)
    return svg(figure)


def lengths_of_removed(audit: AuditFindings) -> str:
    """Draw the distribution of the lengths of removed documents."""
    figure, plot = axes(8, 2.4)
    plot.stairs(audit.lengths.counts, audit.lengths.ends, fill=True)
    by_powers_of_ten(plot.xaxis)
    plot.set_xlabel("characters of the removed document")
    plot.set_ylabel("pairs")
    return svg(figure)


def several_bandings(tried: Sequence[BandingResult], ledger: Ledger) -> str:
    """Draw the tokens of each source that would be removed at several thresholds, as stacked bars."""
    names = [f"{banding.threshold:g}" for banding in tried]
    tokens = {
        source.source: np.array([banding.sources[i].removed.tokens for banding in tried], float)
        for i, source in enumerate(tried[0].sources)
    }
    drawn = {
        name: [source for source in members if source in tokens] for name, members in groups(ledger).items()
    }
    figure, plot = axes(8.5, 0.9 + 0.42 * max(2, len(tried)))
    left, size = np.zeros(len(tried)), max(1.0, float(sum_of_group(tokens, tuple(tokens)).max()))
    for (name, members), (_, colour) in zip(drawn.items(), colours_of(drawn), strict=True):
        if members:
            widths = sum_of_group(tokens, members)
            plot.barh(names, widths, left=left, label=name, color=colour)
            segment(plot, left, widths, colour, size)
            left += widths
    for place, (total, banding) in enumerate(zip(left.tolist(), tried, strict=True)):
        plot.text(
            total, place, f" {short(total)}, {total / max(1, banding.entering.tokens):.1%}", va="center"
        )
    plot.set_xlim(0, 1.2 * size)
    plot.invert_yaxis()
    plot.xaxis.set_major_formatter(short)
    plot.set_xlabel("tokens that would be removed")
    plot.set_ylabel("threshold, Jaccard")
    plot.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return svg(figure)


def s_curve(banding: Banding) -> str:
    """Draw the probability that a pair shares a bucket, by its similarity, and the areas of errors."""
    figure, plot = axes(6, 3.6)
    similarity = np.linspace(0, 1, 401)
    probability, is_above = banding.find_probability(similarity), similarity >= banding.threshold
    plot.plot(similarity, probability, color="C0")
    plot.fill_between(
        similarity, 0, probability, where=~is_above, color="C3", alpha=0.3,
        label=f"false positives, {banding.false_positives:.1%}",
    )  # fmt: skip
    plot.fill_between(
        similarity, probability, 1, where=is_above, color="C1", alpha=0.3,
        label=f"false negatives, {banding.false_negatives:.1%}",
    )  # fmt: skip
    plot.axvline(banding.threshold, color="black", linewidth=0.8, linestyle=":")
    plot.set_title(f"{banding.bands} bands of {banding.rows} rows, threshold {banding.threshold:g}")
    plot.set_xlabel("Jaccard similarity of a pair")
    plot.set_ylabel("probability of a shared bucket")
    plot.legend(frameon=False, loc="upper left")
    return svg(figure)
