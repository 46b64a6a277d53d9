"""The report's plots about tokens and documents, as SVG for pages with light or dark backgrounds."""

import io
from collections.abc import Iterable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.lookup.document_counting import LENGTH_BINS
from zyda_flows.tasks.lookup.report_findings import Findings

mpl.rcParams.update({
    "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
    "figure.constrained_layout.use": True, "font.family": "sans-serif", "text.parse_math": False,
})  # fmt: skip
COLOURS = [f"C{i}" for i in range(10)]
COLOUR_OF_OTHERS = "#c8c8c8"
DRAWN = 10  # sources with a separate colour
IN_A_FIELD = 20  # sources with a row and a column in a matrix
LEGIBLE = 0.065  # the smallest width of a bar, as a share of the axis, that has a number inside

Groups = dict[str, tuple[str, ...]]


def svg(figure: Figure) -> str:
    """Return a figure as an <svg> element."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue().partition("<svg")[1] + out.getvalue().partition("<svg")[2]


def axes(width: float = 8, height: float = 3.4) -> tuple[Figure, Axes]:
    """Return a new figure, in inches, and its axes. The background is white, because pages may be dark."""
    figure = Figure(figsize=(width, height), facecolor="white")
    return figure, figure.add_subplot()


def axes_beside(number: int, in_a_row: int) -> tuple[Figure, list[Axes]]:
    """Return a new figure with small plots beside each other that share their axes."""
    columns = min(number, in_a_row)
    rows = -(-number // columns)
    figure = Figure(figsize=(2.1 * columns + 0.4, 2.1 * rows + 0.2), facecolor="white")
    plots = [*figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat]
    for plot in plots[number:]:
        plot.set_axis_off()
    return figure, plots[:number]


def short(number: float, _: object = None) -> str:
    """Return a number with three digits and a suffix: 1.2M."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


class PowersOfTenFormatter(LogFormatter):
    """Formats the ticks of a logarithmic axis, which Matplotlib selects, with `short`: 100k."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return short(x) if super().__call__(x, pos) else ""


def by_powers_of_ten(axis: XAxis | YAxis) -> None:
    """Set an axis of counts to a logarithmic scale."""
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    axis.set_major_formatter(PowersOfTenFormatter())
    axis.set_minor_formatter(PowersOfTenFormatter(minor_thresholds=(1, 0.4)))


def groups(ledger: Ledger, most: int = DRAWN) -> Groups:
    """Return the groups of sources to draw: a group for each source, in the order of the ledger.

    If there are more than `most` sources, the sources with the most tokens at the start have a group each, and the
    others are a group together.
    """
    sources, first = ledger.sources, ledger.stages[0]
    if len(sources) <= most:
        return {source: (source,) for source in sources}
    tokens = {line.source: line.out.tokens for line in ledger.lines if line.stage == first}
    largest = set(sorted(sources, key=lambda source: -tokens[source])[:most])
    small_sources = tuple(source for source in sources if source not in largest)
    named = f"{len(small_sources):,} other{'s' if len(small_sources) > 1 else ''}"
    return {source: (source,) for source in sources if source in largest} | {named: small_sources}


def colours_of(names: Iterable[str], most: int = DRAWN) -> list[tuple[str, str]]:
    """Return each name with its colour; names after the first `most` have the colour of others."""
    return [(name, COLOURS[i % 10] if i < most else COLOUR_OF_OTHERS) for i, name in enumerate(names)]


def sum_of_group(counts: dict[str, NDArray[np.float64]], members: Sequence[str]) -> NDArray[np.float64]:
    return np.sum([counts[source] for source in members], axis=0)


def tokens_after(ledger: Ledger, stages: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the tokens of each source after the given stages: (stages,) each."""
    tokens = {(line.stage, line.source): line.out.tokens for line in ledger.lines}
    return {
        source: np.array([tokens.get((stage, source), 0) for stage in stages], float)
        for source in ledger.sources
    }


def on(colour: str) -> str:
    """Return black or white, the text colour that is legible on a background colour."""
    red, green, blue = to_rgb(colour)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "white"


def segment(
    plot: Axes, left: NDArray[np.float64], widths: NDArray[np.float64], colour: str, size: float
) -> None:
    """Write the tokens into the wide segments of bars. size: the length of the axis, in tokens."""
    for place, width in enumerate(widths):
        if width > LEGIBLE * size:
            middle = left[place] + width / 2
            plot.text(middle, place, short(width), ha="center", va="center", color=on(colour), fontsize=8)


def funnel(ledger: Ledger) -> str:
    """Draw the tokens of each source at the start and after each stage that removed any, as stacked bars."""
    first, *later = ledger.stages
    stages = [first, *(s for s in later if ledger.removed(s).documents or ledger.cut(s).bytes)]
    names = ["start", *(f"after {stage}" for stage in stages[1:])]
    if ledger.removed(first).documents:
        names[0] = f"after {first}"
    figure, plot = axes(8.5, 0.9 + 0.42 * max(3, len(stages)))
    tokens, drawn = tokens_after(ledger, stages), groups(ledger)
    totals = sum_of_group(tokens, ledger.sources)
    left, size = np.zeros(len(stages)), max(1.0, float(totals[0]))
    for (name, members), (_, colour) in zip(drawn.items(), colours_of(drawn), strict=True):
        widths = sum_of_group(tokens, members)
        plot.barh(names, widths, left=left, label=name, color=colour)
        segment(plot, left, widths, colour, size)
        left += widths
    for place, total in enumerate(totals):
        plot.text(total, place, f" {short(total)}, {total / size:.1%}", va="center")
    plot.set_xlim(0, 1.2 * size)
    plot.invert_yaxis()
    plot.xaxis.set_major_formatter(short)
    plot.set_xlabel("tokens")
    plot.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return svg(figure)


def composition(findings: Findings) -> str:
    """Draw the share of each source's tokens, at the start and at the end."""
    ledger = findings.ledger
    drawn = groups(ledger)
    figure, plot = axes(8.5, max(1.6, 0.5 + 0.16 * len(drawn)))
    tokens = tokens_after(ledger, (ledger.stages[0], ledger.stages[-1]))
    totals, left = np.maximum(1, sum_of_group(tokens, ledger.sources)), np.zeros(2)
    for (name, members), (_, colour) in zip(drawn.items(), colours_of(drawn), strict=True):
        shares = 100 * sum_of_group(tokens, members) / totals
        plot.barh(("start", "end"), shares, left=left, label=name, color=colour)
        for place in np.flatnonzero(shares > 100 * LEGIBLE).tolist():
            middle = left[place] + shares[place] / 2
            written = f"{shares[place]:.0f} %"
            plot.text(middle, place, written, ha="center", va="center", color=on(colour), fontsize=8)
        left += shares
    plot.invert_yaxis()
    plot.set_xlabel("% of the tokens")
    plot.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    return svg(figure)


def lengths(findings: Findings) -> str:
    """Draw the lengths of the published documents of each source."""
    figure, plot = axes()
    middles = np.sqrt(LENGTH_BINS[:-1] * LENGTH_BINS[1:])
    drawn, by_source = groups(findings.ledger), findings.documents.lengths
    for (name, members), (_, colour) in zip(drawn.items(), colours_of(drawn), strict=True):
        counts = sum_of_group({source: by_source[source].astype(float) for source in members}, members)
        if counts.sum():
            plot.step(middles, 100 * counts / counts.sum(), where="mid", label=name, color=colour)
    by_powers_of_ten(plot.xaxis)
    plot.set_xlabel("tokens in a document")
    plot.set_ylabel("% of the source's documents")
    if plot.get_legend_handles_labels()[0]:
        plot.legend(frameon=False, fontsize=8)
    return svg(figure)


def labels(findings: Findings) -> str:
    """Draw the numbers of published documents by the label of a quality model, for each labelled source."""
    judged = {source for documents in findings.documents.labels.values() for source in documents}
    drawn = {
        name: [source for source in members if source in judged]
        for name, members in groups(findings.ledger, IN_A_FIELD).items()
    }
    drawn = {name: members for name, members in drawn.items() if members}
    figure, plot = axes(8, 0.8 + 0.3 * max(3, len(drawn)))
    left = np.zeros(len(drawn))
    for i, (label, documents) in enumerate(sorted(findings.documents.labels.items())):
        counts = np.array(
            [sum(documents.get(source, 0) for source in members) for members in drawn.values()], float
        )
        plot.barh(list(drawn), counts, left=left, label=label, color=COLOURS[i % 10])
        left += counts
    plot.invert_yaxis()
    plot.xaxis.set_major_formatter(short)
    plot.set_xlabel("documents")
    plot.legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return svg(figure)
