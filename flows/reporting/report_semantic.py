"""The report's chapter about semantic rounds: removals and pairs by cosine, contradictions, removed documents."""

from collections.abc import Iterator, Sequence

from zyda_flows.flows.reporting.plots import axes, short, svg
from zyda_flows.flows.reporting.report_parts import Fact, Section, Table, Text, count
from zyda_flows.tasks.accounts.paired import PairAccount
from zyda_flows.tasks.lookup.judge_findings import NearDocument
from zyda_flows.tasks.lookup.pair_findings import PairFindings, RemovableAt, ShownPair
from zyda_flows.tasks.lookup.pair_stats import RELATIONS
from zyda_flows.tasks.lookup.report_findings import Findings
from zyda_flows.tasks.semantic.compared_texts import LEAST_LACKING, NEW_GRAMS, REWRITTEN

UPPER_BOUND = (
    "A document counts for a cosine if it is in a published pair with this cosine or more, and the other document "
    "is of a better-ranked source or, with scope global, before it in the same source. Chains are not followed: "
    "the other document may itself be removed, and then this one is kept. So the figures are upper bounds for the "
    "published pairs. They consider the order of the sources, and no other `prefer`. At low cosines, documents are "
    "missing whose pairs were not proposed."
)
GUARD = "With the facts guard, the other document must also have its facts, and it must be no edited version."


def semantic_pairs(findings: Findings) -> Iterator[Section]:
    """Yield what each cosine would remove, the pairs, contradictions and removed documents of semantic rounds."""
    for dedup_round in findings.rounds:
        if found := dedup_round.pairs:
            suffix = f", round {dedup_round.number}" if len(findings.rounds) > 1 else ""
            yield from sections_of(found, suffix)


def sections_of(found: PairFindings, suffix: str) -> Iterator[Section]:
    """Yield the sections about a round."""
    table = removable_table(found.removable)
    yield Section(f"Removals by cosine{suffix}", [UPPER_BOUND, GUARD], removable(found.removable), [table])
    notes = [
        found.account.sentence(),
        "The facts of a pair are the same if a document has all facts of the other, and the other is no edited "
        "version: it is a copy, or a text in other words. Of such a text, this document lacks at least "
        f"{REWRITTEN:.0%} and {LEAST_LACKING} of the words, and {NEW_GRAMS:.0%} of the 3-grams of words.",
    ]
    tables = [pairs_table(found), search_table(found.account)]
    yield Section(f"Similar pairs by cosine{suffix}", notes, tables=tables)
    if found.contradictions:
        note = (
            "The pairs with the highest cosines in which each document has facts that the other lacks. A + marks a "
            "negation that only the other document has. The texts begin before their first difference."
        )
        texts = [*map(pair_text, found.contradictions)]
        yield Section(f"Contradictions{suffix}", [note], texts=texts)
    if found.removed:
        note = (
            "The removed documents with the largest shares of 3-grams of words that the kept document lacks. Read "
            "them to see whether the cosine is high enough."
        )
        texts = [*map(pair_text, found.removed)]
        yield Section(f"Removed documents with the most new words{suffix}", [note], texts=texts)


def removable(rows: Sequence[RemovableAt]) -> str:
    """Draw the documents that each threshold would remove, with and without the facts guard."""
    figure, plot = axes()
    places = [row.threshold for row in rows]
    plot.plot(places, [row.documents.documents for row in rows], marker="o", ms=3, label="cosine only")
    plot.plot(
        places, [row.with_facts.documents for row in rows], marker="o", ms=3, label="with the facts guard"
    )
    plot.set_xticks(places[::2])
    plot.set_ylim(bottom=0)
    plot.yaxis.set_major_formatter(short)
    plot.set_xlabel("lowest cosine")
    plot.set_ylabel("documents")
    plot.legend(frameon=False, fontsize=8)
    return svg(figure)


def removable_table(rows: Sequence[RemovableAt]) -> Table:
    names = [
        "lowest cosine",
        "documents",
        "tokens",
        "documents, with facts guard",
        "tokens, with facts guard",
    ]
    cells = [
        [f"{row.threshold:.2f}", *(count(number) for each in (row.documents, row.with_facts)
                                   for number in (each.documents, each.tokens))]
        for row in rows
    ]  # fmt: skip
    return Table("At most removed by each cosine", names, cells)


def pairs_table(found: PairFindings) -> Table:
    names = ["cosine", "pairs", *RELATIONS]
    rows = list[list[str]]()
    for each in found.bins:
        title = "below 0.80" if each.lowest is None else f"{each.lowest:.2f} to {each.lowest + 0.01:.2f}"
        rows.append([title, *map(count, (sum(each.pairs.values()), *each.pairs.values()))])
    return Table("Pairs by cosine", names, rows)


def search_table(account: PairAccount) -> Table:
    """List how the pairs were found."""
    confirmed, proposed = account.confirmed, account.confirmed.proposed
    facts = [
        Fact("documents with a vector", count(proposed.documents)),
        Fact("bits of a band", count(proposed.bits)),
        Fact("bands", count(proposed.bands)),
        Fact("pairs at the lowest cosine that share a bucket, by the formula", f"{proposed.found:.1%}"),
        Fact("candidates, counted in each band", count(proposed.candidates)),
        Fact("pairs not compared, because a bucket was divided", count(proposed.uncompared)),
        Fact("pairs left out, because a document has too many in a bucket", count(proposed.left_out)),
        Fact("proposed pairs", count(proposed.pairs)),
        Fact("documents in a proposed pair", count(confirmed.documents)),
        Fact("windows of long texts left out", count(confirmed.windows_left_out)),
        Fact("published pairs", count(confirmed.pairs)),
        Fact("published contradictions", count(account.contradictions)),
    ]
    return Table("How the pairs were found", ["", "number"], [[fact.name, fact.text] for fact in facts])


def pair_text(shown: ShownPair) -> Text:
    """Return the texts of a pair, with the facts that differ."""
    first, second = shown.first.place, shown.second.place
    novel = "" if shown.novel is None else f", {shown.novel:.1%} new 3-grams"
    one, other = (f"{place.doc_id} ({place.source})" for place in (first, second))
    summary = f"{shown.cosine:.3f}{novel}: document {one} and {other}"
    both = zip((shown.first, shown.second), shown.facts, strict=True)
    return Text(summary, tuple(side_of(document, facts) for document, facts in both))


def side_of(document: NearDocument, facts: str) -> tuple[str, str]:
    place = document.place
    differ = f"; facts that the other lacks: {facts}" if facts else ""
    return f"{place.source}, {place.file}, row {place.row}, {document.decision}{differ}", document.beginning
