"""The report's chapters about judges: their accounts, curves against targets, thresholds, and pairs of judges."""

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from zyda_flows.flows.reporting import plots
from zyda_flows.flows.reporting.report_parts import Section, Table, Text, count
from zyda_flows.tasks.accounts.judged import HEADS, judge_accounts, judge_cells
from zyda_flows.tasks.lookup.judge_findings import NearDocument, PairOfJudges, ShownThreshold
from zyda_flows.tasks.lookup.report_findings import Findings
from zyda_flows.tasks.quality.training.measured import MeasuredResult, Measures, Repeats

MOST_CURVES, IN_A_ROW = 6, 3
ONE_TARGET = (
    "The judge was measured against one target only: another judge can agree less with this target and more with "
    "another."
)
NO_READING = (
    "A document that the `keep` of an earlier judge removed is not judged by later judges. A lower perplexity is "
    "better, so its rank correlation with a score is negative if both agree."
)


def judges(findings: Findings) -> Iterator[Section]:
    """Yield the documents that each judge judged and removed, if the recipe has judges."""
    accounts = [*judge_accounts(findings.ledger)]
    rows = [judge_cells(account) for account in accounts]
    if rows:
        note = "The documents that enter each judge; its `keep` removed the removed documents."
        notes = [note, *filter(None, (account.sentence() for account in accounts))]
        yield Section("Judges", notes, tables=[Table("By judge and source", HEADS, rows)])


def curves(findings: Findings) -> Iterator[Section]:
    """Yield the measures of each judge that `zyda train-judge` trained, with a curve for each named target."""
    for judge, measures in findings.judges.measures if findings.judges else ():
        shown = measures.results[:MOST_CURVES]
        notes = [
            f"Measured by `zyda train-judge` on {count(measures.held_out)} held-out documents. The form is "
            f"{measures.form}, trained for {measures.targets[0]} with {count(measures.trained)} documents. Rank "
            "correlation is Spearman's. Each curve has the mean target of documents with similar answers."
        ]
        if measures.repeats > 1:
            notes.append(
                f"The ranges are those in which a further repeat of the training is expected (95 %, of "
                f"{measures.repeats} repeats)."
            )
        notes += [ONE_TARGET] if len(measures.targets) == 1 else []
        if more := len(measures.results) - len(shown):
            notes.append(f"{count(more)} further comparisons are in the card of the model.")
        tables = [measures_table(measures), *map(curve_table, shown)]
        yield Section(f"Judge {judge} against its targets", notes, drawn_curves(shown), tables)


def measures_table(measures: Measures) -> Table:
    """List the figures of each comparison."""
    names = ["answer and target", "rank correlation", "AUC", "rank correlation, repeats", "AUC, repeats"]
    rows = [
        [f"{each.answer} against {each.target}", f"{each.spearman:.3f}", f"{each.auc:.3f}",
         range_text(each.spearman_repeats), range_text(each.auc_repeats)]
        for each in measures.results
    ]  # fmt: skip
    return Table("On held-out documents", names, rows)


def range_text(repeats: Repeats | None) -> str:
    return f"{repeats.mean:.3f} ({repeats.low:.3f} to {repeats.high:.3f})" if repeats else ""


def curve_table(result: MeasuredResult) -> Table:
    """List the bins of a curve."""
    rows = [[f"{part.answer:.4g}", count(part.documents), f"{part.score:.4g}"] for part in result.curve]
    title = f"Curve of {result.answer} against {result.target}"
    return Table(title, ["mean answer", "held-out documents", "mean of the target"], rows)


def drawn_curves(results: Sequence[MeasuredResult]) -> str:
    """Draw each curve in a field of its own."""
    lines = -(-len(results) // IN_A_ROW)
    columns = min(IN_A_ROW, len(results))
    figure = Figure(figsize=(2.9 * columns, 2.6 * lines), facecolor="white")
    for number, result in enumerate(results, 1):
        plot = figure.add_subplot(lines, columns, number)
        plot.plot(
            [part.answer for part in result.curve], [part.score for part in result.curve], marker="o", ms=3
        )
        plot.set_xlabel(result.answer)
        plot.set_ylabel(result.target)
    return plots.svg(figure)


def thresholds(findings: Findings) -> Iterator[Section]:
    """Yield the documents nearest to the threshold of each judge, on both sides."""
    for shown in findings.judges.thresholds if findings.judges else ():
        threshold = shown.threshold
        note = (
            f"The documents with the nearest scores for which `{threshold.shown}` is false, and is true. Of "
            "documents with equal scores, the one with the smallest hash of its id is shown."
        )
        title = f"Documents around the threshold of judge {threshold.judge}: {threshold.shown}"
        yield Section(title, [note], texts=[*texts_near(shown)])


def texts_near(shown: ShownThreshold) -> Iterator[Text]:
    for side, documents in (("false", shown.below), ("true", shown.above)):
        for number, document in enumerate(documents):
            yield text_near(side, document, is_open=not number)


def text_near(side: str, document: NearDocument, *, is_open: bool) -> Text:
    place = document.place
    summary = f"{side}: {document.score:g}, document {place.doc_id}, {document.decision}"
    where = f"{place.source}, {place.file}, row {place.row}"
    return Text(summary, ((where, document.beginning),), is_open)


def pairs(findings: Findings) -> Iterator[Section]:
    """Yield the agreement of each pair of judges on documents that both judged."""
    found = findings.judges.pairs if findings.judges else []
    if not found:
        return
    rows = [
        [f"{pair.first}, {pair.second}", count(pair.documents), *correlation_cells(pair)] for pair in found
    ]
    names = ["judges", "judged by both", "rank correlation", "documents in the sample"]
    tables = [Table("Rank correlation", names, rows)]
    decided = [
        [f"{pair.first}, {pair.second}", *map(count, (*pair.decisions[0], *pair.decisions[1], *pair.alone))]
        for pair in found
        if pair.decisions
    ]
    names = [
        "judges", "both keep", "second removes", "first removes", "both remove", "only the first judged",
        "only the second judged",
    ]  # fmt: skip
    tables += [Table("Decisions of judges with `keep`", names, decided)] if decided else []
    note = (
        "Published and removed documents, without documents removed on request. Spearman's rank correlation is of "
        "a sample: the documents with the smallest hashes of their ids. A judge with two labels orders documents "
        "by the probability of the second; a judge with more labels has no order."
    )
    yield Section("Agreement between judges", [note, NO_READING], tables=tables)


def correlation_cells(pair: PairOfJudges) -> tuple[str, str]:
    return ("", "") if pair.correlation is None else (f"{pair.correlation:.3f}", count(pair.sampled))
