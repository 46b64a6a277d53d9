"""What the commands share: how they are declared, and the arguments that many of them have."""

import inspect
from collections.abc import Callable, Iterator
from glob import escape, iglob
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tasks.recipe.fields import Recipe

ENDINGS = (".yaml", ".yml")
MOST_OFFERED = 100

Command = Callable[..., None]


def command_of(app: typer.Typer, *examples: str, name: str | None = None) -> Callable[[Command], Command]:
    """Declare a command, whose help is its docstring, with paragraphs that break where the terminal ends.

    examples: command lines to show below it.
    """

    def declare(command: Command) -> Command:
        help_text = flowing(command.__doc__ or "")
        epilog = "\n".join(["For example:", *examples]) if examples else None
        panel = app.rich_help_panel
        return app.command(name, help=help_text, epilog=epilog, rich_help_panel=panel)(command)

    return declare


def flowing(text: str) -> str:
    """Join the lines of each paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def load(recipe: str, storage: str | None, sample: float | None) -> "Recipe":
    from tasks.recipe.loading import load_recipe

    return load_recipe(recipe, storage=storage, sample=sample)


def recipes_like(incomplete: str) -> list[str]:
    """Return the YAML files that a path may become, also those in a folder that it may become."""
    found = chain.from_iterable(iglob(pattern) for pattern in patterns(incomplete))
    return sorted(islice(found, MOST_OFFERED))


def patterns(incomplete: str) -> Iterator[str]:
    for folders in ("*", "*/*"):
        yield from (f"{escape(incomplete)}{folders}{ending}" for ending in ENDINGS)


RecipePath = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="The YAML file that describes the corpus.", autocompletion=recipes_like
    ),
]
SomeRecipePath = Annotated[
    str | None,
    typer.Argument(metavar="RECIPE", help="The YAML file of one corpus.", autocompletion=recipes_like),
]
Storage = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Where the corpus goes, instead of where the recipe says: any fsspec URL."
    ),
]
Sample = Annotated[
    float | None,
    typer.Option(
        metavar="PART",
        help="Use this part of the input, 0.001 say; what is built from it is a corpus of its own.",
    ),
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Also where a corpus of other sources is published, which goes.")
]
