"""How texts are cleaned: by the name of a cleaning, by a mapping, or by the user's own function."""

from typing import Annotated

from pydantic import BeforeValidator, Field, Tag, model_validator

from zyda_flows.tasks.recipe.cleaning import MAPPING, NAMED_CLEANINGS, OTHER, Cleaning, MappingOrNot
from zyda_flows.tasks.recipe.steps.step import Step, name_or_mapping


class CleanStep(Step):
    """Change the texts."""

    clean: Annotated[
        Annotated[Annotated[str, Tag(OTHER)] | Annotated[Cleaning, Tag(MAPPING)], MappingOrNot],
        BeforeValidator(name_or_mapping),
    ] = Field(description="Change the text: a name, or what is to be done.")

    @model_validator(mode="after")
    def cleans_something(self) -> "CleanStep":
        if not self.function and not self.cleaning.done:
            raise ValueError("clean: it says nothing to be cleaned")
        return self

    @property
    def name(self) -> str:
        return self.clean if isinstance(self.clean, str) else "+".join(sorted(self.clean.done))

    @property
    def cleaning(self) -> Cleaning:
        """What is cleaned; nothing where a function does it. Raises ValueError for an unknown name."""
        if isinstance(self.clean, Cleaning):
            return self.clean
        if self.function:
            return Cleaning()
        if self.clean not in NAMED_CLEANINGS:
            raise ValueError(f"clean: there is no {self.clean}; there are {', '.join(NAMED_CLEANINGS)}")
        return NAMED_CLEANINGS[self.clean]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.cleaning.pii.columns if self.cleaning.pii else ()

    @property
    def is_for_prose(self) -> bool:
        return bool(self.cleaning.lines)
