"""The settings of the step `clean`: which parts of a text are changed or removed."""

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

from zyda_flows.tasks.recipe.values import Flag, Number, Strict

MOST_IN_A_RUN = 2**31 - 1
MAPPING, OTHER = "<mapping>", "<other>"  # tags of a union of a mapping and another type; never in a recipe
Character = Annotated[str, Field(min_length=1, max_length=1)]
Most = Annotated[int, Number, Field(ge=1, le=MOST_IN_A_RUN)]


def mapping_or_not(value: object) -> str:
    return MAPPING if isinstance(value, dict | BaseModel) else OTHER


def mapping_of_rules(value: object) -> object:
    if value is not None and not isinstance(value, dict | BaseModel):
        raise ValueError("a mapping is expected, for example {rules: c4}")
    return value


def mapping_of_kinds(value: object) -> object:
    if value is not None and not isinstance(value, dict | BaseModel):
        raise ValueError("a mapping is expected, for example {mail: true, ip: true}")
    return value


def yes_or_text(value: object) -> object:
    if not isinstance(value, bool | str):
        raise ValueError("true or a replacement text is expected")
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(
            "the replacement text holds an unpaired surrogate of UTF-16; use complete characters"
        )
    return value


# Pydantic reports the faults of the matching type alone, not of both types of the union.
MappingOrNot = Discriminator(mapping_or_not)


class Lines(Strict):
    """Which lines are removed from a text, and which characters are removed from a line."""

    rules: Literal["c4", "refinedweb"]
    terminal_punctuation: Flag = Field(
        True, description="Rules c4 only: remove a line that does not end with punctuation."
    )

    @model_validator(mode="after")
    def check_terminal_punctuation(self) -> "Lines":
        if self.rules != "c4" and "terminal_punctuation" in self.model_fields_set:
            raise ValueError(
                "terminal_punctuation is an option of the rules c4 only; remove it or use rules: c4"
            )
        return self


Replacement = Annotated[bool | str, BeforeValidator(yes_or_text)]


class PersonalData(Strict):
    """Which kinds of personal data are replaced: by the default text (true), or by a given text."""

    mail: Replacement = Field(False, description="Mail addresses.")
    ip: Replacement = Field(False, description="Public addresses of IPv4 and IPv6.")
    phone: Replacement = Field(False, description="Phone numbers in a usual notation.")
    card: Replacement = Field(False, description="Numbers of payment cards.")
    iban: Replacement = Field(False, description="International bank account numbers (IBAN).")
    columns: tuple[str, ...] = Field(
        (),
        description="Columns of the source to clean like the text: columns of texts, or of lists or objects of "
        "texts. If no kind is given, mail and ip are replaced.",
    )

    @model_serializer(mode="wrap")
    def without_unused_kinds(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the kinds that are not replaced. An empty text is a valid replacement."""
        return {name: value for name, value in dump(self).items() if value is not False and value != ()}

    @model_validator(mode="after")
    def default_kinds_for_columns(self) -> "PersonalData":
        return (
            PersonalData(mail=True, ip=True, columns=self.columns)
            if set(self.model_dump()) == {"columns"}
            else self
        )


class Cleaning(Strict):
    """The changes to a text, in the order in which they are made."""

    unicode: Annotated[
        Annotated[Flag, Tag(OTHER)] | Annotated[dict[str, Any], Tag(MAPPING)], MappingOrNot
    ] = Field(
        False,
        description="Repair mojibake and normalise Unicode with ftfy: true, or options of its TextFixerConfig.",
    )
    newlines: Flag = Field(False, description="Replace every kind of line end by one line feed.")
    control_characters: Flag = Field(
        False, description="Remove control characters, except tabs and line ends."
    )
    runs: Annotated[
        Annotated[Literal["zyda1"], Tag(OTHER)] | Annotated[dict[Character, Most], Tag(MAPPING)],
        MappingOrNot,
    ] = Field(
        default_factory=dict,
        description="The longest allowed run of a character; a longer run is replaced by one character. zyda1: the "
        "limits of Zyda-1.",
    )
    lines: Annotated[Lines | None, BeforeValidator(mapping_of_rules)] = None
    pii: Annotated[PersonalData | None, BeforeValidator(mapping_of_kinds)] = Field(
        None, description="Personal data to replace, by kind."
    )

    @field_validator("unicode")
    @classmethod
    def options_or_defaults(cls, value: bool | dict[str, Any]) -> bool | dict[str, Any]:
        return True if value == {} else value

    @field_validator("pii")
    @classmethod
    def none_without_kinds(cls, value: PersonalData | None) -> PersonalData | None:
        return value if value and value.model_dump() else None

    @property
    def changes(self) -> list[str]:
        """The names of the changes that are made, in order."""
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
