"""The page of an ablation and its card: verdicts, controls, measures, loss curves side by side, and the cost."""

from collections.abc import Iterator, Sequence

from zyda_flows.flows.reporting.plots import COLOURS, axes_beside, svg
from zyda_flows.flows.reporting.report_parts import Section, Table, count
from zyda_flows.flows.reporting.result_page import ResultPage, facts_of
from zyda_flows.tasks.ablation.results import (
    AblationResult,
    Series,
    control_sentences,
    figure,
    sentence,
    unit_of,
)

PAGE = "ablation.html"
IN_A_ROW = 4  # plots of curves
SKIPPED = 0.05  # the share of the steps at the beginning that do not determine the range of losses
FEW = "Where it is 1, all repeats read the same documents, and intervals do not contain the noise of their choice."
NO_CLAIMS = "Differences by measures that are not decisive are shown without claims."
LIMITS = (
    "Held-out documents are published by all variants. The loss of a small model does not predict all abilities "
    "of a large model."
)


def page_of(result: AblationResult) -> ResultPage:
    """Return the page of a result."""
    return ResultPage(PAGE, result.name, "ablation", [*facts(result)], [*sections(result)])


def facts(result: AblationResult) -> Iterator[tuple[str, str]]:
    """Yield the facts of the head, each a name and a text."""
    yield "Protocol", f"{result.protocol}, written before the first run"
    yield (
        "Decisive measure",
        f"{result.measure}, {unit_of(result.measure)}; false claims at a rate of {result.alpha:g}",
    )
    yield from facts_of(result.trainings)


def sections(result: AblationResult) -> Iterator[Section]:
    """Yield the sections of the page."""
    baseline = result.baseline
    verdicts = [sentence(each, baseline) for each in result.comparisons]
    yield Section("Verdicts", verdicts or ["There is no other variant."], tables=verdict_table(result))
    yield Section("Controls", control_sentences(result) or ["There are no controls."])
    if result.tasks:
        claims = [f"{each.measure}: {sentence(each, baseline)}" for each in result.tasks]
        yield Section("Claims about single tasks", ["Both sizes of the model support these claims.", *claims])
    yield Section(
        "Measures", [NO_CLAIMS, LIMITS], tables=[measure_table(result, size) for size in result.sizes]
    )
    for size in result.sizes:
        named = "" if len(result.sizes) == 1 else f", size {size + 1}"
        notes = ["Loss of the training in nats per token, by step; a line for each run."]
        yield Section(f"Loss curves{named}", notes, curves([s for s in result.series if s.size == size]))
    yield Section("Documents", [*document_notes(result)], tables=[part_table(result)])


def verdict_table(result: AblationResult) -> list[Table]:
    """Return a table of the comparisons, if there are any."""
    compared = [*result.comparisons, *filter(None, (result.equal, result.degraded))]
    rows = [
        [
            each.variant, "yes" if each.is_claimed else "no", figure(each.measure, each.mean),
            figure(each.measure, each.difference), figure(each.measure, each.low), figure(each.measure, each.high),
            f"{each.p:.2g}", figure(each.measure, each.smallest), f"{each.runs[1]} and {each.runs[0]}",
        ]
        for each in compared
    ]  # fmt: skip
    names = ["", "claim", "mean", "difference", "low", "high", "p", "smallest seen", "values"]
    return [Table(f"Compared with {result.baseline}, by {result.measure}", names, rows)] if rows else []


def measure_table(result: AblationResult, size: int) -> Table:
    """Return a table of the means of all measures, with a column for each variant."""
    series = [each for each in result.series if each.size == size]
    rows = [
        [name, *(figure(name, each.means[name]) if name in each.means else "" for each in series)]
        for name in dict.fromkeys(name for each in series for name in each.means)
    ]
    title = f"Means of all runs, {series[0].parameters:,} parameters"
    return Table(title, ["", *(each.variant for each in series)], rows)


def document_notes(result: AblationResult) -> Iterator[str]:
    """Yield sentences about the held-out documents and the repeats."""
    held_out = ", ".join(f"{name} {count(number)}" for name, number in result.held_out.items())
    yield f"Documents that are measured: {held_out}."
    fewest = min([part.samples for parts in result.parts.values() for part in parts], default=0)
    yield (
        "Each repeat reads other documents of a part, as far as it has them: `samples` is the number of samples "
        "without common documents. Runs with the same documents have a single value, their mean. "
        f"{FEW if fewest == 1 else ''}"
    ).rstrip()
    yield f"{count(result.excluded)} documents are similar to held-out documents, and were left out of trainings."


def part_table(result: AblationResult) -> Table:
    rows = [
        [
            variant,
            part.name,
            count(part.documents),
            count(part.tokens),
            f"{part.share:.1%}",
            f"{part.epochs:.3g}",
            count(part.samples),
        ]
        for variant, parts in result.parts.items()
        for part in parts
    ]
    return Table(
        "Parts of a run", ["", "part", "documents", "different tokens", "share", "epochs", "samples"], rows
    )


def curves(series: Sequence[Series]) -> str:
    """Draw the loss curves of each variant in a plot of its own, with the same axes."""
    drawing, plots = axes_beside(len(series), IN_A_ROW)
    last = max(curve[-1][0] for each in series for curve in each.curves)
    shown = [
        loss for each in series for curve in each.curves for step, loss in curve if step > SKIPPED * last
    ]  # fmt: skip
    for place, (each, plot) in enumerate(zip(series, plots, strict=True)):
        for curve in each.curves:
            plot.plot(
                *zip(*curve, strict=True), color=COLOURS[place % len(COLOURS)], linewidth=0.9, alpha=0.8
            )
        plot.set_title(each.variant, fontsize=9)
        plot.set_ylim(min(shown), max(shown))
        plot.set_xlabel("step")
    return svg(drawing)
