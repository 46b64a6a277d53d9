"""The rounds of a recipe's deduplication, each with its number."""

from dataclasses import dataclass

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.storage.folder import Folder


@dataclass(frozen=True)
class Round:
    """One deduplication round of a recipe. It is the subject of stages that run in each round. number: from 1."""

    recipe: Recipe
    number: int

    @property
    def dedup(self) -> Dedup:
        return self.recipe.rounds[self.number - 1]

    @property
    def folder(self) -> Folder:
        return self.recipe.folder

    def name_of(self, name: str) -> str:
        """Return the name of a stage, folder or column in this round; the number is added from round 2 on."""
        return name if self.number == 1 else f"{name}{self.number}"


def rounds_of(recipe: Recipe) -> list[Round]:
    return [Round(recipe, number + 1) for number in range(len(recipe.rounds))]


def round_to_try(recipe: Recipe) -> int:
    """Return the number of a recipe's first round of near-duplicates. Raises BadRecipe if there is none."""
    for number, dedup in enumerate(recipe.rounds, 1):
        if isinstance(dedup, MinHashRound):
            return number
    raise BadRecipe(
        "dedup: a round of near-duplicates is needed to try other bands; remove `exact` from a round"
    )


Subject = Recipe | Round | Judged  # the subject of a stage
