"""Which licences a document may have, by the column of its source that names them.

documents:
  - license_filter:
      column: license                          # meta.license for a field of a column of objects
      keep: [CC-BY-4.0, CC0-1.0, LicenseRef-public-domain]
      names: {Public Domain: LicenseRef-public-domain}     # what SPDX does not know
"""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.recipe.values import Names, Strict, not_blank


class LicenseFilter(Strict):
    """The licences that let a document stay, and what names mean that are in no list."""

    column: Annotated[str, AfterValidator(not_blank)] = Field(
        "license",
        description="The column that names a document's licence, or a list of licences that all hold for it; "
        "`meta.license` for a field of a column of objects.",
    )
    keep: Names = Field(
        min_length=1,
        description="Identifiers of SPDX's list (https://spdx.org/licenses), or your own LicenseRef-…",
    )
    names: dict[str, str] = Field(
        {},
        description="What a name means that SPDX's list does not have: an identifier, or an expression of them.",
    )

    @model_validator(mode="after")
    def are_known(self) -> "LicenseFilter":
        from zyda_flows.tasks.recipe.spdx import Licenses  # late: it reads the list

        Licenses(self.keep, self.names)
        return self


class LicenseFilterStep(Step):
    """Remove documents by their licence."""

    once = "give all that it says in one step"
    reads_text = False

    license_filter: LicenseFilter = Field(
        description="Let documents go that have another licence than these, by a column of their source."
    )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.license_filter.column,)
