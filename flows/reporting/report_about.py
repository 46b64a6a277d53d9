"""The page about a corpus: its duplicates in the form that papers use, with the numbers of each plot."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from zyda_flows.flows.reporting import audit_plots
from zyda_flows.flows.reporting.report_overlap import overlap_sections, share
from zyda_flows.flows.reporting.report_parts import Section, Table, count
from zyda_flows.tasks.accounts.audited import MEASURES
from zyda_flows.tasks.accounts.components import start_and_end
from zyda_flows.tasks.lookup.report_findings import AuditFindings, Findings
from zyda_flows.tasks.planning.bandings import BandingResult, SourceRemovals, other_fields
from zyda_flows.tasks.storage.counts import Counts

ABOUT = "about.html"
EDITS = (
    "Audited pairs. Edit similarity is one minus the edits between the first 10,000 characters of both texts: "
    "insertions and deletions, divided by the sum of both lengths; or, as in the paper on Zyda, insertions, "
    "deletions and replacements of a character, divided by the longer length."
)


def overlaps_and_audits(findings: Findings) -> Iterator[Section]:
    """Yield the overlap of sources and the audited pairs of each round of deduplication."""
    for dedup_round in findings.rounds:
        round_suffix = f", round {dedup_round.number}" if len(findings.rounds) > 1 else ""
        if dedup_round.overlap:
            yield from overlap_sections(dedup_round.overlap, dedup_round.dedup, round_suffix)
        if dedup_round.audit:
            yield from distributions(dedup_round.audit, round_suffix)


def tried_bandings(findings: Findings) -> Iterator[Section]:
    """Yield the results of several bandings, if they were tried."""
    if findings.tried:
        yield several_bandings(findings.tried.tried, findings)


def distributions(findings: AuditFindings, round_suffix: str) -> Iterator[Section]:
    """Yield the distributions of audited pairs by similarity and length, with the numbers of the plots."""
    columns = findings.similarities
    ends = next(iter(columns.values())).ends
    rows = [
        [f"{low:.2f} to {high:.2f}", *(count(histogram.counts[i]) for histogram in columns.values())]
        for i, (low, high) in enumerate(pairwise(ends))
        if any(any(histogram.counts[: i + 1]) for histogram in columns.values())
    ]
    names = ["", *(audit_plots.SIMILARITY[name] for name in columns)]
    table = Table("Pairs by similarity", names, rows)
    yield Section(f"Similarities{round_suffix}", [EDITS], audit_plots.similarities(findings), [table])
    lengths = findings.lengths
    rows = [
        [f"{low:,.0f} to {high:,.0f}", count(number)]
        for (low, high), number in zip(pairwise(lengths.ends), lengths.counts, strict=True)
        if number
    ]
    table = Table("Pairs by characters of the removed document", ["", "pairs"], rows)
    yield Section(
        f"Lengths of duplicates{round_suffix}", [], audit_plots.lengths_of_removed(findings), [table]
    )
    note = (
        f"Pairs up to a number of characters: the share with a {MEASURES[findings.headline.measure]} below "
        f"{findings.headline.threshold:.2f}."
    )
    rows = [[f"up to {length:,}", f"{unlike:.1%}"] for length, unlike in findings.by_length]
    table = Table("False positives by length", ["", "share"], rows)
    yield Section(f"False positives by length{round_suffix}", [note], audit_plots.unlike(findings), [table])


def several_bandings(tried: Sequence[BandingResult], findings: Findings) -> Section:
    """Show the removals of deduplication at several thresholds."""
    notes = [
        "Removals from each source at several thresholds, each with the bands and rows that make the fewest "
        "errors. False positives: documents in a sample of the removals that are less similar than the threshold "
        "to all kept documents."
    ]
    first = findings.ledger.stages[0]
    now = {source: findings.ledger.of(first, source) for source in findings.ledger.sources}
    if len(findings.rounds) == 1 and not findings.rules:
        before = {taken.source: taken.entering for taken in tried[0].sources}
        if any(now.get(source) != counts for source, counts in before.items()):
            notes.append("The sources have changed since this trial; repeat it with zyda params --try.")
    if not any(other_fields(dedup_round.dedup) == tried[0].others for dedup_round in findings.rounds):
        notes.append("`dedup` of the recipe has changed since this trial; repeat it with zyda params --try.")
    columns = [f"{banding.threshold:g} ({banding.bands} x {banding.rows})" for banding in tried]
    by_source: list[tuple[str, Sequence[SourceRemovals | BandingResult]]] = [
        (taken.source, [banding.sources[i] for banding in tried]) for i, taken in enumerate(tried[0].sources)
    ]
    tables = []
    for unit in ("documents", "tokens"):
        rows = [
            [name, *(part(taken.removed, taken.entering, unit) for taken in bandings)]
            for name, bandings in [*by_source, ("all", list(tried))]
        ]
        tables.append(Table(f"Removed {unit} by threshold", ["", *columns], rows, has_total=True))
    rows = [[column, count(banding.pairs), count(banding.below), share(banding.below, banding.pairs)]
            for column, banding in zip(columns, tried, strict=True)]  # fmt: skip
    tables.append(
        Table("False positives by threshold", ["", "pairs compared", "below the threshold", "share"], rows)
    )
    return Section("Several bandings", notes, audit_plots.several_bandings(tried, findings.ledger), tables)


def part(removed: Counts, entering: Counts, unit: str) -> str:
    number, total = getattr(removed, unit), getattr(entering, unit)
    return f"{count(number)} ({number / max(1, total):.1%})"


def components(findings: Findings) -> Iterator[Section]:
    """Yield a section with documents and tokens of each component, for each source with components."""
    for source, ends in findings.components.items():
        rows = [
            [name or "(none)", count(start.documents), count(end.documents), count(start.tokens), count(end.tokens),
             share(end.tokens, start.tokens)]
            for name, (start, end) in start_and_end(ends).items()
        ]  # fmt: skip
        names = ["", "documents", "published", "tokens", "published", "kept"]
        yield Section(f"Components of {source}", [], "", [Table("By component", names, rows)])


# A chapter yields no section if the corpus has nothing to show in it.
ABOUT_CHAPTERS: tuple[Callable[[Findings], Iterator[Section]], ...] = (
    overlaps_and_audits, tried_bandings, components,
)  # fmt: skip


def about_sections(findings: Findings) -> Iterator[Section]:
    """Yield the sections of all chapters about a corpus."""
    for chapter in ABOUT_CHAPTERS:
        yield from chapter(findings)
