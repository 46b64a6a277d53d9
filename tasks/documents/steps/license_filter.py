"""The step `license_filter`, executed."""

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.documents.batch import Columns
from zyda_flows.tasks.documents.licenses import LICENSE, MISSING, RULES, judged_licenses
from zyda_flows.tasks.documents.steps.step import ColumnStep, NeededColumn, Rule, StepOfRecipe
from zyda_flows.tasks.recipe.spdx import version
from zyda_flows.tasks.recipe.steps.license_filter import LicenseFilterStep

Given = StepOfRecipe[LicenseFilterStep]


class LicenseFiltering(ColumnStep[LicenseFilterStep]):
    """Removes documents by their licence. lists: the versions of those that names are looked up in."""

    settings = LicenseFilterStep
    for_all = (LICENSE,)

    licenses: dict[str, Any]
    lists: str

    @classmethod
    def needs(cls, step: Given) -> dict[str, Any]:
        return {"licenses": step.settings.license_filter.model_dump(mode="json"), "lists": version()}

    @classmethod
    def rules(cls, step: Given) -> Iterator[Rule]:
        return step.noted(RULES)

    @classmethod
    def naming(cls, step: Given) -> dict[str, str]:
        return {"licenses": step.column(LICENSE)}

    @classmethod
    def needed_column(cls, step: Given, removed_by: Collection[str]) -> NeededColumn | None:
        if {*removed_by} & RULES.keys() != {MISSING}:
            return None
        fault = "license_filter: none of its {count:,} documents names a licence"
        return NeededColumn(step.column(LICENSE), fault)

    @classmethod
    def check_columns(cls, settings: LicenseFilterStep, table: pa.Table) -> None:
        judged_licenses(settings.license_filter.model_dump(), table)

    def columns(self) -> Iterator[pa.Field]:
        yield from (pa.field(self.column(name), pa.string()) for name in (LICENSE, *RULES))

    def look(self, table: pa.Table) -> Columns:
        return judged_licenses(self.licenses, table)
