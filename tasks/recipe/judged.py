"""A judge of a recipe, as the subject of the stages that run for each judge."""

from collections.abc import Iterator
from dataclasses import dataclass

from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judges import QUALITY, Judge, Place
from zyda_flows.tasks.storage.folder import Folder


@dataclass(frozen=True)
class Judged:
    """A judge, by its name; its settings may differ between sources."""

    recipe: Recipe
    judge: str

    @property
    def folder(self) -> Folder:
        return self.recipe.folder

    def name_of(self, name: str) -> str:
        """Return the name of a stage for this judge: `classify_edu`; its own name for the judge of `classify`."""
        return name if self.judge == QUALITY else f"{name}_{self.judge}"

    def of(self, source: str) -> Judge | None:
        """Return the settings of the judge in a source, None if the source does not have it."""
        judges = self.recipe.judges_of(source)
        return next((judge for judge in judges if judge.name == self.judge), None)

    def settings_of(self, source: str) -> Judge:
        """Return the settings of the judge in a source that has it."""
        judge = self.of(source)
        assert judge is not None
        return judge


def judged_at(recipe: Recipe, place: Place) -> Iterator[Judged]:
    """Yield the judges of a recipe that run at a place, in order."""
    yield from (Judged(recipe, judge.name) for judge in recipe.all_judges if judge.at == place)
