"""The step `language_id`, executed."""

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
    judged_languages,
    planned_languages,
)
from zyda_flows.tasks.documents.steps.step import DocumentStep, PublishedColumn, Rule, StepOfRecipe
from zyda_flows.tasks.recipe.steps.language_id import LanguageIdStep

Given = StepOfRecipe[LanguageIdStep]


class LanguageIdentification(DocumentStep[LanguageIdStep]):
    """Finds the language of each text, and removes documents in other languages than some."""

    settings = LanguageIdStep

    languages: PlannedLanguages

    @classmethod
    def needs(cls, step: Given) -> dict[str, Any]:
        return {"languages": planned_languages(step.settings.language_id)}

    @classmethod
    def rules(cls, step: Given) -> Iterator[Rule]:
        return step.noted(RULES if step.settings.language_id.keep else {})

    @classmethod
    def published(cls, step: Given) -> Iterator[PublishedColumn]:
        for name, statistic in PUBLISHED.items():
            yield PublishedColumn(name, step.column(statistic), TYPES[name])

    @classmethod
    def naming(cls, step: Given) -> dict[str, str]:
        return {"languages": step.column(LANGUAGE)}

    def columns(self) -> Iterator[pa.Field]:
        yield from (pa.field(self.column(statistic), TYPES[name]) for name, statistic in PUBLISHED.items())
        if self.languages.keep:
            yield from (pa.field(self.column(rule), pa.string()) for rule in RULES)

    def run(self, documents: Documents) -> None:
        texts = documents.remaining_documents().text
        found = judged_languages(self.languages, prose_or_all(texts) if self.is_markdown else texts)
        documents.set_columns({self.column(name): column for name, column in found.items()})


def prose_or_all(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return the prose of texts in Markdown, and the whole of a text that has none."""
    from zyda_flows.textkernels.texts.markdown import prose

    of_prose = prose(texts)
    return pc.if_else(pc.equal(pc.binary_length(of_prose), 0), texts, of_prose)
