"""The page about the documents that a recipe removed: a row and an interval for each stage and reason."""

from collections.abc import Iterator

from zyda_flows.flows.reporting.ablation_page import curves
from zyda_flows.flows.reporting.markdown import duration
from zyda_flows.flows.reporting.plots import COLOURS, axes, svg
from zyda_flows.flows.reporting.report_parts import Section, Table, count
from zyda_flows.flows.reporting.result_page import ResultPage, facts_of
from zyda_flows.tasks.ablation.removed import RemovedResult
from zyda_flows.tasks.ablation.removed_cells import DECILES, FEWEST
from zyda_flows.tasks.ablation.removed_passages import STAGE
from zyda_flows.tasks.ablation.results import Series

PAGE = "removed.html"
NAMES = ("", "documents", "compared", "cells", "difference", "interval", "verdict")
MEANING = (
    "The difference is the bits per byte of removed documents less the bits of kept documents. More bits mean that "
    "a text is less like the kept texts: word salad or another language, but also rare good text. They do not mean "
    "that it is worse."
)
CELLS = (
    f"Documents are compared in cells: the documents of a source in {DECILES} ranges of length, which have "
    f"equal numbers of kept documents. A cell with fewer than {FEWEST} removed or kept documents is left out."
)
CUTS = (
    "Text that passages cut is compared with random windows of kept documents of the same lengths. The documents "
    "with the kept copies are left out of the training."
)
HEIGHT = 0.32  # inches of a row of the plot


def page_of(result: RemovedResult) -> ResultPage:
    """Return the page of a result."""
    facts = [("Corpus", result.corpus), ("Protocol", f"{result.protocol}, written before the first run")]
    return ResultPage(
        PAGE, result.name, "removed documents", [*facts, *facts_of(result.trainings)],
        [*sections(result)],
    )  # fmt: skip


def sentences(result: RemovedResult) -> list[str]:
    """Return sentences about what is compared, and what a difference means."""
    trainings, left_out = result.trainings, sum(group.left_out for group in result.groups)
    return [
        f"{trainings.runs} runs of {trainings.tokens:,} tokens together, in {duration(trainings.seconds)}.",
        f"{left_out} cells of a source and a length have too few documents.",
        MEANING,
    ]


def sections(result: RemovedResult) -> Iterator[Section]:
    """Yield the sections of the page."""
    yield Section("Differences", [MEANING], intervals(result), [group_table(result)])
    held_out = ", ".join(f"{name} {count(number)}" for name, number in result.documents.items())
    notes = [
        CELLS,
        f"Held-out kept documents: {held_out}.",
        f"{count(result.excluded)} kept documents are similar to measured texts, and were left out of trainings.",
    ]
    if any(group.stage == STAGE for group in result.groups):
        notes.append(CUTS)
    yield Section("Documents", notes)
    series = Series(variant="kept", size=0, parameters=0, curves=result.curves, means={})
    notes = ["Loss of the training in nats per token, by step; a line for each run."]
    yield Section("Loss curves", notes, curves([series]))


def group_table(result: RemovedResult) -> Table:
    """Return a table of the stages and reasons."""
    rows = [
        [
            f"{group.stage}: {group.reason}",
            count(group.documents),
            count(group.compared),
            f"{count(group.cells)} of {count(group.cells + group.left_out)}",
            f"{group.difference:+.3f}" if group.cells else "",
            f"{group.low:+.3f} to {group.high:+.3f}" if group.cells else "",
            group.verdict,
        ]
        for group in result.groups
    ]
    return Table("Removed and kept documents", NAMES, rows)


def intervals(result: RemovedResult) -> str:
    """Draw the differences with their intervals below each other; "" if nothing is compared."""
    shown = [group for group in result.groups if group.cells]
    if not shown:
        return ""
    drawing, plot = axes(height=0.8 + HEIGHT * len(shown))
    for place, group in enumerate(shown):
        plot.plot([group.low, group.high], [place, place], color=COLOURS[0], linewidth=2)
        plot.plot([group.difference], [place], "o", color=COLOURS[0])
    plot.axvline(0, color="grey", linewidth=0.8)
    plot.set_yticks(range(len(shown)), [f"{group.stage}: {group.reason}" for group in shown], fontsize=8)
    plot.set_ylim(len(shown) - 0.4, -0.6)
    plot.set_xlabel("bits per byte of removed less kept documents")
    return svg(drawing)
