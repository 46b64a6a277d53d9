"""`zyda recipes`: list, print or copy the recipes, mixtures and experiments of the package."""

from pathlib import Path
from typing import Annotated

import typer

from zyda_flows.flows.command.packaged import packaged_files, sentence_of, text_of, write_new
from zyda_flows.flows.command.terminal import console, say, table_of

NEXT = {"mixtures": "zyda mix --plan", "experiments": "zyda ablate"}  # the command for a file of a folder
EXAMPLES = ("zyda recipes", "zyda recipes zyda2 > my.yaml", "zyda recipes mixtures/zyda2 --to mixture.yaml")


def names_like(incomplete: str) -> list[str]:
    return [name for name in packaged_files() if name.startswith(incomplete)]


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Recipe or mixture to print.", autocompletion=names_like),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it to this new file instead of printing it.")
    ] = None,
) -> None:
    """List the recipes, mixtures and experiments of the package, or print one of them.

    Names of mixtures begin with `mixtures/`, those of experiments with `experiments/`. To use a file, write a copy
    with --to. In the copy of a recipe, set `storage` and the files of the sources; in the copy of a mixture, set
    `storage` and `corpora`; in the copy of an experiment, set `storage`, the variants and the evaluations.
    """
    if name is None:
        print_list()
    elif to is None:
        typer.echo(text_of(name), nl=False)
    else:
        write_new(to, text_of(name))
        command = NEXT.get(name.partition("/")[0], "zyda check")
        say(f"wrote {to}; change it, then: {command} {to}")


def print_list() -> None:
    """Print the name and a description of each recipe and mixture."""
    table = table_of("name", "", words=["name", ""])
    for name, path in packaged_files().items():
        table.add_row(name, sentence_of(path))
    console().print(table)
