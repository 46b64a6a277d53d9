"""The steps of the raw web: which addresses go, and which languages stay.

documents:
  - url_rules:
      domains: [ut1/adult/domains, ut1/gambling/domains]     # a domain, and all below it
      urls: ut1/adult/urls                                   # an address, and all below it
      words: refinedweb/banned_words.txt                     # whole words of the address
      subwords: refinedweb/banned_subwords.txt               # in any place of it
      soft_words: refinedweb/soft_banned_words.txt           # two of them and more
  - extract: structured
  - language_id: {model: lid.176.bin, keep: {en: 0.65}}
"""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Tag, field_validator, model_validator

from zyda_flows.tasks.recipe.cleaning import MAPPING, OTHER, MappingOrNot
from zyda_flows.tasks.recipe.values import Number, OneOrMore, Strict, Url, not_blank, one_or_more

Lists = Annotated[tuple[Url, ...], BeforeValidator(one_or_more, json_schema_input_type=OneOrMore)]
LISTS = ("domains", "urls", "words", "subwords", "soft_words")
Probability = Annotated[float, Number, Field(ge=0, le=1)]


class UrlRules(Strict):
    """Files with what may not stand in the address of a document, a line each; compressed or not."""

    column: Annotated[str, AfterValidator(not_blank)] = Field(
        "url",
        description="The column with a document's address; `meta.url` for a field of a column of objects.",
    )
    domains: Lists = Field((), description="Domains: a document of one, or of one below it, goes.")
    urls: Lists = Field((), description="Addresses without `https://`: a document at one, or below it, goes.")
    words: Lists = Field(
        (), description="Words: a document goes with one between other characters than letters."
    )
    subwords: Lists = Field((), description="Letters: a document goes with them anywhere in its address.")
    soft_words: Lists = Field((), description="Words of which a document may have `soft_most`.")
    soft_most: Annotated[int, Number] = Field(
        1, ge=0, description="So many of `soft_words` let a document stay."
    )

    @model_validator(mode="after")
    def names_a_list(self) -> "UrlRules":
        if not self.files:
            raise ValueError(f"url_rules: it names no file; give one of {', '.join(LISTS)}")
        return self

    @property
    def files(self) -> dict[str, tuple[Url, ...]]:
        """The files of each kind, of those that there are."""
        return {kind: files for kind in LISTS if (files := getattr(self, kind))}


class LanguageId(Strict):
    """What says the language of a document, and which stay."""

    model: Url = Field(description="A model in fastText's format: lid.176.bin or .ftz, GlotLID, OpenLID.")
    keep: Annotated[
        Annotated[Lists, Tag(OTHER)] | Annotated[dict[str, Probability], Tag(MAPPING)], MappingOrNot
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

    @property
    def files(self) -> tuple[Url, ...]:
        """The files that it names."""
        return (self.model, *(() if isinstance(self.keep, dict) else self.keep))

    def with_files(self, place: Callable[[str], str]) -> "LanguageId":
        """Return it with files that are somewhere else."""
        keep = self.keep if isinstance(self.keep, dict) else tuple(map(place, self.keep))
        return self.model_copy(update={"model": place(self.model), "keep": keep})
