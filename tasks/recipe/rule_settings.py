"""The rule sets that a step asks for, with what a recipe says otherwise of their rules."""

import re
from collections.abc import Mapping
from math import isfinite, nan
from typing import Any, NamedTuple

from zyda_flows.tasks.recipe.rule_sets import RULE_SETS, RuleSet
from zyda_flows.tasks.recipe.values import number, readable, without_credentials

FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
OWN_SET = re.compile(r"[a-z0-9][a-z0-9_-]*")
Limits = tuple[float | None, float | None]


class RuleSettings(NamedTuple):
    """A set of rules as a step asks for it: `bounds` by rule, options, and the URL of each list by its name.

    of: the set whose statistics it looks at, or None where its rules say so themselves (`fineweb.short_lines`).
    languages: files with values for each language, which hold for the rules that the step does not name, `said`.
    """

    name: str
    of: str | None
    bounds: dict[str, Limits]
    options: dict[str, Any] = {}
    lists: dict[str, str] = {}
    languages: tuple[str, ...] = ()
    said: frozenset[str] = frozenset()


def rule_settings(name: str, values_of_rules: Any, *, filters: bool) -> RuleSettings:
    if not isinstance(values_of_rules, dict):
        raise ValueError(f"{name}: a mapping of its rules to values is expected")
    if name in RULE_SETS:
        of_set = of_a_set(name, RULE_SETS[name], values_of_rules)
        if values := [rule for rule in values_of_rules if rule in RULE_SETS[name].rules and not filters]:
            raise ValueError(f"{name}.{values[0]}: a value is for a filter; measure lets nothing go")
        if filters and not of_set.bounds:
            raise ValueError(f"{name}: none of its rules has a value, so that it lets nothing go")
        return of_set
    if FUNCTION.fullmatch(name):
        raise ValueError(f"{name}: a function has a step of its own, with nothing beside it")
    if not filters or not values_of_rules or not OWN_SET.fullmatch(name):
        raise ValueError(f"there is no rule set {name}; there are {', '.join(RULE_SETS)}")
    bounds = dict[str, Limits]()
    for rule, bound in values_of_rules.items():
        of, _, statistic = str(rule).partition(".")
        if of not in RULE_SETS or statistic not in RULE_SETS[of].rules or statistic in RULE_SETS[of].lists:
            raise ValueError(f"{name}.{rule}: a statistic of a rule set is expected, fineweb.short_lines say")
        bounds[rule] = pair(f"{name}.{rule}", bound)
    return RuleSettings(name, None, bounds)


def of_a_set(name: str, rule_set: RuleSet, values_of_rules: Mapping[str, Any]) -> RuleSettings:
    """Return a set with what a recipe says otherwise of its rules."""
    options = dict(rule_set.options)
    lists = values_of_rules.get("lists", {}) if rule_set.lists else {}
    if not isinstance(lists, dict) or not all(isinstance(url, str) for url in lists.values()):
        raise ValueError(f"{name}.lists: a mapping of names to files is expected")
    for called in lists:
        if called not in rule_set.lists.values():
            known_names = ", ".join(dict.fromkeys(rule_set.lists.values()))
            raise ValueError(f"{name}.lists: there is no list {called}; there are {known_names}")
    lists = {called: readable(without_credentials(str(url))) for called, url in lists.items()}
    # A rule about a list that nobody gives says nothing.
    bounds: dict[str, Limits] = {
        rule: (of_rule.low, of_rule.high)
        for rule, of_rule in rule_set.rules.items()
        if rule_set.lists.get(rule) in (None, *lists)
    }
    languages = files_of(name, rule_set, values_of_rules)
    for key, value in values_of_rules.items():
        if key in options:
            if type(value) is not type(options[key]):
                raise ValueError(f"{name}.{key}: true or false is expected")
            options[key] = value
        elif key in bounds:
            bounds[key] = limits_of(f"{name}.{key}", value, bounds[key])
        elif key in rule_set.rules:
            raise ValueError(f"{name}.{key}: it counts the list {rule_set.lists[key]}, which `lists` has not")
        elif (key != "lists" or not rule_set.lists) and (key != "languages" or not rule_set.by_language):
            files = ["lists"] * bool(rule_set.lists) + ["languages"] * rule_set.by_language
            known_names = ", ".join([*rule_set.rules, *options, *files])
            raise ValueError(f"{name}: there is no rule {key}; there are {known_names}")
    bounds = {rule: bound for rule, bound in bounds.items() if bound != (None, None)}
    return RuleSettings(
        name=name,
        of=name,
        bounds=bounds,
        options=options,
        lists=lists,
        languages=languages,
        said=frozenset({*values_of_rules}),
    )


def files_of(name: str, rule_set: RuleSet, values_of_rules: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files that have a set's values for each language."""
    if not rule_set.by_language:
        return ()
    files = values_of_rules.get("languages") or ()
    files = (files,) if isinstance(files, str) else files
    if not files or not isinstance(files, list | tuple) or not all(isinstance(url, str) for url in files):
        raise ValueError(
            f"{name}.languages: files are expected, one for each language, as FineWeb-2 has them"
        )
    return tuple(readable(without_credentials(url)) for url in files)


def limits_of(field: str, value: Any, published: Limits) -> Limits:
    """Return what a recipe says of a rule: one number for its one bound, two, or null for none."""
    if value is None:
        return None, None
    if isinstance(value, list | tuple) or published.count(None) != 1:
        return pair(field, value)
    at = as_number(field, value)
    return (at, None) if published[1] is None else (None, at)


def pair(field: str, value: Any) -> Limits:
    if not isinstance(value, list | tuple) or len(value) != 2 or tuple(value) == (None, None):
        raise ValueError(f"{field}: two values are expected, [least, most], of which one may be null")
    low, high = (None if end is None else as_number(field, end) for end in value)
    if low is not None and high is not None and low > high:
        raise ValueError(f"{field}: {low:g} is more than {high:g}, so that every document would go")
    return low, high


def as_number(field: str, value: Any) -> float:
    try:
        as_float = float(number(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        as_float = nan
    if not isfinite(as_float):
        raise ValueError(f"{field}: a number is expected")
    return as_float
