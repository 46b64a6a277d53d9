"""Run the step `url_rules`."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.documents.batch import Columns
from zyda_flows.tasks.documents.steps.step import ColumnStep, Rule, StepOfRecipe
from zyda_flows.tasks.documents.url_rules import (
    RULE,
    PlannedUrlRules,
    plan_url_rules,
    rules_of,
    url_columns,
)
from zyda_flows.tasks.recipe.steps.url_rules import UrlRulesStep

RecipeStep = StepOfRecipe[UrlRulesStep]


class UrlFiltering(ColumnStep[UrlRulesStep]):
    """Removes documents by their address."""

    settings = UrlRulesStep

    urls: PlannedUrlRules

    @classmethod
    def needs(cls, step: RecipeStep) -> dict[str, Any]:
        return {"urls": plan_url_rules(step.settings.url_rules)}

    @classmethod
    def rules(cls, step: RecipeStep) -> Iterator[Rule]:
        return step.note_rules(rules_of(step.settings.url_rules))

    def columns(self) -> Iterator[pa.Field]:
        yield from (pa.field(self.column(f"{RULE}.{kind}"), pa.string()) for kind, _ in self.urls.files)

    def judge(self, table: pa.Table) -> Columns:
        return url_columns(self.urls, table)
