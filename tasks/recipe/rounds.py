"""The rounds of a recipe's deduplication, each with its number."""

from dataclasses import dataclass

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.storage.folder import Folder


@dataclass(frozen=True)
class Round:
    """One of a recipe's rounds, by its number, from 1: what a stage is given that runs in each round."""

    recipe: Recipe
    number: int

    @property
    def dedup(self) -> Dedup:
        return self.recipe.rounds[self.number - 1]

    @property
    def folder(self) -> Folder:
        return self.recipe.folder

    def name_of(self, name: str) -> str:
        """Return what a stage, a folder or a column is called in this round: from the second on with its number."""
        return name if self.number == 1 else f"{name}{self.number}"


def rounds_of(recipe: Recipe) -> list[Round]:
    return [Round(recipe, number + 1) for number in range(len(recipe.rounds))]


def round_to_try(recipe: Recipe) -> int:
    """Return the number of a recipe's first round of near-duplicates. Raises BadRecipe where it has none."""
    for number, dedup in enumerate(recipe.rounds, 1):
        if isinstance(dedup, MinHashRound):
            return number
    raise BadRecipe("dedup: it has no round of near-duplicates, whose bands could be others")


Subject = Recipe | Round  # of a stage
