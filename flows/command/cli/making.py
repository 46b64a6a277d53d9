"""The commands that make a corpus, and those that help to write its recipe: check, try, params, build."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.command.cli.arguments import RecipePath, Replace, Sample, Storage, command_of, load

if TYPE_CHECKING:
    from tasks.accounts.ledger import Ledger
    from tasks.recipe.fields import Recipe

making = typer.Typer(rich_help_panel="Make a corpus")


@command_of(making, "zyda check recipe.yaml")
def check(
    recipe: RecipePath, storage: Storage = None, sample: Sample = None, replace: Replace = False
) -> None:
    """Look for every fault that can be found before work, and say what a build would read. Builds nothing.

    Sources are listed, a part of every new file is read, tokenizer and models are looked at.
    """
    plan = load(recipe, storage, sample)
    from flows.command.check import check_recipe

    check_recipe(plan, replace=replace)


@command_of(making, "zyda try recipe.yaml --documents 5000", name="try")
def try_(
    recipe: RecipePath,
    documents: Annotated[int, typer.Option(min=1, help="How many, of all sources together.")] = 1000,
    examples: Annotated[int, typer.Option(min=0, max=100, help="How many to show of each rule.")] = 3,
) -> None:
    """Do the recipe's steps on documents to some of them, and show what each rule takes. Writes nothing.

    For values to be tuned in seconds: change the recipe, and try again.
    """
    plan = load(recipe, None, None)
    from flows.command.show_trial import print_trial

    print_trial(plan, documents, examples)


@command_of(making, "zyda params --threshold 0.85", "zyda params --values 256 --picture curve.svg")
def params(
    threshold: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="The Jaccard similarity from which on pairs are wanted.")
    ] = 0.8,
    values: Annotated[int, typer.Option(min=2, max=1024, help="Values of a signature, at most.")] = 128,
    picture: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the curve, as SVG.")] = None,
) -> None:
    """Find the bands and rows that err least for a similarity, and show how many pairs they find.

    More values err less, and take as much more time and room.
    """
    from flows.command.params import print_params

    print_params(threshold, values, picture)


@command_of(
    making,
    "zyda build recipe.yaml",
    "zyda build recipe.yaml --sample 0.001",
    "zyda build recipe.yaml --storage s3://bucket/corpora",
)
def build(
    recipe: RecipePath, storage: Storage = None, sample: Sample = None, replace: Replace = False
) -> None:
    """Build the corpus, or what is missing of it, and print its ledger.

    The exit status is 0 only when the corpus is complete. Start it again after an interruption: what is
    finished is not done again.
    """
    plan = load(recipe, storage, sample)
    from tasks.planning.last_build import ledger_if_complete

    if ledger := ledger_if_complete(plan):
        typer.echo("nothing to do: the corpus is complete, and its sources have not changed", err=True)
        show_corpus(plan, ledger)
    else:
        build_and_show(recipe, storage, sample, plan, replace=replace)


def build_and_show(
    recipe: str, storage: str | None, sample: float | None, plan: "Recipe", *, replace: bool = False
) -> None:
    from flows.command import run

    show_corpus(plan, run.run_build(recipe, storage, sample, plan, replace=replace))


def show_corpus(plan: "Recipe", ledger: "Ledger") -> None:
    """Print a corpus's ledger and where it is."""
    from flows.command.show import print_ledger
    from flows.command.terminal import say
    from tasks.accounts.published import corpus_of

    print_ledger(ledger)
    manifest = corpus_of(plan)[1]
    for stage in (stage for stage in ledger.stages if stage.startswith("against")):
        removed = ledger.removed(stage).documents
        typer.echo(f"{stage}: {removed:,} documents went for what other corpora have")
    for headline in manifest.audits.values():
        say(headline.sentence())
    say(f"published: {plan.folder.url}/published")
