"""`zyda ledger`: print the documents that each stage received, removed and kept."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import console, say, table_of
from zyda_flows.tasks.words import and_replaced, counted, in_words

if TYPE_CHECKING:
    from zyda_flows.tasks.accounts.ledger import Ledger
    from zyda_flows.tasks.accounts.published import Published
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = ("zyda ledger recipe.yaml --format markdown",)
MAX_COLUMNS = 6
MOST_PARTS = 10  # components, licences or languages in a table
MOST_REASONS = 5  # reasons for skipped records, on a line


class LedgerFormat(StrEnum):
    """How to print a ledger."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def ledger(
    recipe_path: RecipePath,
    output: Annotated[
        LedgerFormat,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="text with documents and tokens, markdown with tokens, or json with documents, tokens and bytes.",
        ),
    ] = LedgerFormat.TEXT,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Print the ledger of a published corpus: input of each source, removals of each stage, and output."""
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.tasks.accounts.ledger_formats import as_json, as_markdown  # late
    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late

    if output is LedgerFormat.TEXT:
        show_corpus(recipe)
    else:
        write = as_json if output is LedgerFormat.JSON else as_markdown
        typer.echo(write(PublishedCorpus.of(recipe).manifest.ledger), nl=False)


def show_corpus(recipe: "Recipe") -> None:
    """Print the ledger of the published corpus, the results of its audits, and its place."""
    from zyda_flows.tasks.accounts.ledger_summary import large_losses  # late
    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late

    manifest = PublishedCorpus.of(recipe).manifest
    ledger = manifest.ledger
    print_ledger(ledger)
    for name in ("component", "license", "language"):
        print_parts(recipe, manifest, name)
    for join in manifest.joins:
        say(join.sentence)
    for stage in (stage for stage in ledger.stages if stage != "rules"):  # rules have a table
        for reason, counts in ledger.removed_by(stage).items():
            say(f"{in_words(stage)} removed {counts.sentence()}: {reason}")
        if (cut := ledger.cut(stage)).bytes:
            say(f"{in_words(stage)} cut {counted(cut.tokens, 'token')} from documents that are kept")
    for headline in manifest.audits.values():
        say(headline.sentence())
    say(f"published: {recipe.folder.url}/published")
    for sentence in large_losses(ledger):  # last, where readers look first
        console().print(sentence, style="bold red", soft_wrap=True)


def print_ledger(ledger: "Ledger") -> None:
    """Print documents and tokens of each source before, between and after the stages."""
    from rich.table import Table  # late

    from zyda_flows.tasks.accounts.ledger_summary import token_paths  # late

    table = Table(padding=(0, 1, 0, 0))
    table.add_column("source", overflow="fold")
    between = [f"after {stage}" for stage in ledger.stages_between]
    for name in (
        "documents\nstart",
        "documents\nend",
        *(f"tokens\n{when}" for when in ("start", *between, "end")),
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kept", justify="right", no_wrap=True)
    for source, start, counts_between, end in token_paths(ledger):
        if source == "total":
            table.add_section()
        tokens = (counts.tokens for counts in (start, *counts_between, end))
        kept = f"{end.tokens / start.tokens:.1%}" if start.tokens else ""
        style = "bold red" if start.documents and not end.documents else None
        table.add_row(
            source, *(f"{n:,}" for n in (start.documents, end.documents, *tokens)), kept, style=style
        )
    console().print(table)
    print_reasons(ledger)
    print_judges(ledger)
    for line in (line for line in ledger.lines if line.skipped):
        most = sorted(line.skipped.items(), key=lambda skipped: -skipped[1])
        reasons = ", ".join(f"{records:,} {reason}" for reason, records in most[:MOST_REASONS])
        more = ", and others; see skipped.parquet" if len(most) > MOST_REASONS else ""
        console().print(
            f"{counted(sum(line.skipped.values()), 'record')} of {line.source} skipped, which are not documents: "
            f"{reasons}{more}", soft_wrap=True
        )  # fmt: skip
    for line in (line for line in ledger.lines if line.special_tokens):
        console().print(line.special_sentence(), soft_wrap=True, markup=False)
    set_aside = sum(line.set_aside.documents for line in ledger.lines)
    if set_aside:
        console().print(
            f"{counted(set_aside, 'row')} set aside: not valid documents, or the rest of a damaged file; "
            "see published/set_aside for the reasons", soft_wrap=True
        )  # fmt: skip


def print_judges(ledger: "Ledger") -> None:
    """Print the documents that each judge judged and removed, if the recipe has judges."""
    from zyda_flows.tasks.accounts.judged import HEADS, judge_accounts, judge_cells  # late

    if accounts := [*judge_accounts(ledger)]:
        table = table_of(*HEADS, words=["judge", "source"], title="Judges")
        for account in accounts:
            table.add_row(*judge_cells(account))
        console().print(table)
        for sentence in filter(None, (account.sentence() for account in accounts)):
            say(sentence)


def print_parts(recipe: "Recipe", manifest: "Published", name: str) -> None:
    """Print documents and tokens of the largest components, licences or languages, if they are counted."""
    from zyda_flows.tasks.accounts.components import accounts_of, added_up, start_and_end  # late

    if not any(file.path == f"{name}s.parquet" for file in manifest.accounts):
        return
    totals = start_and_end(added_up(accounts_of(recipe.folder, name).values()))
    parts = sorted(totals.items(), key=lambda item: (-item[1][0].tokens, item[0] or ""))
    columns = ("documents", "tokens", "documents published", "tokens published")
    table = table_of(name, *columns, words=[name], title=f"By {name}")
    for part, ends in parts[:MOST_PARTS]:
        table.add_row(
            part or "(none)", *(f"{n:,}" for counts in ends for n in (counts.documents, counts.tokens))
        )
    console().print(table)
    if len(parts) > MOST_PARTS:
        say(f"{len(parts) - MOST_PARTS:,} others are in published/{name}s.parquet")


def print_reasons(ledger: "Ledger") -> None:
    """Print the removals of each rule, if the recipe has rules, and the changes by cleaning."""
    from zyda_flows.tasks.storage.counts import Counts  # late

    by_rule = ledger.removed_by("rules")
    if not by_rule:
        return
    shown_sources = ledger.sources if len(ledger.sources) <= MAX_COLUMNS else ()
    columns = ("rule", "documents", "tokens", *shown_sources)
    table = table_of(*columns, words=["rule"], title="Removed by the rules")
    for rule, counts in by_rule.items():
        by_source = (
            ledger.removed_by("rules", source).get(rule, Counts()).documents for source in shown_sources
        )
        table.add_row(rule, f"{counts.documents:,}", f"{counts.tokens:,}", *(f"{n:,}" for n in by_source))
    console().print(table)
    for row in (row for row in ledger.cleaned().to_pylist() if row["documents"]):
        console().print(
            f"{row['cleaning']} changed {counted(row['documents'], 'document')} of {row['source']}: "
            f"{row['characters_before']:,} characters became {row['characters_after']:,}"
            f"{and_replaced(row['replaced'])}",
            soft_wrap=True,
        )
