"""Run the step `clean`."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.cleanings import PERSONAL_VERSION, clean_texts
from zyda_flows.tasks.documents.functions import UserFunction, load_user_function
from zyda_flows.tasks.documents.personal_columns import with_clean_columns
from zyda_flows.tasks.documents.steps.step import EMPTIED, DocumentStep, Rule, StepOfRecipe
from zyda_flows.tasks.recipe.steps.clean import CleanStep

RecipeStep = StepOfRecipe[CleanStep]


class TextCleaning(DocumentStep[CleanStep]):
    """Changes texts. cleaning: the fields of a Cleaning. personal: the version of the personal data kernels."""

    settings = CleanStep
    changes_text = True

    cleaning: dict[str, Any]
    function: UserFunction | None
    personal: str

    @classmethod
    def needs(cls, step: RecipeStep) -> dict[str, Any]:
        cleaning = step.settings.cleaning
        if cleaning.unicode:
            from zyda_flows.textkernels.texts.repair import check_options

            check_options(cleaning.unicode if isinstance(cleaning.unicode, dict) else {})
        return {
            "cleaning": cleaning.model_dump(mode="json"),
            "function": load_user_function(step.settings),
            "personal": PERSONAL_VERSION if cleaning.pii else "",
        }

    @classmethod
    def rules(cls, step: RecipeStep) -> Iterator[Rule]:
        yield step.emptied()

    @classmethod
    def check_columns(cls, settings: CleanStep, table: pa.Table) -> None:
        if settings.cleaning.pii:
            with_clean_columns(table, settings.cleaning.pii.model_dump())

    def columns(self) -> Iterator[pa.Field]:
        yield pa.field(self.column(EMPTIED), pa.float64())

    def begin(self, documents: Documents) -> None:
        """Replace personal data in the columns of the step, for removed documents, too."""
        documents.cleaned_columns, counts = with_clean_columns(
            documents.cleaned_columns, self.cleaning["pii"] or {}
        )
        documents.count_cleaned({f"{self.name}.{name}": count for name, count in counts.items()})

    def run(self, documents: Documents) -> None:
        if not documents.remaining.any():
            return
        texts = documents.remaining_documents().text
        if self.function:
            self.change_texts(documents, self.function.call(texts, texts.type))
        else:
            self.change_texts(documents, *clean_texts(texts, self.cleaning, self.is_markdown))
