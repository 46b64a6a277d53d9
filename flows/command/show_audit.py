"""`zyda audit`: how like the removed near-duplicates are to what was kept, as tables and differences."""

from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.command.show import DIFF_STYLES
from flows.command.terminal import console
from tasks.accounts.audited import MEASURES, Audited
from tasks.publish.audits import (
    SIMILARITIES,
    Pair,
    Shares,
    audit_again,
    audited,
    by_index_of,
    by_length,
    by_source,
    pairs_of,
    worst_pairs,
)
from tasks.recipe.fields import Recipe

DIFF_LINES = 12


def print_audit(plan: Recipe, pairs: int) -> None:
    """Audit the last build of a corpus, each of its rounds of near-duplicates, and print what was found."""
    for of_round in plan.each_round():
        if not of_round.dedup.exact:
            print_audit_of_round(of_round, pairs)


def print_audit_of_round(plan: Recipe, pairs: int) -> None:
    with console(stderr=True).status("comparing texts"):
        manifest = audit_again(plan, pairs)
    table = pairs_of(plan.folder, manifest)
    headline, out = audited(table, plan.dedup, by_index_of(manifest)), console()
    out.print(headline.sentence(), soft_wrap=True)
    if not headline.pairs:
        return
    out.print(table_of_shares(by_source(table, headline), headline))
    out.print(table_of_lengths(by_length(table, headline)))
    out.print("The pairs that are least alike:")
    for line in with_differences(worst_pairs(plan.folder, manifest, table, headline.measure)):
        out.print(line, soft_wrap=True)


def table_of_shares(rows: Sequence[Shares], headline: Audited) -> Table:
    table = Table(title=f"Pairs below a {MEASURES[headline.measure]}", title_justify="left")
    table.add_column("source", overflow="fold")
    for name in (
        "pairs",
        *(f"< {place:g}" for place in SIMILARITIES),
        f"< {headline.threshold:.2f}, asked for",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        if row.name == "all":
            table.add_section()
        table.add_row(escape(row.name), f"{row.pairs:,}", *(f"{share:.1%}" for share in row.below))
    return table


def table_of_lengths(rows: Sequence[tuple[int, float]]) -> Table:
    table = Table(title="Up to a length", title_justify="left")
    table.add_column("characters", justify="right")
    table.add_column("share of unlike pairs", justify="right")
    for characters, share in rows:
        table.add_row(f"{characters:,}", f"{share:.1%}")
    return table


def with_differences(pairs: Sequence[Pair]) -> Iterator[Text]:
    """Write each pair with the first lines in which its texts differ."""
    for pair in pairs:
        yield Text(f"\n{pair.sentence()}", style="bold")
        for line in pair.lines[2 : DIFF_LINES + 2]:  # without the names
            yield Text(f"  {line}"[:200], style=DIFF_STYLES.get(line[:1], ""))
        if len(pair.lines) > DIFF_LINES + 2:
            yield Text(f"  ... and {len(pair.lines) - DIFF_LINES - 2:,} lines more; zyda explain shows them")
