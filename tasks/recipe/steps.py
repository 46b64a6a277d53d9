"""The steps on documents that a recipe can ask for, in its order: clean, filter, measure.

    documents:
      - clean: zyda1                        # or {unicode: true, newlines: true, runs: {"-": 9}}
      - filter: zyda1                       # a set of rules with its published defaults
      - filter: {gopher-quality: {words: [50, 100000], hashes: null}}
      - filter: {mine: {fineweb.short_lines: [null, 0.5]}}
      - measure: [fineweb, code]            # columns of the published documents; nothing goes
      - filter: my_steps:shouting           # a function of one's own

Each is looked up in `tasks.recipe.rule_sets`; what a step does is in `tasks.documents`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite, nan
from typing import Annotated, Any, Literal, NamedTuple

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

from tasks.recipe.rule_sets import SETS, RuleSet
from tasks.recipe.values import Number, Strict, Yes, number, readable, without_credentials

FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
MOST_IN_A_RUN = 2**31 - 1
MAPPING, OTHER = "<mapping>", "<other>"  # what a value is that may be a mapping; no recipe has such names
OWN_SET = re.compile(r"[a-z0-9][a-z0-9_-]*")

Character = Annotated[str, Field(min_length=1, max_length=1)]
Most = Annotated[int, Number, Field(ge=1, le=MOST_IN_A_RUN)]
Bound = tuple[float | None, float | None]


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


class RuleSettings(NamedTuple):
    """A set of rules as a step asks for it: `bounds` by rule, options, and the URL of each list by its name.

    of: the set whose statistics it looks at, or None where its rules say so themselves (`fineweb.short_lines`).
    """

    name: str
    of: str | None
    bounds: dict[str, Bound]
    options: dict[str, Any] = {}
    lists: dict[str, str] = {}


def name_or_mapping(value: object) -> object:
    if not isinstance(value, str | dict | Cleaning | None):
        raise ValueError("a name or a mapping is expected; a step for each where there are several")
    return value


def names_or_mapping(value: object) -> object:
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    if not is_list and not isinstance(value, str | dict | None):
        raise ValueError("a name, a list of names or a mapping is expected")
    return value


def as_steps(value: object) -> object:
    """Refuse what is no list of mappings."""
    if value is not None and not isinstance(value, list | tuple):
        raise ValueError("a list of steps is expected, each with clean, filter or measure")
    for step in value or ():
        if not isinstance(step, dict | Step):
            raise ValueError(f"a step is `clean`, `filter` or `measure` with what it says, not {step!r}")
    return value


class Step(Strict):
    """One step: give one of clean, filter and measure."""

    clean: Annotated[
        Annotated[Annotated[str | None, Tag(OTHER)] | Annotated[Cleaning, Tag(MAPPING)], MappingOrNot],
        BeforeValidator(name_or_mapping),
    ] = Field(None, description="Change the text: a name, or what is to be done.")
    filter: Annotated[str | dict[str, Any] | None, BeforeValidator(name_or_mapping)] = Field(
        None, description="Let documents go: a rule set, a mapping of them to values, or module:function."
    )
    measure: Annotated[str | list[str] | dict[str, Any] | None, BeforeValidator(names_or_mapping)] = Field(
        None, description="Publish the statistics of rule sets beside each document."
    )

    @model_serializer(mode="wrap")
    def without_what_says_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what a step does not do, so that what is written can be read again."""
        return {name: value for name, value in dump(self).items() if value is not None}

    @model_validator(mode="after")
    def says_one_thing_that_can_be_done(self) -> "Step":
        if len(self.model_fields_set & {"clean", "filter", "measure"}) != 1 or self.does is None:
            raise ValueError("give one of clean, filter and measure")
        if self.function is None:
            if self.clean is not None and not self.cleaning.done:
                raise ValueError("clean: it says nothing to be cleaned")
            if self.clean is None and not list(self.sets()):
                raise ValueError(f"{self.kind}: it names no rule set")
        return self

    @property
    def kind(self) -> str:
        """Which of the three it is."""
        return next(kind for kind in ("clean", "filter", "measure") if getattr(self, kind) is not None)

    @property
    def does(self) -> Any:
        """What is asked."""
        return next((one for one in (self.clean, self.filter, self.measure) if one is not None), None)

    @property
    def function(self) -> str | None:
        """The function of one's own that does it, as `module:function`."""
        return self.does if isinstance(self.does, str) and FUNCTION.fullmatch(self.does) else None

    @property
    def name(self) -> str:
        """What it is called where its documents are counted."""
        if isinstance(self.does, str):
            return self.does
        if isinstance(self.does, Cleaning):
            return "+".join(sorted(self.does.done))
        return "+".join(self.does)

    @property
    def cleaning(self) -> Cleaning:
        """What is cleaned. Raises ValueError for a name that means nothing."""
        if isinstance(self.clean, Cleaning):
            return self.clean
        if self.clean not in NAMED_CLEANINGS:
            raise ValueError(f"clean: there is no {self.clean}; there are {', '.join(NAMED_CLEANINGS)}")
        return NAMED_CLEANINGS[self.clean]

    def sets(self) -> Iterator[RuleSettings]:
        """Return the rule sets that are asked for. Raises ValueError for what there is not."""
        named = [self.does] if isinstance(self.does, str) else self.does
        for name in named:
            said = named[name] if isinstance(named, dict) else None
            yield rule_settings(name, {} if said is None else said, filters=self.filter is not None)


def rule_settings(name: str, said: Any, *, filters: bool) -> RuleSettings:
    if not isinstance(said, dict):
        raise ValueError(f"{name}: a mapping of its rules to values is expected")
    if name in SETS:
        of_set = of_a_set(name, SETS[name], said)
        if values := [rule for rule in said if rule in SETS[name].rules and not filters]:
            raise ValueError(f"{name}.{values[0]}: a value is for a filter; measure lets nothing go")
        if filters and not of_set.bounds:
            raise ValueError(f"{name}: none of its rules has a value, so that it lets nothing go")
        return of_set
    if FUNCTION.fullmatch(name):
        raise ValueError(f"{name}: a function has a step of its own, with nothing beside it")
    if not filters or not said or not OWN_SET.fullmatch(name):
        raise ValueError(f"there is no rule set {name}; there are {', '.join(SETS)}")
    bounds = dict[str, Bound]()
    for rule, bound in said.items():
        of, _, statistic = str(rule).partition(".")
        if of not in SETS or statistic not in SETS[of].rules or statistic in SETS[of].lists:
            raise ValueError(f"{name}.{rule}: a statistic of a rule set is expected, fineweb.short_lines say")
        bounds[rule] = pair(f"{name}.{rule}", bound)
    return RuleSettings(name, None, bounds)


def of_a_set(name: str, rule_set: RuleSet, said: Mapping[str, Any]) -> RuleSettings:
    """Return a set with what a recipe says otherwise of its rules."""
    options = dict(rule_set.options)
    lists = said.get("lists", {}) if rule_set.lists else {}
    if not isinstance(lists, dict) or not all(isinstance(url, str) for url in lists.values()):
        raise ValueError(f"{name}.lists: a mapping of names to files is expected")
    for called in lists:
        if called not in rule_set.lists.values():
            there = ", ".join(dict.fromkeys(rule_set.lists.values()))
            raise ValueError(f"{name}.lists: there is no list {called}; there are {there}")
    lists = {called: readable(without_credentials(str(url))) for called, url in lists.items()}
    # A rule about a list that nobody gives says nothing.
    bounds: dict[str, Bound] = {
        rule: (of_rule.low, of_rule.high)
        for rule, of_rule in rule_set.rules.items()
        if rule_set.lists.get(rule) in (None, *lists)
    }
    for key, value in said.items():
        if key in options:
            if type(value) is not type(options[key]):
                raise ValueError(f"{name}.{key}: true or false is expected")
            options[key] = value
        elif key in bounds:
            bounds[key] = bound_of(f"{name}.{key}", value, bounds[key])
        elif key in rule_set.rules:
            raise ValueError(f"{name}.{key}: it counts the list {rule_set.lists[key]}, which `lists` has not")
        elif key != "lists" or not rule_set.lists:
            there = ", ".join([*rule_set.rules, *options, *(["lists"] if rule_set.lists else [])])
            raise ValueError(f"{name}: there is no rule {key}; there are {there}")
    return RuleSettings(name, name, {r: b for r, b in bounds.items() if b != (None, None)}, options, lists)


def bound_of(what: str, value: Any, published: Bound) -> Bound:
    """Return what a recipe says of a rule: one number for its one bound, two, or null for none."""
    if value is None:
        return None, None
    if isinstance(value, list | tuple) or None not in published:
        return pair(what, value)
    at = as_number(what, value)
    return (at, None) if published[1] is None else (None, at)


def pair(what: str, value: Any) -> Bound:
    if not isinstance(value, list | tuple) or len(value) != 2 or tuple(value) == (None, None):
        raise ValueError(f"{what}: two values are expected, [least, most], of which one may be null")
    low, high = (None if one is None else as_number(what, one) for one in value)
    if low is not None and high is not None and low > high:
        raise ValueError(f"{what}: {low:g} is more than {high:g}, so that every document would go")
    return low, high


def as_number(what: str, value: Any) -> float:
    try:
        found = float(number(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = nan
    if not isfinite(found):
        raise ValueError(f"{what}: a number is expected")
    return found


def list_urls(steps: tuple[Step, ...] | None) -> Iterator[str]:
    """Return the files of terms that steps name."""
    for step in steps or ():
        if step.kind != "clean" and step.function is None:
            for of_set in step.sets():
                yield from of_set.lists.values()


def with_list_urls(step: Step, place: Callable[[str], str]) -> Step:
    """Return a step whose files of terms are somewhere else."""
    if not list(list_urls((step,))):
        return step

    def placed(said: Any) -> Any:
        lists = (
            {name: place(url) for name, url in said["lists"].items()} if said and "lists" in said else None
        )
        return {**said, "lists": lists} if lists else said

    return step.model_copy(update={step.kind: {name: placed(said) for name, said in step.does.items()}})
