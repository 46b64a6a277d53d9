"""The step `url_rules`: removes documents by their address on the web.

documents:
  - url_rules:
      domains: [ut1/adult/domains, ut1/gambling/domains]     # domains with all their subdomains
      urls: ut1/adult/urls                                   # addresses with all addresses below them
      words: refinedweb/banned_words.txt                     # whole words of the address
      subwords: refinedweb/banned_subwords.txt               # letters anywhere in the address
      soft_words: refinedweb/soft_banned_words.txt           # two or more of these words
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from zyda_flows.tasks.recipe.steps.step import Place, Step
from zyda_flows.tasks.recipe.values import Number, Strict, Url, Urls, not_blank

LISTS = ("domains", "urls", "words", "subwords", "soft_words")


class UrlRules(Strict):
    """Files with forbidden parts of addresses, a part on each line; plain or compressed."""

    column: Annotated[str, AfterValidator(not_blank)] = Field(
        "url",
        description="The column with a document's address; `meta.url` for a field of a column of objects.",
    )
    domains: Urls = Field((), description="Domains: remove documents of a domain or of its subdomains.")
    urls: Urls = Field(
        (), description="Addresses without `https://`: remove documents at an address or below it."
    )
    words: Urls = Field(
        (),
        description="Words: remove documents whose address contains the word, with no letter or digit next to it.",
    )
    subwords: Urls = Field((), description="Letters: remove documents whose address contains them anywhere.")
    soft_words: Urls = Field((), description="Words of which an address may contain `soft_most`.")
    soft_most: Annotated[int, Number] = Field(
        1, ge=0, description="The highest accepted number of `soft_words` in an address."
    )

    @model_validator(mode="after")
    def has_files(self) -> "UrlRules":
        if not self.files:
            raise ValueError(f"url_rules: no file is given; give one of {', '.join(LISTS)}")
        return self

    @property
    def files(self) -> dict[str, tuple[Url, ...]]:
        """The files of each kind; kinds without files are omitted."""
        return {kind: files for kind in LISTS if (files := getattr(self, kind))}


class UrlRulesStep(Step):
    """Remove documents by their address."""

    once = "name all files in one step"
    reads_text = False

    url_rules: UrlRules = Field(
        description="Remove documents by their address on the web, before any step reads their text."
    )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.url_rules.column,)

    def with_files(self, place: Place) -> Self:
        placed = {kind: tuple(map(place, urls)) for kind, urls in self.url_rules.files.items()}
        return self.model_copy(update={"url_rules": self.url_rules.model_copy(update=placed)})
