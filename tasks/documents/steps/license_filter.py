"""Run the step `license_filter`."""

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.documents.batch import Columns
from zyda_flows.tasks.documents.licenses import LICENSE, MISSING, RULES, license_columns
from zyda_flows.tasks.documents.steps.step import ColumnStep, NeededColumn, Rule, StepOfRecipe
from zyda_flows.tasks.recipe.spdx import version
from zyda_flows.tasks.recipe.steps.license_filter import LicenseFilterStep

RecipeStep = StepOfRecipe[LicenseFilterStep]


class LicenseFiltering(ColumnStep[LicenseFilterStep]):
    """Removes documents by their licence. lists: the versions of the lists of licences."""

    settings = LicenseFilterStep
    for_all = (LICENSE,)

    licenses: dict[str, Any]
    lists: str

    @classmethod
    def needs(cls, step: RecipeStep) -> dict[str, Any]:
        return {"licenses": step.settings.license_filter.model_dump(mode="json"), "lists": version()}

    @classmethod
    def rules(cls, step: RecipeStep) -> Iterator[Rule]:
        return step.note_rules(RULES)

    @classmethod
    def count_columns(cls, step: RecipeStep) -> dict[str, str]:
        return {"licenses": step.column(LICENSE)}

    @classmethod
    def needed_column(cls, step: RecipeStep, removed_by: Collection[str]) -> NeededColumn | None:
        if {*removed_by} & RULES.keys() != {MISSING}:
            return None
        fault = "license_filter: none of its {count:,} documents has a licence; check the column"
        return NeededColumn(step.column(LICENSE), fault)

    @classmethod
    def check_columns(cls, settings: LicenseFilterStep, table: pa.Table) -> None:
        license_columns(settings.license_filter.model_dump(), table)

    def columns(self) -> Iterator[pa.Field]:
        yield from (pa.field(self.column(name), pa.string()) for name in (LICENSE, *RULES))

    def judge(self, table: pa.Table) -> Columns:
        return license_columns(self.licenses, table)
