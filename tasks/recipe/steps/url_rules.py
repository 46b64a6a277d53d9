"""Which documents go for their address on the web.

documents:
  - url_rules:
      domains: [ut1/adult/domains, ut1/gambling/domains]     # a domain, and all below it
      urls: ut1/adult/urls                                   # an address, and all below it
      words: refinedweb/banned_words.txt                     # whole words of the address
      subwords: refinedweb/banned_subwords.txt               # in any place of it
      soft_words: refinedweb/soft_banned_words.txt           # two of them and more
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from zyda_flows.tasks.recipe.steps.step import Place, Step
from zyda_flows.tasks.recipe.values import Number, Strict, Url, Urls, not_blank

LISTS = ("domains", "urls", "words", "subwords", "soft_words")


class UrlRules(Strict):
    """Files with what may not stand in the address of a document, a line each; compressed or not."""

    column: Annotated[str, AfterValidator(not_blank)] = Field(
        "url",
        description="The column with a document's address; `meta.url` for a field of a column of objects.",
    )
    domains: Urls = Field((), description="Domains: a document of one, or of one below it, goes.")
    urls: Urls = Field((), description="Addresses without `https://`: a document at one, or below it, goes.")
    words: Urls = Field(
        (), description="Words: a document goes with one between other characters than letters."
    )
    subwords: Urls = Field((), description="Letters: a document goes with them anywhere in its address.")
    soft_words: Urls = Field((), description="Words of which a document may have `soft_most`.")
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


class UrlRulesStep(Step):
    """Remove documents by their address."""

    once = "name all files in one step"
    reads_text = False

    url_rules: UrlRules = Field(
        description="Let documents go for their address on the web, before anything reads their text."
    )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.url_rules.column,)

    def with_files(self, place: Place) -> Self:
        placed = {kind: tuple(map(place, urls)) for kind, urls in self.url_rules.files.items()}
        return self.model_copy(update={"url_rules": self.url_rules.model_copy(update=placed)})
