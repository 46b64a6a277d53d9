"""`zyda audit`: how like the removed near-duplicates are to what was kept, as tables and differences."""

from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.command.show import DIFF_STYLES, console
from tasks.publish.audits import (
    SIMILARITIES,
    Shares,
    audit_again,
    audited,
    by_length,
    by_source,
    differences,
    worst,
)
from tasks.recipe.fields import Recipe
from tasks.storage.artifacts import Receipt

DIFF_LINES = 12


def print_audit(plan: Recipe, pairs: int) -> None:
    """Audit the last build of a corpus, and print what was found."""
    receipt, table = audit_again(plan, pairs)
    headline = audited(table, plan.dedup)
    out = console()
    out.print(headline.sentence())
    if not headline.pairs:
        return
    out.print(table_of_shares(by_source(table, headline.threshold), headline.threshold))
    lengths = Table(title="Up to a length, unlike all that was kept", title_justify="left")
    for name in ("characters", "pairs without a kept document that is like them"):
        lengths.add_column(name, justify="right")
    for characters, share in by_length(table, headline.threshold):
        lengths.add_row(f"{characters:,}", f"{share:.1%}")
    out.print(lengths)
    out.print("The pairs that are least alike:")
    for line in pairs_with_differences(plan, receipt, worst(table)):
        out.print(line)


def table_of_shares(rows: list[Shares], threshold: float) -> Table:
    table = Table(title="Pairs below a Jaccard similarity", title_justify="left")
    table.add_column("source", overflow="fold")
    for name in ("pairs", *(f"< {place:g}" for place in SIMILARITIES), f"< {threshold:.2f}, asked for"):
        table.add_column(name, justify="right")
    for row in rows:
        if row.name == "all":
            table.add_section()
        table.add_row(escape(row.name), f"{row.pairs:,}", *(f"{share:.1%}" for share in row.below))
    return table


def pairs_with_differences(plan: Recipe, receipt: Receipt, pairs: list[dict[str, object]]) -> Iterator[Text]:
    """Write each pair with the first lines in which its texts differ."""
    for pair, lines in zip(pairs, differences(plan.folder, receipt, pairs), strict=True):
        steps = pair["steps"] or "many"
        yield Text(
            f"\n{pair['doc_id']} ({pair['source']}, {pair['characters']:,} characters) went for "
            f"{pair['kept_doc_id']} ({pair['kept_characters']:,}): Jaccard {pair['jaccard']:.2f}, containment "
            f"{pair['containment']:.2f}, edit {pair['edit']:.2f}, {steps} buckets apart",
            style="bold",
        )
        for line in lines[:DIFF_LINES]:
            yield Text(f"  {line}"[:200], style=DIFF_STYLES.get(line[:1], ""))
        if len(lines) > DIFF_LINES:
            yield Text(f"  ... and {len(lines) - DIFF_LINES:,} lines more; zyda explain shows them")
