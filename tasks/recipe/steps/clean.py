"""The step `clean`: changes texts by a named cleaning, by a mapping of changes, or by the user's function."""

from typing import Annotated

from pydantic import BeforeValidator, Field, Tag, model_validator

from zyda_flows.tasks.recipe.cleaning import MAPPING, NAMED_CLEANINGS, OTHER, Cleaning, MappingOrNot
from zyda_flows.tasks.recipe.steps.step import Step, name_or_mapping


class CleanStep(Step):
    """Change the texts."""

    clean: Annotated[
        Annotated[Annotated[str, Tag(OTHER)] | Annotated[Cleaning, Tag(MAPPING)], MappingOrNot],
        BeforeValidator(name_or_mapping),
    ] = Field(
        description="Change the text: the name of a cleaning, a mapping of changes, or module:function."
    )

    @model_validator(mode="after")
    def has_changes(self) -> "CleanStep":
        if not self.function and not self.cleaning.changes:
            raise ValueError(f"clean: no change is given; use one of {', '.join(Cleaning.model_fields)}")
        return self

    @property
    def name(self) -> str:
        return self.clean if isinstance(self.clean, str) else "+".join(sorted(self.clean.changes))

    @property
    def cleaning(self) -> Cleaning:
        """The changes; none if a function makes them. Raises ValueError for an unknown name."""
        if isinstance(self.clean, Cleaning):
            return self.clean
        if self.function:
            return Cleaning()
        if self.clean not in NAMED_CLEANINGS:
            raise ValueError(f"clean: unknown cleaning {self.clean}; use one of {', '.join(NAMED_CLEANINGS)}")
        return NAMED_CLEANINGS[self.clean]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.cleaning.pii.columns if self.cleaning.pii else ()

    @property
    def is_for_prose(self) -> bool:
        return bool(self.cleaning.lines)
