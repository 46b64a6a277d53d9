"""The command line: `zyda build`, `explain`, `ledger`, `report`, `up`, `down`.

Parses, calls, prints. What takes seconds to import is imported inside the commands.
"""

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from tasks.errors import ZydaError
from tasks.recipe import Recipe, load_recipe

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


class Format(StrEnum):
    """How to print a ledger."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


@app.command()
def build(recipe: Path, storage: Storage = None, sample: Sample = None) -> None:
    """Build the corpus, or what is missing of it, and print its ledger.

    The exit status is 0 only when the corpus is complete. Start it again after an interruption:
    what is finished is not done again.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.run import run_build

    ledger = run_build(recipe, storage, sample, plan)
    from flows.show import print_ledger
    from tasks.artifacts import corpus_folder

    print_ledger(ledger)
    Console(soft_wrap=True).print(f"published: {corpus_folder(plan).url}/published", highlight=False)


@app.command()
def explain(
    recipe: Path,
    doc_id: Annotated[str, typer.Argument(help="A document's id, decimal or 0x....")],
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Say where a document came from, what was decided about it and why, with a diff to the one kept."""
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.show import print_explanation
    from tasks.explain import explain as explain_document

    print_explanation(explain_document(plan, doc_id))


@app.command()
def ledger(
    recipe: Path,
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Print the ledger of the published corpus: documents, tokens and bytes by source and stage."""
    plan: Recipe = load_recipe(recipe, storage=storage, sample=sample)
    from flows.show import print_ledger
    from tasks.ledger import as_json, as_markdown, published_ledger

    found = published_ledger(plan)
    if output is Format.TEXT:
        print_ledger(found)
    else:
        typer.echo(as_json(found) if output is Format.JSON else as_markdown(found), nl=False)


@app.command()
def report(recipe: Path, storage: Storage = None, sample: Sample = None) -> None:
    """Make a page of plots about the published corpus, and print where it is."""
    plan = load_recipe(recipe, storage=storage, sample=sample)
    from flows.report import write_report

    typer.echo(write_report(plan))


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
    workers: Annotated[int | None, typer.Option(help="Dask workers; one for each core if not given.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of each; 2 suit sources in an object store.")] = 1,
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


def main() -> Any:
    """Run the command line; an error that a person can mend is one line, and exit status 1."""
    try:
        return app()
    except ZydaError as error:
        for line in str(error).splitlines():
            print(f"zyda: {line}", file=sys.stderr)  # noqa: T201
        return 1
