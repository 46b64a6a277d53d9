"""`zyda audit`: compare the texts of removed near-duplicates with those of the kept documents."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import DIFF_STYLES, console
from zyda_flows.tasks.errors import Denied

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from zyda_flows.tasks.accounts.audited import AuditCounts
    from zyda_flows.tasks.publish.audits import AuditedPair, SharesBelow
    from zyda_flows.tasks.recipe.fields import Recipe
    from zyda_flows.tasks.recipe.rounds import Round

EXAMPLES = ("zyda audit recipe.yaml --pairs 2000",)
DIFF_LINES = 12


def audit(
    recipe_path: RecipePath,
    pairs: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Largest number of removed documents to compare in each round."
        ),
    ] = 10_000,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Compare the texts of a sample of removed near-duplicates with the texts of the kept documents.

    Deduplication compares signatures, and a chain of similar documents can join documents that are not similar.
    This command counts the removed documents that are not similar to any kept document, by source and by length,
    and shows the least similar pairs. Every build ends with the same audit of at most 1,000
    documents of each round.
    """
    recipe = load(recipe_path, storage, sample)
    expect_same_rounds(recipe)
    from zyda_flows.tasks.dedup.audit import audit as audit_stage  # late
    from zyda_flows.tasks.recipe.rounds import rounds_of  # late

    for dedup_round in rounds_of(recipe):
        if audit_stage.enabled(dedup_round, ""):
            print_audit(dedup_round, pairs)


def expect_same_rounds(recipe: "Recipe") -> None:
    """Raise Denied if the published corpus was built with another `dedup` than that of the recipe."""
    from zyda_flows.tasks.accounts.published import published_manifest  # late

    manifest = published_manifest(recipe.folder)
    if manifest is not None and manifest.recipe.get("dedup") != recipe.as_written["dedup"]:
        raise Denied(
            f"{recipe.folder.url} was built with another `dedup` than this recipe has; build it again, or audit it "
            "with the recipe that it was built with (zyda status lists the changes)"
        )


def print_audit(dedup_round: "Round", pairs: int) -> None:
    from zyda_flows.tasks.dedup.audit import minhash_round_of  # late
    from zyda_flows.tasks.publish.audits import (  # late
        audit_again,
        by_index_of,
        by_length,
        by_source,
        count_unlike,
        pairs_of,
        removed_in,
        worst_pairs,
    )

    with console(stderr=True).status("comparing texts"):
        manifest = audit_again(dedup_round, pairs)
    table = pairs_of(dedup_round.folder, manifest)
    dedup, out = minhash_round_of(dedup_round), console()
    headline = count_unlike(table, dedup, by_index_of(manifest), removed_in(manifest))
    out.print(headline.sentence(), soft_wrap=True)
    if not headline.pairs:
        return
    out.print(shares_by_source(by_source(table, headline), headline))
    out.print(shares_by_length(by_length(table, headline)))
    out.print("The least similar pairs:")
    for line in with_differences(worst_pairs(dedup_round.folder, manifest, table, headline.measure)):
        out.print(line, soft_wrap=True)


def shares_by_source(rows: "Sequence[SharesBelow]", headline: "AuditCounts") -> "Table":
    from rich.markup import escape  # late
    from rich.table import Table  # late

    from zyda_flows.tasks.accounts.audited import MEASURES  # late
    from zyda_flows.tasks.publish.audits import SIMILARITIES  # late

    table = Table(title=f"Pairs below a {MEASURES[headline.measure]}", title_justify="left")
    table.add_column("source", overflow="fold")
    for name in (
        "pairs",
        *(f"< {place:g}" for place in SIMILARITIES),
        f"< {headline.threshold:.2f}, the threshold",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        if row.name == "all":
            table.add_section()
        table.add_row(escape(row.name), f"{row.pairs:,}", *(f"{share:.1%}" for share in row.below))
    return table


def shares_by_length(rows: Sequence[tuple[int, float]]) -> "Table":
    from rich.table import Table  # late

    table = Table(title="By length of the removed document, at most", title_justify="left")
    table.add_column("characters", justify="right")
    table.add_column("share below the threshold", justify="right")
    for characters, share in rows:
        table.add_row(f"{characters:,}", f"{share:.1%}")
    return table


def with_differences(pairs: "Sequence[AuditedPair]") -> "Iterator[Text]":
    """Yield a heading and the first lines of a diff for each pair."""
    from rich.text import Text  # late

    for pair in pairs:
        yield Text(f"\n{pair.sentence()}", style="bold")
        for line in pair.lines[2 : DIFF_LINES + 2]:  # without the names of the files
            yield Text(f"  {line}"[:200], style=DIFF_STYLES.get(line[:1], ""))
        if len(pair.lines) > DIFF_LINES + 2:
            yield Text(f"  ... and {len(pair.lines) - DIFF_LINES - 2:,} more lines; zyda explain shows them")
