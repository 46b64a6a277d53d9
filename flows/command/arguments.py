"""The arguments that many commands take, and the recipe that they name."""

from collections.abc import Iterator
from glob import escape, iglob
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from zyda_flows.tasks.recipe.fields import Recipe

ENDINGS = (".yaml", ".yml")
MOST_OFFERED = 100


def load(recipe_path: str, storage: str | None, sample: float | None) -> "Recipe":
    from zyda_flows.tasks.recipe.loading import load_recipe  # late

    return load_recipe(recipe_path, storage=storage, sample=sample)


def recipes_like(incomplete: str) -> list[str]:
    """Return the YAML files that a path may become, also those in a folder that it may become."""
    paths = chain.from_iterable(iglob(pattern) for pattern in patterns(incomplete))
    return sorted(islice(paths, MOST_OFFERED))


def patterns(incomplete: str) -> Iterator[str]:
    for folders in ("*", "*/*"):
        yield from (f"{escape(incomplete)}{folders}{ending}" for ending in ENDINGS)


def part_of_all(part: float | None) -> float | None:
    """Return a part of the input as it is. Raises BadParameter where it is nothing, or more than all."""
    if part is not None and not 0 < part <= 1:
        raise typer.BadParameter(f"{part} is not a part of the input; expected more than 0 and at most 1")
    return part


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
        callback=part_of_all,
        help="Use this part of the input, 0.001 say; what is built from it is a corpus of its own.",
    ),
]
Replace = Annotated[
    bool,
    typer.Option("--replace", help="Replace a corpus of this name that was built from other sources."),
]
