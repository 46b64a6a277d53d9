"""The rule sets of a step, with the limits, options and files that a recipe sets for them."""

import re
from collections.abc import Mapping
from math import isfinite, nan
from typing import Any, NamedTuple

from zyda_flows.tasks.recipe.rule_sets import RULE_SETS, RuleSet
from zyda_flows.tasks.recipe.values import number, valid_url, without_credentials

FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
OWN_SET = re.compile(r"[a-z0-9][a-z0-9_-]*")
Limits = tuple[float | None, float | None]


class RuleSettings(NamedTuple):
    """One rule set of a step.

    name: the name of the set in the recipe. published_set: the published rule set; None for a set that the user
    defines, whose rules name the set of their statistic (`fineweb.short_lines`). bounds: lowest and highest value
    by rule. lists: URLs of term lists by name. languages: files with limits for each language. overridden: the
    rules and options that the recipe sets; the limits of `languages` do not apply to them.
    """

    name: str
    published_set: str | None
    bounds: dict[str, Limits]
    options: dict[str, Any] = {}
    lists: dict[str, str] = {}
    languages: tuple[str, ...] = ()
    overridden: frozenset[str] = frozenset()


def parse_rule_settings(name: str, values: Any, *, filters: bool) -> RuleSettings:
    """Return the settings of the rule set `name`.

    Args:
        values: the mapping of rules, options and files in the recipe.
        filters: whether the step removes documents; if not, rules have no limits.

    Raises ValueError for an unknown set, rule or option, and for an invalid value.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{name}: a mapping of its rules to values is expected")
    if name in RULE_SETS:
        return published_rule_settings(name, values, filters=filters)
    if FUNCTION.fullmatch(name):
        raise ValueError(f"{name}: a function needs its own step, without other names in it")
    if not filters or not values or not OWN_SET.fullmatch(name):
        raise ValueError(f"unknown rule set {name}; use one of {', '.join(RULE_SETS)}")
    bounds = {
        str(rule): statistic_bounds(f"{name}.{rule}", str(rule), value) for rule, value in values.items()
    }
    return RuleSettings(name, None, bounds)


def published_rule_settings(name: str, values: Mapping[str, Any], *, filters: bool) -> RuleSettings:
    """Return the settings of a published rule set: its defaults, changed by the recipe's values."""
    rule_set = RULE_SETS[name]
    settings = with_values(name, rule_set, values)
    if limited := [rule for rule in values if rule in rule_set.rules and not filters]:
        raise ValueError(f"{name}.{limited[0]}: `measure` takes no limits; use `filter` to remove documents")
    if filters and not settings.bounds:
        raise ValueError(f"{name}: no rule of this set has a limit, so it would remove nothing; set a limit")
    return settings


def statistic_bounds(field: str, rule: str, value: Any) -> Limits:
    """Return the limits of a rule in a set that the user defines. Raises ValueError."""
    set_name, _, statistic = rule.partition(".")
    rule_set = RULE_SETS.get(set_name)
    if rule_set is None or statistic not in rule_set.rules or statistic in rule_set.lists:
        raise ValueError(f"{field}: a statistic of a rule set is expected, for example fineweb.short_lines")
    return pair(field, value)


def with_values(name: str, rule_set: RuleSet, values: Mapping[str, Any]) -> RuleSettings:
    """Return a rule set with the recipe's values in place of its defaults. Raises ValueError."""
    options = dict(rule_set.options)
    lists = term_lists(name, rule_set, values)
    # A rule that counts the terms of a list applies only if the recipe gives the list.
    bounds: dict[str, Limits] = {
        rule_name: (rule.low, rule.high)
        for rule_name, rule in rule_set.rules.items()
        if rule_set.lists.get(rule_name) in (None, *lists)
    }
    languages = language_files(name, rule_set, values)
    for key, value in values.items():
        field = f"{name}.{key}"
        if key in options:
            options[key] = option(field, value, options[key])
        elif key in bounds:
            bounds[key] = limits(field, value, bounds[key])
        elif key not in file_fields(rule_set):
            raise unknown_rule(name, key, rule_set)
    bounds = {rule: bound for rule, bound in bounds.items() if bound != (None, None)}
    return RuleSettings(
        name=name,
        published_set=name,
        bounds=bounds,
        options=options,
        lists=lists,
        languages=languages,
        overridden=frozenset(values),
    )


def file_fields(rule_set: RuleSet) -> list[str]:
    """Return the fields of a rule set that name files."""
    return ["lists"] * bool(rule_set.lists) + ["languages"] * rule_set.by_language


def unknown_rule(name: str, key: str, rule_set: RuleSet) -> ValueError:
    """Return the error for a key that the rule set cannot use."""
    if key in rule_set.rules:
        return ValueError(
            f"{name}.{key}: this rule counts terms of the list {rule_set.lists[key]}; add it to `lists`"
        )
    known_names = ", ".join([*rule_set.rules, *rule_set.options, *file_fields(rule_set)])
    return ValueError(f"{name}: unknown rule {key}; use one of {known_names}")


def option(field: str, value: Any, default: Any) -> Any:
    if type(value) is not type(default):
        raise ValueError(f"{field}: true or false is expected")
    return value


def term_lists(name: str, rule_set: RuleSet, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the URLs of the term lists that the recipe gives for a rule set, by name. Raises ValueError."""
    lists = values.get("lists", {}) if rule_set.lists else {}
    if not isinstance(lists, dict) or not all(isinstance(url, str) for url in lists.values()):
        raise ValueError(f"{name}.lists: a mapping of names to files is expected")
    for list_name in lists:
        if list_name not in rule_set.lists.values():
            known_names = ", ".join(dict.fromkeys(rule_set.lists.values()))
            raise ValueError(f"{name}.lists: unknown list {list_name}; use one of {known_names}")
    return {list_name: valid_url(without_credentials(url)) for list_name, url in lists.items()}


def language_files(name: str, rule_set: RuleSet, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files with a rule set's limits for each language. Raises ValueError."""
    if not rule_set.by_language:
        return ()
    files = values.get("languages") or ()
    files = (files,) if isinstance(files, str) else files
    if not files or not isinstance(files, list | tuple) or not all(isinstance(url, str) for url in files):
        raise ValueError(
            f"{name}.languages: files are expected, one for each language, as FineWeb-2 publishes them"
        )
    return tuple(valid_url(without_credentials(url)) for url in files)


def limits(field: str, value: Any, published: Limits) -> Limits:
    """Return the limits of a rule: a number replaces its one published limit, null removes the limits."""
    if value is None:
        return None, None
    if isinstance(value, list | tuple) or published.count(None) != 1:
        return pair(field, value)
    limit = as_number(field, value)
    return (limit, None) if published[1] is None else (None, limit)


def pair(field: str, value: Any) -> Limits:
    if not isinstance(value, list | tuple) or len(value) != 2 or tuple(value) == (None, None):
        raise ValueError(f"{field}: two values are expected, [lowest, highest]; one of them may be null")
    low, high = (None if end is None else as_number(field, end) for end in value)
    if low is not None and high is not None and low > high:
        raise ValueError(f"{field}: {low:g} is more than {high:g}, so every document would be removed")
    return low, high


def as_number(field: str, value: Any) -> float:
    try:
        as_float = float(number(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        as_float = nan
    if not isfinite(as_float):
        raise ValueError(f"{field}: a number is expected")
    return as_float
