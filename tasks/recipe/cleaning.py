"""What a step cleans in a text, as a recipe asks for it."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    field_validator,
    model_serializer,
    model_validator,
)

from zyda_flows.tasks.recipe.values import Number, Strict, Yes

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


def mapping_of_kinds(value: object) -> object:
    if value is not None and not isinstance(value, dict | BaseModel):
        raise ValueError("a mapping is expected: {mail: true, ip: true}, say")
    return value


def yes_or_text(value: object) -> object:
    if not isinstance(value, bool | str):
        raise ValueError("true is expected, or a text that is put in its place")
    if isinstance(value, str) and any("\ud800" <= one <= "\udfff" for one in value):
        raise ValueError("half a character of UTF-16 is no text")
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


StandsIn = Annotated[bool | str, BeforeValidator(yes_or_text)]


class PersonalData(Strict):
    """Which kinds of personal data go, and what is put in their place: true for what is usual, or a text."""

    mail: StandsIn = Field(False, description="Mail addresses.")
    ip: StandsIn = Field(False, description="Addresses of IPv4 and IPv6 that all can reach.")
    phone: StandsIn = Field(False, description="Numbers of phones that are written as such.")
    card: StandsIn = Field(False, description="Numbers of payment cards.")
    iban: StandsIn = Field(False, description="International numbers of bank accounts.")
    columns: tuple[str, ...] = Field(
        (),
        description="Columns of the source that are cleaned as the text is: of texts, or of lists and objects of "
        "texts. Without a kind: of mail and ip.",
    )

    @model_serializer(mode="wrap")
    def without_what_says_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the kinds that stay; a text of no character is one to be put in a place."""
        return {name: value for name, value in dump(self).items() if value is not False and value != ()}

    @model_validator(mode="after")
    def usual_kinds_for_columns(self) -> "PersonalData":
        return (
            PersonalData(mail=True, ip=True, columns=self.columns)
            if set(self.model_dump()) == {"columns"}
            else self
        )


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
    pii: Annotated[PersonalData | None, BeforeValidator(mapping_of_kinds)] = Field(
        None, description="Personal data: which kinds go, and what is put in their place."
    )

    @field_validator("unicode")
    @classmethod
    def options_or_defaults(cls, value: bool | dict[str, Any]) -> bool | dict[str, Any]:
        return True if value == {} else value

    @field_validator("pii")
    @classmethod
    def some_kinds_or_none(cls, value: PersonalData | None) -> PersonalData | None:
        return value if value and value.model_dump() else None

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
    "pii": Cleaning(pii=PersonalData(mail=True, ip=True)),
}
