"""The step `language_id`: identifies the language of each text, and keeps some languages.

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
    """The model that identifies languages, and the languages to keep."""

    model: Url = Field(description="A model in fastText's format: lid.176.bin or .ftz, GlotLID, OpenLID.")
    keep: Annotated[
        Annotated[Urls, Tag(OTHER)] | Annotated[dict[str, Probability], Tag(MAPPING)], MappingOrNot
    ] = Field(
        {},
        description="Languages to keep, by their names in the model, with the lowest accepted probability: "
        "`{en: 0.65}`. Or files named after languages, `deu_Latn.yml`, with a `language_score`. If omitted, all "
        "languages are kept.",
    )

    @field_validator("keep")
    @classmethod
    def languages_have_probabilities(cls, value: tuple[Url, ...] | dict[str, float]) -> Any:
        bare = [
            name for name in value if not isinstance(value, dict) and re.fullmatch(r"\w{2,3}(_\w{4})?", name)
        ]
        if bare:
            raise ValueError(
                f"{bare[0]} is not a file; give a language with its lowest probability: `{{{bare[0]}: 0.65}}`"
            )
        return value

    def with_files(self, place: Place) -> "LanguageId":
        """Return the settings with `place` applied to each URL of a file."""
        keep = self.keep if isinstance(self.keep, dict) else tuple(map(place, self.keep))
        return self.model_copy(update={"model": place(self.model), "keep": keep})


class LanguageIdStep(Step):
    """Identify the language of documents, and remove documents in other languages."""

    once = "use a single model"
    finds_language = True

    language_id: LanguageId = Field(
        description="Identify the language of each text, and remove documents in other languages."
    )

    def with_files(self, place: Place) -> Self:
        return self.model_copy(update={"language_id": self.language_id.with_files(place)})

    @property
    def is_for_prose(self) -> bool:
        return True
