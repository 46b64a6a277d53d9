"""Run the step `language_id`."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.languages import (
    LANGUAGE,
    PUBLISHED,
    RULES,
    TYPES,
    PlannedLanguages,
    language_columns,
    plan_languages,
)
from zyda_flows.tasks.documents.steps.step import DocumentStep, PublishedColumn, Rule, StepOfRecipe
from zyda_flows.tasks.recipe.steps.language_id import LanguageIdStep

RecipeStep = StepOfRecipe[LanguageIdStep]


class LanguageIdentification(DocumentStep[LanguageIdStep]):
    """Identifies the language of each text, and removes documents in other languages than those to keep."""

    settings = LanguageIdStep

    languages: PlannedLanguages

    @classmethod
    def needs(cls, step: RecipeStep) -> dict[str, Any]:
        return {"languages": plan_languages(step.settings.language_id)}

    @classmethod
    def rules(cls, step: RecipeStep) -> Iterator[Rule]:
        return step.note_rules(RULES if step.settings.language_id.keep else {})

    @classmethod
    def published(cls, step: RecipeStep) -> Iterator[PublishedColumn]:
        for name, statistic in PUBLISHED.items():
            yield PublishedColumn(name, step.column(statistic), TYPES[name])

    @classmethod
    def count_columns(cls, step: RecipeStep) -> dict[str, str]:
        return {"languages": step.column(LANGUAGE)}

    def columns(self) -> Iterator[pa.Field]:
        yield from (pa.field(self.column(statistic), TYPES[name]) for name, statistic in PUBLISHED.items())
        if self.languages.keep:
            yield from (pa.field(self.column(rule), pa.string()) for rule in RULES)

    def run(self, documents: Documents) -> None:
        texts = documents.remaining_documents().text
        columns = language_columns(self.languages, prose_or_all(texts) if self.is_markdown else texts)
        documents.set_columns({self.column(name): column for name, column in columns.items()})


def prose_or_all(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return the prose of Markdown texts; the whole text if it has no prose."""
    from zyda_flows.textkernels.texts.markdown import prose

    prose_texts = prose(texts)
    return pc.if_else(pc.equal(pc.binary_length(prose_texts), 0), texts, prose_texts)
