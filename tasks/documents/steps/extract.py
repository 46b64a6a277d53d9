"""Run the step `extract`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.bounds import Bound
from zyda_flows.tasks.documents.extraction import FAILED, extract_texts
from zyda_flows.tasks.documents.functions import UserFunction, load_user_function
from zyda_flows.tasks.documents.steps.step import EMPTIED, DocumentStep, Rule, StepOfRecipe
from zyda_flows.tasks.extraction.extractors import known_as
from zyda_flows.tasks.recipe.steps.extract import ExtractStep

RecipeStep = StepOfRecipe[ExtractStep]


class Extraction(DocumentStep[ExtractStep]):
    """Makes the text of each document. extractor: a built-in extractor with its version, or "" for a function."""

    settings = ExtractStep
    changes_text = True

    extractor: str
    function: UserFunction | None

    @classmethod
    def needs(cls, step: RecipeStep) -> dict[str, Any]:
        name = step.settings.extractor
        return {"extractor": known_as(name) if name else "", "function": load_user_function(step.settings)}

    @classmethod
    def rules(cls, step: RecipeStep) -> Iterator[Rule]:
        if step.settings.extractor:
            bound = Bound(rule=f"{step.settings.name}.{FAILED}", column=step.column(FAILED))
            yield Rule(bound, "its page could not be extracted")
        yield step.emptied("it contains no text")

    def columns(self) -> Iterator[pa.Field]:
        yield pa.field(self.column(EMPTIED), pa.float64())
        if self.extractor:
            yield pa.field(self.column(FAILED), pa.string())

    def run(self, documents: Documents) -> None:
        if documents.remaining.any():
            self.extract(documents)
        documents.reset_original()

    def extract(self, documents: Documents) -> None:
        """Replace the remaining texts. A page without bytes counts as emptied, too, and is removed."""
        before = documents.remaining_documents().text
        if self.function:
            self.change_texts(documents, self.function.call(before, before.type))
        else:
            made = extract_texts(before, self.extractor.partition(" ")[0])
            documents.count_cleaned({self.name: made.counts})
            documents.set_columns({self.column(FAILED): made.reasons})
            documents.set_texts(made.texts, np.ones(len(made.texts), np.bool_))
        texts = documents.remaining_documents().text
        self.set_emptied(documents, pc.binary_length(texts).to_numpy() == 0)
