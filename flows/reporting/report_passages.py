"""The report's chapter about repeated passages."""

from collections.abc import Iterator, Sequence

import numpy as np

from zyda_flows.flows.reporting.plots import COLOURS, axes, by_powers_of_ten, svg
from zyda_flows.flows.reporting.report_overlap import share
from zyda_flows.flows.reporting.report_parts import Section, Table, Text, count
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.lookup.passage_stats import LENGTH_ENDS, PassageStats
from zyda_flows.tasks.lookup.report_findings import Findings, ShownPassage


def passages(findings: Findings) -> Iterator[Section]:
    """Yield what is cut of each source, the lengths of passages, the longest and the most frequent ones."""
    found = findings.passages
    if found is None:
        return
    note = (
        "Tokens that are cut from documents that are kept, and documents that are removed whole because too little "
        "of them would be left. The shares are of the tokens before that. Passages of several parts may overlap."
    )
    table = by_source(findings.ledger, found.stats, findings.numbers)
    yield Section("Repeated passages", [note, *found.sentences], "", [table])
    names = {part: f"{part}: {name}" for part, name in enumerate(found.names, 1)}
    note = "Passages by their length in characters, for each part of the recipe. Each document's copy is counted."
    yield Section("Lengths of repeated passages", [note], lengths(found.stats, names))
    note = "The longest copies of passages in other documents than their owners, of each part."
    yield Section("The longest repeated passages", [note], texts=shown(found.longest, names))
    note = "The passages that the most documents share, of each part."
    yield Section("The most frequent repeated passages", [note], texts=shown(found.most_shared, names))


def by_source(ledger: Ledger, stats: PassageStats, numbers: dict[str, int]) -> Table:
    """List what the passages cut and removed of each source. numbers: of the sources in doc_ids."""
    rows = []
    for source in (*ledger.sources, None):
        left, removed, cut = (of("cuts", source) for of in (ledger.of, ledger.removed, ledger.cut))
        before = left + removed + cut
        with_passages = stats.documents.get(numbers[source], 0) if source else sum(stats.documents.values())
        rows.append(
            [source or "total", count(before.documents), count(with_passages), count(removed.documents),
             count(before.tokens), count(cut.tokens), share(cut.tokens, before.tokens), count(removed.tokens),
             share(removed.tokens, before.tokens)]
        )  # fmt: skip
    names = ["", "documents", "with passages", "removed", "tokens", "cut", "share", "removed", "share"]
    return Table("Cut and removed by source", names, rows, has_total=True)


def lengths(stats: PassageStats, names: dict[int, str]) -> str:
    """Draw the number of passages by their length, for each part."""
    figure, plot = axes()
    middles = np.sqrt(LENGTH_ENDS[:-1] * LENGTH_ENDS[1:].astype(float))
    for part, counts in sorted(stats.lengths.items()):
        drawn = np.flatnonzero(counts)
        some = slice(max(0, int(drawn[0]) - 1), int(drawn[-1]) + 2)
        plot.step(middles[some], counts[:-1][some], where="mid", label=names[part], color=COLOURS[part - 1])
    by_powers_of_ten(plot.xaxis)
    plot.set_xlabel("characters in a passage")
    plot.set_ylabel("passages")
    plot.legend(frameon=False, fontsize=8)
    return svg(figure)


def shown(listed: Sequence[ShownPassage], names: dict[int, str]) -> list[Text]:
    """Return the beginnings of passages, which the reader can open."""
    texts = list[Text]()
    for number, one in enumerate(listed):
        passage, place, owner = one.passage, one.place, one.owner
        summary = (
            f"{names[passage.part]}: {count(passage.end - passage.start)} characters, in "
            f"{count(passage.documents)} documents"
        )
        where = f"document {place.doc_id} ({place.source}, {place.file}, row {place.row})"
        where += f", characters {count(passage.start)} to {count(passage.end)}"
        if owner.doc_id != place.doc_id:
            where += f"; owner: document {owner.doc_id} ({owner.source}, {owner.file}, row {owner.row})"
        texts.append(Text(summary, ((where, one.beginning),), is_open=not number))
    return texts
