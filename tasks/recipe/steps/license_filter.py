"""The step `license_filter`: keeps documents by the licence in a column of their source.

documents:
  - license_filter:
      column: license                          # meta.license for a field of a column of objects
      keep: [CC-BY-4.0, CC0-1.0, LicenseRef-public-domain]
      names: {Public Domain: LicenseRef-public-domain}     # a name that SPDX does not list
"""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.recipe.values import Names, Strict, not_blank


class LicenseFilter(Strict):
    """The licences to keep, and the meaning of names that SPDX does not list."""

    column: Annotated[str, AfterValidator(not_blank)] = Field(
        "license",
        description="The column with a document's licence, or with a list of licences that all apply; "
        "`meta.license` for a field of a column of objects.",
    )
    keep: Names = Field(
        min_length=1,
        description="Licences to keep: SPDX identifiers (https://spdx.org/licenses), or your own names, "
        "LicenseRef-…",
    )
    names: dict[str, str] = Field(
        {},
        description="The meaning of a name that SPDX does not list: an identifier, or an expression of "
        "identifiers.",
    )

    @model_validator(mode="after")
    def licences_are_known(self) -> "LicenseFilter":
        from zyda_flows.tasks.recipe.spdx import Licenses  # late: it loads the SPDX list

        Licenses(self.keep, self.names)
        return self


class LicenseFilterStep(Step):
    """Remove documents by their licence."""

    once = "give all licences in one step"
    reads_text = False

    license_filter: LicenseFilter = Field(
        description="Remove documents whose licence, in a column of their source, is not one of `keep`."
    )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.license_filter.column,)
