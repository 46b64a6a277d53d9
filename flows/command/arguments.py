"""Declare the arguments that several commands share, and load the recipe of a command."""

from collections.abc import Iterator
from glob import escape, iglob
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from zyda_flows.tasks.recipe.fields import Recipe

ENDINGS = (".yaml", ".yml")
MOST_OFFERED = 100  # paths in a completion


def load(recipe_path: str, storage: str | None, sample: float | None) -> "Recipe":
    from zyda_flows.tasks.recipe.loading import load_recipe  # late

    return load_recipe(recipe_path, storage=storage, sample=sample)


def recipes_like(incomplete: str) -> list[str]:
    """Return YAML files whose path, or whose folder, begins with an incomplete path."""
    paths = chain.from_iterable(iglob(pattern) for pattern in patterns(incomplete))
    return sorted(islice(paths, MOST_OFFERED))


def patterns(incomplete: str) -> Iterator[str]:
    for pattern in ("*", "*/*"):
        yield from (f"{escape(incomplete)}{pattern}{ending}" for ending in ENDINGS)


def valid_part(part: float | None) -> float | None:
    """Return the part of the input. Raises BadParameter unless it is above 0 and at most 1."""
    if part is not None and not 0 < part <= 1:
        raise typer.BadParameter(f"{part} is not a share of the input; expected more than 0 and at most 1")
    return part


RecipePath = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="The YAML file that describes the corpus.", autocompletion=recipes_like
    ),
]
SomeRecipePath = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE", help="The YAML file that describes the corpus.", autocompletion=recipes_like
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Folder or fsspec URL for the corpus, instead of `storage` of the recipe."
    ),
]
Sample = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        callback=valid_part,
        help="Use only this share of the input, for example 0.001. The sample is a separate corpus.",
    ),
]
Replace = Annotated[
    bool,
    typer.Option(
        "--replace", help="Allow a build to replace a corpus of this name that was built from other sources."
    ),
]
