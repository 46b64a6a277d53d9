"""Which languages the texts of a corpus have.

documents:
  - language_id: {model: lid.176.bin, keep: {en: 0.65}}
"""

import re
from typing import Annotated, Any, Self

from pydantic import Field, Tag, field_validator

from zyda_flows.tasks.recipe.cleaning import MAPPING, OTHER, MappingOrNot
from zyda_flows.tasks.recipe.steps.step import Place, Step
from zyda_flows.tasks.recipe.values import Number, Strict, Url, Urls

Probability = Annotated[float, Number, Field(ge=0, le=1)]


class LanguageId(Strict):
    """What says the language of a document, and which stay."""

    model: Url = Field(description="A model in fastText's format: lid.176.bin or .ftz, GlotLID, OpenLID.")
    keep: Annotated[
        Annotated[Urls, Tag(OTHER)] | Annotated[dict[str, Probability], Tag(MAPPING)], MappingOrNot
    ] = Field(
        {},
        description="Languages that stay, as the model names them, each with its least probability: `{en: 0.65}`; "
        "or files that are called by these names, `deu_Latn.yml`, with a `language_score`; without, all stay.",
    )

    @field_validator("keep")
    @classmethod
    def languages_have_probabilities(cls, value: tuple[Url, ...] | dict[str, float]) -> Any:
        bare = [
            name for name in value if not isinstance(value, dict) and re.fullmatch(r"\w{2,3}(_\w{4})?", name)
        ]
        if bare:
            raise ValueError(
                f"{bare[0]} is no file; a language has its least probability: `{{{bare[0]}: 0.65}}`"
            )
        return value

    def with_files(self, place: Place) -> "LanguageId":
        """Return it with files that are somewhere else."""
        keep = self.keep if isinstance(self.keep, dict) else tuple(map(place, self.keep))
        return self.model_copy(update={"model": place(self.model), "keep": keep})


class LanguageIdStep(Step):
    """Find the language of documents, and remove those in other languages than some."""

    once = "a text has one language"
    finds_language = True

    language_id: LanguageId = Field(
        description="Find the language of each text, and let others than some go."
    )

    def with_files(self, place: Place) -> Self:
        return self.model_copy(update={"language_id": self.language_id.with_files(place)})

    @property
    def is_for_prose(self) -> bool:
        return True
