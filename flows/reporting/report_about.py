"""The page about a corpus: its duplicates as papers on such corpora show them, with the numbers of each picture."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from zyda_flows.flows.reporting import plots
from zyda_flows.flows.reporting.report_overlap import overlap_sections, share
from zyda_flows.flows.reporting.report_parts import Section, Table, count
from zyda_flows.tasks.accounts.audited import MEASURES
from zyda_flows.tasks.accounts.components import start_and_end
from zyda_flows.tasks.lookup.report_findings import AuditFindings, Findings
from zyda_flows.tasks.planning.bandings import SourceTaken, Tried, other_fields
from zyda_flows.tasks.storage.artifacts import Counts

ABOUT = "about.html"
EDITS = (
    "Of the audited pairs. Edit similarity is one minus the edits from one text to the other, of their first "
    "10,000 characters: insertions and deletions by both lengths; or, as the paper on Zyda has it, edits of which "
    "one may replace a character, by the longer."
)


def overlaps_and_audits(findings: Findings) -> Iterator[Section]:
    """Yield the overlap of sources and the audited pairs of each round of deduplication."""
    for dedup_round in findings.rounds:
        which = f", round {dedup_round.number}" if len(findings.rounds) > 1 else ""
        if dedup_round.overlap:
            yield from overlap_sections(dedup_round.overlap, dedup_round.dedup, which)
        if dedup_round.audit:
            yield from distributions(dedup_round.audit, which)


def tried_bandings(findings: Findings) -> Iterator[Section]:
    """Yield the results of several bandings, if they were tried."""
    if findings.tried:
        yield several_bandings(findings.tried.tried, findings)


def distributions(findings: AuditFindings, which: str) -> Iterator[Section]:
    """Yield how the audited pairs are distributed, by similarity and by length, with the numbers of the plots."""
    columns = findings.similarities
    ends = next(iter(columns.values())).ends
    rows = [
        [f"{low:.2f} to {high:.2f}", *(count(histogram.counts[i]) for histogram in columns.values())]
        for i, (low, high) in enumerate(pairwise(ends))
        if any(any(histogram.counts[: i + 1]) for histogram in columns.values())
    ]
    names = ["", *(plots.SIMILARITY[name] for name in columns)]
    table = Table("Pairs by similarity", names, rows)
    yield Section(f"Similarities{which}", [EDITS], plots.similarities(findings), [table])
    lengths = findings.lengths
    rows = [
        [f"{low:,.0f} to {high:,.0f}", count(number)]
        for (low, high), number in zip(pairwise(lengths.ends), lengths.counts, strict=True)
        if number
    ]
    table = Table("Pairs by characters of the removed document", ["", "pairs"], rows)
    yield Section(f"Lengths of duplicates{which}", [], plots.lengths_of_removed(findings), [table])
    note = (
        f"Of the pairs up to so many characters, those with a {MEASURES[findings.headline.measure]} below "
        f"{findings.headline.threshold:.2f}."
    )
    rows = [[f"up to {length:,}", f"{unlike:.1%}"] for length, unlike in findings.by_length]
    table = Table("False positives by length", ["", "share"], rows)
    yield Section(f"False positives by length{which}", [note], plots.unlike(findings), [table])


def several_bandings(tried: Sequence[Tried], findings: Findings) -> Section:
    """Show what deduplication takes at several thresholds."""
    notes = [
        "What would go of each source at several thresholds, each with the bands and rows that err least for it. "
        "Of a sample of the documents that would go, how many are less alike than the threshold to all that would "
        "stay."
    ]
    first = findings.ledger.stages[0]
    now = {source: findings.ledger.of(first, source) for source in findings.ledger.sources}
    if len(findings.rounds) == 1 and not findings.rules:
        before = {one.source: one.entering for one in tried[0].sources}
        if any(now.get(source) != counts for source, counts in before.items()):
            notes.append("The sources have changed since that was tried; zyda params --try does it again.")
    if not any(other_fields(dedup_round.dedup) == tried[0].others for dedup_round in findings.rounds):
        notes.append("The recipe's `dedup` has changed since; zyda params --try does it again.")
    columns = [f"{one.threshold:g} ({one.bands} x {one.rows})" for one in tried]
    of_sources: list[tuple[str, Sequence[SourceTaken | Tried]]] = [
        (one.source, [banding.sources[i] for banding in tried]) for i, one in enumerate(tried[0].sources)
    ]
    tables = []
    for unit in ("documents", "tokens"):
        rows = [
            [name, *(part(of.removed, of.entering, unit) for of in counts)]
            for name, counts in [*of_sources, ("all", list(tried))]
        ]
        tables.append(Table(f"{unit.capitalize()} that would go", ["", *columns], rows, has_total=True))
    rows = [[column, count(one.pairs), count(one.below), share(one.below, one.pairs)]
            for column, one in zip(columns, tried, strict=True)]  # fmt: skip
    tables.append(Table("False positives by threshold", ["", "pairs compared", "less alike", "share"], rows))
    return Section("Several bandings", notes, plots.several_bandings(tried, findings.ledger), tables)


def part(gone: Counts, whole: Counts, unit: str) -> str:
    number, of = getattr(gone, unit), getattr(whole, unit)
    return f"{count(number)} ({number / max(1, of):.1%})"


def components(findings: Findings) -> Iterator[Section]:
    """Yield documents and tokens of the components of each source that has any."""
    for source, ends in findings.components.items():
        rows = [
            [name or "(none)", count(start.documents), count(end.documents), count(start.tokens), count(end.tokens),
             share(end.tokens, start.tokens)]
            for name, (start, end) in start_and_end(ends).items()
        ]  # fmt: skip
        names = ["", "documents", "left", "tokens", "left", "kept"]
        yield Section(f"Components of {source}", [], "", [Table("By component", names, rows)])


# A chapter yields no section if the corpus has nothing to show in it.
ABOUT_CHAPTERS: tuple[Callable[[Findings], Iterator[Section]], ...] = (
    overlaps_and_audits, tried_bandings, components,
)  # fmt: skip


def about_sections(findings: Findings) -> Iterator[Section]:
    """Yield the sections of all chapters about a corpus."""
    for chapter in ABOUT_CHAPTERS:
        yield from chapter(findings)
