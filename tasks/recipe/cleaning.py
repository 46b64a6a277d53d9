"""What a step cleans in a text, as a recipe asks for it."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from tasks.recipe.values import Number, Strict, Yes

MOST_IN_A_RUN = 2**31 - 1
MAPPING, OTHER = "<mapping>", "<other>"  # what a value is that may be a mapping; no recipe has such names
Character = Annotated[str, Field(min_length=1, max_length=1)]
Most = Annotated[int, Number, Field(ge=1, le=MOST_IN_A_RUN)]


def mapping_or_not(value: object) -> str:
    return MAPPING if isinstance(value, dict | BaseModel) else OTHER


def mapping_of_rules(value: object) -> object:
    if value is not None and not isinstance(value, dict | BaseModel):
        raise ValueError("a mapping is expected: {rules: c4}, say")
    return value


MappingOrNot = Discriminator(mapping_or_not)  # so that a fault is told of what was meant, and not of both


class Lines(Strict):
    """Which lines of a text go, and what goes of a line."""

    rules: Literal["c4", "refinedweb"]
    terminal_punctuation: Yes = Field(True, description="Of c4: a line that does not end so goes.")

    @model_validator(mode="after")
    def asks_what_its_rules_know(self) -> "Lines":
        if self.rules != "c4" and "terminal_punctuation" in self.model_fields_set:
            raise ValueError("terminal_punctuation is of the rules c4; those of refinedweb do not ask for it")
        return self


class Cleaning(Strict):
    """What is cleaned in a text, in this order."""

    unicode: Annotated[Annotated[Yes, Tag(OTHER)] | Annotated[dict[str, Any], Tag(MAPPING)], MappingOrNot] = (
        Field(
            False,
            description="Mend mojibake and normalise, by ftfy: true, or options of its TextFixerConfig.",
        )
    )
    newlines: Yes = Field(False, description="Every line ends with one line feed.")
    control_characters: Yes = Field(False, description="They go, but for tabs and line ends.")
    runs: Annotated[
        Annotated[Literal["zyda1"], Tag(OTHER)] | Annotated[dict[Character, Most], Tag(MAPPING)],
        MappingOrNot,
    ] = Field(
        default_factory=dict,
        description="How many of a character may stand together; of more, one stays. zyda1: as there.",
    )
    lines: Annotated[Lines | None, BeforeValidator(mapping_of_rules)] = None

    @field_validator("unicode")
    @classmethod
    def options_or_defaults(cls, value: bool | dict[str, Any]) -> bool | dict[str, Any]:
        return True if value == {} else value

    @property
    def done(self) -> list[str]:
        """What is cleaned, in this order."""
        return [name for name in type(self).model_fields if getattr(self, name)]


NAMED_CLEANINGS = {
    "zyda1": Cleaning(runs="zyda1"),
    "unicode": Cleaning(unicode=True),
    "newlines": Cleaning(newlines=True),
    "control_characters": Cleaning(control_characters=True),
    "c4-lines": Cleaning(lines=Lines(rules="c4")),
    "refinedweb-lines": Cleaning(lines=Lines(rules="refinedweb")),
}
