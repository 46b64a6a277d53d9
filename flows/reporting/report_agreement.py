"""The report's chapter on the agreement of scores within clusters of near-duplicates."""

from collections.abc import Iterator

from zyda_flows.flows.reporting.report_parts import Section, Table, Text, count
from zyda_flows.tasks.lookup.report_findings import Findings, ShownAgreement


def agreements(findings: Findings) -> Iterator[Section]:
    """Yield the agreement of each score in each round, with the texts of the cluster in which it differs most."""
    for dedup_round in findings.rounds:
        round_suffix = f", round {dedup_round.number}" if len(findings.rounds) > 1 else ""
        for shown in dedup_round.agreement:
            agreement = shown.agreement
            yield Section(
                f"{agreement.column} within clusters{round_suffix}",
                [agreement.sentence],
                tables=[table_by_size(shown)],
                texts=[texts_of(shown)],
            )


def table_by_size(shown: ShownAgreement) -> Table:
    names = ["documents in the cluster", "clusters", "mean spread", "largest spread"]
    has_threshold = shown.agreement.threshold is not None
    names += [f"on both sides of {shown.agreement.threshold}"] if has_threshold else []
    rows = [
        [f"{row['from_size']} to {row['to_size']}", count(row["clusters"]), f"{row['mean_spread']:.3g}",
         f"{row['largest_spread']:.3g}", *([count(row["both_sides"])] if has_threshold else [])]
        for row in shown.by_size.to_pylist()
    ]  # fmt: skip
    return Table("Clusters with several values, by size", names, rows)


def texts_of(shown: ShownAgreement) -> Text:
    """Return the texts with the lowest and the highest score in the widest cluster."""
    widest = shown.agreement.widest
    low, high = (f"{place.source}, {place.file}, row {place.row}" for place in (shown.low, shown.high))
    parts = [(f"{widest.low:g}: {low}", shown.beginning)]
    if shown.lines:
        parts.append((f"{widest.high:g}: from that to {high}", "\n".join(shown.lines)))
    return Text(f"cluster {widest.cluster_id}: {widest.low:g} to {widest.high:g}", tuple(parts))
