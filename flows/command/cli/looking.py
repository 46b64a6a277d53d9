"""The commands that look into a published corpus: ledger, explain, find, audit, report."""

from enum import StrEnum
from typing import Annotated

import typer

from flows.command.cli.arguments import RecipePath, Sample, Storage, command_of, load

looking = typer.Typer(rich_help_panel="Look into a corpus")


class LedgerFormat(StrEnum):
    """How to print a ledger."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


@command_of(looking, "zyda ledger recipe.yaml --format markdown")
def ledger(
    recipe: RecipePath,
    output: Annotated[LedgerFormat, typer.Option("--format", help="How to print it.")] = LedgerFormat.TEXT,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Print the ledger of the published corpus: documents, tokens and bytes by source and stage."""
    plan = load(recipe, storage, sample)
    from flows.command.show import print_ledger
    from tasks.accounts.ledger import as_json, as_markdown
    from tasks.accounts.published import published_ledger

    its_ledger = published_ledger(plan)
    if output is LedgerFormat.TEXT:
        print_ledger(its_ledger)
    else:
        typer.echo(as_json(its_ledger) if output is LedgerFormat.JSON else as_markdown(its_ledger), nl=False)


@command_of(looking, "zyda explain recipe.yaml 72057594037927936")
def explain(
    recipe: RecipePath,
    doc_id: Annotated[str, typer.Argument(metavar="DOC_ID", help="A document's id, in decimals or as 0x...")],
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Say where a document came from, what was decided about it and why, with a diff to the one kept."""
    plan = load(recipe, storage, sample)
    from flows.command.show import print_explanation
    from tasks.lookup.explain import explain as explain_document

    print_explanation(explain_document(plan, doc_id))


@command_of(looking, "zyda find recipe.yaml page.txt", "cat page.txt | zyda find recipe.yaml -")
def find(
    recipe: RecipePath,
    text: Annotated[
        str,
        typer.Argument(metavar="FILE-OR-TEXT", help="A file with a text, - for standard input, or a text."),
    ],
    most: Annotated[int, typer.Option(min=1, max=100, help="How many documents, at the most.")] = 10,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Find the published documents that are most like a text.

    Those that share a bucket with it are compared with it exactly. The exit status is 1 where there is none.
    """
    plan = load(recipe, storage, sample)
    from flows.command.find import print_nearest

    if not print_nearest(plan, text, most):
        raise typer.Exit(1)


@command_of(looking, "zyda audit recipe.yaml --pairs 2000")
def audit(
    recipe: RecipePath,
    pairs: Annotated[int, typer.Option(min=1, help="Removed documents to compare, at the most.")] = 10_000,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Compare removed near-duplicates with what was kept for them, text by text, on a sample.

    Buckets and clusters are made of signatures and chains. This says how many of the documents that went
    have no kept document like them, by source and by length, and shows the pairs that are least alike.
    """
    plan = load(recipe, storage, sample)
    from flows.command.show_audit import print_audit

    print_audit(plan, pairs)


@command_of(looking, "zyda report recipe.yaml")
def report(recipe: RecipePath, storage: Storage = None, sample: Sample = None) -> None:
    """Make a page of plots about the published corpus, and print where it is."""
    plan = load(recipe, storage, sample)
    from flows.command.terminal import say
    from flows.dashboard.report_artifact import write_report

    say(write_report(plan))
