"""The steps with rule sets: `filter` removes documents by their statistics, `measure` publishes the statistics."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from zyda_flows.tasks.recipe.rule_settings import RuleSettings, parse_rule_settings
from zyda_flows.tasks.recipe.steps.step import Place, Step, name_or_mapping


def names_or_mapping(value: object) -> object:
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    if not is_list and not isinstance(value, str | dict):
        raise ValueError("a name, a list of names or a mapping is expected")
    return value


class RuleSetStep(Step):
    """The base of both steps. is_filter: whether rules have limits by which documents are removed."""

    is_filter: ClassVar[bool]

    @model_validator(mode="after")
    def names_rule_sets(self) -> "RuleSetStep":
        if not self.function and not list(self.sets()):
            raise ValueError(f"{self.kind}: no rule set is given")
        return self

    @property
    def name(self) -> str:
        return self.settings if isinstance(self.settings, str) else "+".join(self.settings)

    @property
    def is_for_prose(self) -> bool:
        return not self.function

    def sets(self) -> Iterator[RuleSettings]:
        """Yield the settings of each rule set; nothing for a function. Raises ValueError for an unknown set."""
        named = [self.settings] if isinstance(self.settings, str) else self.settings
        for name in () if self.function else named:
            values = named[name] if isinstance(named, dict) else None
            yield parse_rule_settings(name, {} if values is None else values, filters=self.is_filter)

    def with_files(self, place: Place) -> Self:
        if not isinstance(self.settings, dict):
            return self
        sets = {name: with_placed_files(values, place) for name, values in self.settings.items()}
        return self.model_copy(update={self.kind: sets})


def with_placed_files(values: Any, place: Place) -> Any:
    """Return the settings of a rule set with `place` applied to each URL of a file."""
    files = {**values} if isinstance(values, dict) else {}
    if "lists" in files:
        files["lists"] = {name: place(url) for name, url in files["lists"].items()}
    if "languages" in files:
        urls = files["languages"]
        files["languages"] = [place(url) for url in ([urls] if isinstance(urls, str) else urls)]
    return files or values


class FilterStep(RuleSetStep):
    """Remove documents by the values of their statistics."""

    is_filter = True

    filter: Annotated[str | dict[str, Any], BeforeValidator(name_or_mapping)] = Field(
        description="Remove documents: a rule set, a mapping of rule sets to limits, or module:function."
    )


class MeasureStep(RuleSetStep):
    """Publish statistics of documents."""

    is_filter = False

    measure: Annotated[str | list[str] | dict[str, Any], BeforeValidator(names_or_mapping)] = Field(
        description="Publish the statistics of rule sets as columns of each document."
    )
