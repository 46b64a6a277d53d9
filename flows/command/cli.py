"""The command line: the commands of `zyda`.

Parses, calls, prints. What takes seconds to import is imported inside the commands.
"""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tasks.errors import BadRecipe, Denied, ZydaError, on_one_line
from tasks.recipe.fields import Recipe
from tasks.recipe.loading import load_recipe

if TYPE_CHECKING:
    from tasks.accounts.ledger import Ledger

app = typer.Typer(
    help="Make language-model pretraining corpora out of many published datasets.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Path = Annotated[str, typer.Argument(metavar="RECIPE", help="The YAML file that describes the corpus.")]
Storage = Annotated[
    str | None, typer.Option(help="Where the corpus goes, instead of where the recipe says: any fsspec URL.")
]
Sample = Annotated[
    float | None,
    typer.Option(help="Use this part of the input, 0.001 say, and build a corpus of its own from it."),
]


Replace = Annotated[
    bool, typer.Option("--replace", help="Also where a corpus of other sources is published, which goes.")
]


LONGEST_LINE = 2000  # characters


class LedgerFormat(StrEnum):
    """How to print a ledger."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


@app.command()
def build(
    recipe: Path,
    storage: Storage = None,
    sample: Sample = None,
    replace: Replace = False,
) -> None:
    """Build the corpus, or what is missing of it, and print its ledger.

    The exit status is 0 only when the corpus is complete. Start it again after an interruption:
    what is finished is not done again.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from tasks.intake.built import ledger_if_complete

    if ledger := ledger_if_complete(plan):
        typer.echo("nothing to do: the corpus is complete, and its sources are as they were", err=True)
        show_corpus(plan, ledger)
    else:
        build_and_show(recipe, storage, sample, plan, replace=replace)


def build_and_show(
    recipe: str, storage: str | None, sample: float | None, plan: Recipe, *, replace: bool = False
) -> None:
    from flows.command import run

    show_corpus(plan, run.run_build(recipe, storage, sample, plan, replace=replace))


def show_corpus(plan: Recipe, ledger: "Ledger") -> None:
    """Print a corpus's ledger and where it is."""
    from flows.command.show import print_ledger
    from tasks.accounts.published import corpus_of

    print_ledger(ledger)
    manifest = corpus_of(plan)[1]
    for stage in (stage for stage in ledger.stages if stage.startswith("against")):
        removed = ledger.removed(stage).documents
        typer.echo(f"{stage}: {removed:,} documents went for what other corpora have")
    for headline in manifest.audits.values():
        typer.echo(headline.sentence())
    typer.echo(f"published: {plan.folder.url}/published")


@app.command()
def explain(
    recipe: Path,
    doc_id: Annotated[str, typer.Argument(help="A document's id, decimal or 0x....")],
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Say where a document came from, what was decided about it and why, with a diff to the one kept."""
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.command.show import print_explanation
    from tasks.publish.explain import explain as explain_document

    print_explanation(explain_document(plan, doc_id))


@app.command()
def find(
    recipe: Path,
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
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.command.find import print_nearest

    if not print_nearest(plan, text, most):
        raise typer.Exit(1)


@app.command()
def ledger(
    recipe: Path,
    output: Annotated[LedgerFormat, typer.Option("--format", help="How to print it.")] = LedgerFormat.TEXT,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Print the ledger of the published corpus: documents, tokens and bytes by source and stage."""
    plan: Recipe = load_recipe(recipe, storage=storage, sample=sample)
    from flows.command.show import print_ledger
    from tasks.accounts.ledger import as_json, as_markdown
    from tasks.accounts.published import published_ledger

    its_ledger = published_ledger(plan)
    if output is LedgerFormat.TEXT:
        print_ledger(its_ledger)
    else:
        typer.echo(as_json(its_ledger) if output is LedgerFormat.JSON else as_markdown(its_ledger), nl=False)


@app.command()
def report(recipe: Path, storage: Storage = None, sample: Sample = None) -> None:
    """Make a page of plots about the published corpus, and print where it is."""
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.report import write_report

    typer.echo(write_report(plan))


@app.command()
def check(recipe: Path, storage: Storage = None, sample: Sample = None, replace: Replace = False) -> None:
    """Look for every fault that can be found before work, and say what a build would read. Builds nothing.

    Sources are listed, a part of every new file is read, tokenizer and models are looked at.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.command.check import check_recipe

    check_recipe(plan, replace=replace)


@app.command("try")
def try_(
    recipe: Path,
    documents: Annotated[int, typer.Option(min=1, help="How many, of all sources together.")] = 1000,
    examples: Annotated[int, typer.Option(min=0, max=100, help="How many to show of each rule.")] = 3,
) -> None:
    """Do the recipe's steps on documents to some of them, and show what each rule takes. Writes nothing.

    For values to be tuned in seconds: change the recipe, and try again.
    """
    plan = load_recipe(recipe)
    from flows.command.show_trial import print_trial

    print_trial(plan, documents, examples)


@app.command()
def audit(
    recipe: Path,
    pairs: Annotated[int, typer.Option(min=1, help="Removed documents to compare, at the most.")] = 10_000,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Compare removed near-duplicates with what was kept for them, text by text, on a sample.

    Buckets and clusters are made of signatures and chains. This says how many of the documents that went
    have no kept document like them, by source and by length, and shows the pairs that are least alike.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.command.show_audit import print_audit

    print_audit(plan, pairs)


@app.command()
def params(
    threshold: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="The Jaccard similarity from which on pairs are wanted.")
    ] = 0.8,
    values: Annotated[int, typer.Option(min=2, max=1024, help="Values of a signature, at most.")] = 128,
    picture: Annotated[str | None, typer.Option(help="Draw the curve, as an SVG file.")] = None,
) -> None:
    """Find the bands and rows that err least for a similarity, and show how many pairs they find.

    More values err less, and take as much more time and room.
    """
    from flows.command.params import print_params

    print_params(threshold, values, picture)


@app.command()
def verify(
    recipe: Path,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make again what is damaged, from what it was made of.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Read every published file, and all that it was made by, and compare each with its digest.

    The exit status is 0 only when all is as it was written, or has been repaired.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.command.verify_and_clean import mend, verify_corpus

    faults = verify_corpus(plan)
    if faults and not repair:
        raise Denied(
            f"{len(faults)} files are not as they were written; zyda verify --repair makes them again"
        )
    if faults:
        mend(plan, faults)
        build_and_show(recipe, storage, sample, plan)


@app.command()
def clean(
    recipe: Path,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Remove what earlier builds left in the work folder and the published corpus does not need.

    What a build that has not come to its end has written since stays, and so does what the next build of
    the same recipe can use again.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.command.verify_and_clean import clean_corpus

    clean_corpus(plan, dry_run=dry_run)


@app.command()
def watch(
    recipe: Annotated[str | None, typer.Argument(metavar="RECIPE", help="What to watch.")] = None,
    every: Annotated[str | None, typer.Option(help="How often to look: 30s, 15m, 1h or 1d.")] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Look at this corpus no more.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Print what is watched.")] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Look at a recipe's sources again and again, and build the corpus when they have changed.

    The watching is done by what `zyda up` started. Any number of corpora can be watched; saying it
    again of the same one changes how often.
    """
    from deployments.schedules import change_or_show

    for line in change_or_show(recipe, every, stop, show, storage, sample):
        typer.echo(line)


@app.command()
def up(
    workers: Annotated[
        int | None, typer.Option(min=1, help="Dask workers; one for each core if not given.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads of each; 2 suit sources in an object store.")
    ] = 1,
    env: Annotated[
        bool, typer.Option("--env", help="Print its settings for a shell; start nothing.")
    ] = False,
) -> None:
    """Start the stack on this machine: Prefect server, Dask cluster, worker, deployments.

    What runs already is left alone. Everything listens on the loopback address.
    """
    from deployments.local import describe, exports, running_stack
    from deployments.local import up as start_stack

    lines = exports(running_stack()) if env else describe(start_stack(typer.echo, workers, threads))
    for line in lines:
        typer.echo(line)


@app.command()
def down() -> None:
    """Stop what `zyda up` started; runs and settings are kept for the next time."""
    from deployments.local import down as stop_stack

    stop_stack(typer.echo)


def short_line(line: str) -> str:
    """Leave out the middle of a line that nobody would read."""
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"


def main() -> Any:
    """Run the command line; an error that a person can mend is one line, and exit status 1."""
    try:
        return app()
    except ZydaError as error:
        for fault in error.faults if isinstance(error, BadRecipe) else [on_one_line(str(error))]:
            print(f"zyda: {short_line(fault)}", file=sys.stderr)  # noqa: T201
        return 1
