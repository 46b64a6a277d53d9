"""The step `decontaminate`: searches documents for items of evaluation sets."""

from collections.abc import Mapping
from typing import Self

from pydantic import Field

from zyda_flows.tasks.recipe.evaluation import Decontaminate, EvaluationSet
from zyda_flows.tasks.recipe.steps.step import Place, Step


class DecontaminateStep(Step):
    """Remove, mark or cut documents that hold items of evaluation sets."""

    once = "name all sets in one step"

    decontaminate: Decontaminate = Field(
        description="Remove, mark or cut documents that contain questions of evaluation sets with their answers."
    )

    def with_files(self, place: Place) -> Self:
        return self.model_copy(update={"decontaminate": self.decontaminate.with_files(place)})

    @property
    def evaluation_sets(self) -> Mapping[str, EvaluationSet]:
        return self.decontaminate.sets

    @property
    def cuts(self) -> bool:
        """Whether matching passages are cut out of texts."""
        return self.decontaminate.action == "cut"
