"""The page of a swarm: the proposed shares, the predicted gain, and how well the fit predicts runs."""

from collections.abc import Iterator

import numpy as np

from zyda_flows.flows.reporting.plots import COLOURS, axes, svg
from zyda_flows.flows.reporting.report_parts import Section, Table
from zyda_flows.flows.reporting.result_page import ResultPage, facts_of
from zyda_flows.tasks.ablation.mixture_fit import Proposal
from zyda_flows.tasks.ablation.swarm import MIXTURE

PAGE = "swarm/swarm.html"
NEAR = (
    "The proposal stays near the natural shares where the runs say little. It is an extrapolation: train the "
    "proposed mixture beside the natural mixture (zyda ablate) before a large run."
)
HEIGHT = 0.36  # inches of a part


def page_of(name: str, found: Proposal) -> ResultPage:
    """Return the page of a proposal. name: of the experiment."""
    facts = [("Measures", f"the mean of {', '.join(found.measures)}"), ("Mixture", MIXTURE)]
    if found.trainings is not None:
        facts += facts_of(found.trainings)
    return ResultPage(PAGE, name, "swarm", facts, [*sections(found)])


def gain_sentences(found: Proposal) -> list[str]:
    """Return sentences about the predicted gain."""
    sentences = [
        f"Predicted gain: {found.gain:.4f} of the mean of {len(found.measures)} measures (interval {found.low:.4f} "
        f"to {found.high:.4f}), from {found.runs} runs."
    ]
    if found.low <= 0:
        sentences.append("No better mixture seen: the interval contains 0.")
    return sentences


def sections(found: Proposal) -> Iterator[Section]:
    """Yield the sections of the page."""
    rows = [
        [part, f"{found.natural[part]:.1%}", f"{share:.1%}", f"{share / found.natural[part]:.2f}"]
        for part, share in found.shares.items()
    ]
    names = ["part", "natural share", "proposed share", "ratio"]
    yield Section("Proposal", [*gain_sentences(found), NEAR], bars(found), [Table("Shares", names, rows)])
    note = (
        f"Each run is predicted by fits without it. Rank correlation of predicted and measured means: "
        f"{found.rank_correlation:.2f}."
    )
    yield Section("Fit", [note], scatter(found))


def bars(found: Proposal) -> str:
    """Draw natural and proposed shares of each part."""
    drawing, plot = axes(height=0.9 + HEIGHT * len(found.shares))
    places = np.arange(len(found.shares))
    for offset, label, shares, colour in (
        (-0.2, "natural", found.natural, COLOURS[1]),
        (0.2, "proposed", found.shares, COLOURS[0]),
    ):
        plot.barh(
            places + offset, [100 * shares[part] for part in found.shares], 0.38, color=colour, label=label
        )
    plot.set_yticks(places, [*found.shares], fontsize=8)
    plot.invert_yaxis()
    plot.set_xlabel("share of the tokens, %")
    plot.legend(fontsize=8)
    return svg(drawing)


def scatter(found: Proposal) -> str:
    """Draw the predicted mean of each run over the measured mean."""
    drawing, plot = axes(width=4.5)
    predicted, measured = np.array(found.means).T
    ends = [min(measured.min(), predicted.min()), max(measured.max(), predicted.max())]
    plot.plot(ends, ends, color="grey", linewidth=0.8)
    plot.plot(measured, predicted, ".", color=COLOURS[0])
    plot.set_xlabel("measured mean of a run")
    plot.set_ylabel("predicted without it")
    return svg(drawing)
