"""The rule sets to measure for a recipe: their statistics, with term lists and stop words."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from zyda_flows.tasks.documents.cleanings import PERSONAL_VERSION
from zyda_flows.tasks.documents.language_rules import (
    LanguageRules,
    check_written_with_spaces,
    read_language_rules,
)
from zyda_flows.tasks.documents.languages import LANGUAGE, kept_languages
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS
from zyda_flows.tasks.recipe.rule_settings import Limits, RuleSettings
from zyda_flows.tasks.recipe.steps.language_id import LanguageId, LanguageIdStep
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

ZYDA1, PERSONAL = "zyda1", "pii"  # sets with their own passes; all other sets share a pass


class Measure(Record):
    """A rule set whose statistics are measured.

    terms: the terms of its lists, by name. digests: the SHA-256 of the files of these lists. stop_words: by
    language. languages: the column of the statistics with the language of each document. version: the version of
    the detection of personal data, for the set `pii`.
    """

    rule_set: str
    statistics: tuple[str, ...]
    options: dict[str, Any] = {}
    terms: dict[str, tuple[str, ...]] = {}
    digests: dict[str, str] = {}
    languages: str = ""
    stop_words: dict[str, tuple[str, ...]] = {}
    version: str = ""

    @property
    def shared_pass(self) -> str:
        """The name of the pass that it shares with other sets: personal data, or words and lines; "" for none."""
        return {PERSONAL: PERSONAL, ZYDA1: ""}.get(self.rule_set, "prose")

    @property
    def terminal(self) -> bool:
        return bool(self.options.get("terminal_punctuation", True))


@dataclass(frozen=True)
class Languages:
    """The languages of documents, from an earlier step. column: of the statistics. settings: of that step."""

    column: str = ""
    settings: LanguageId | None = None

    def rules_of(self, settings: RuleSettings) -> dict[str, LanguageRules]:
        """Return the rules in a set's files for each language that is kept. Raises BadInput."""
        name = f"{settings.name}.languages"
        if not settings.languages:
            return {}
        kept = kept_languages(self.settings) if self.settings else {}
        if not kept:
            raise BadInput(f"{name}: add a step language_id with `keep` before this step")
        all_rules = read_language_rules(name, settings.languages)
        if missing := [language for language in kept if language not in all_rules]:
            raise BadInput(f"{name}: there is no file for {missing[0]}, which language_id keeps; add one")
        rules = {language: all_rules[language] for language in kept}
        check_written_with_spaces(name, rules)
        return rules

    def bounds_of(self, settings: RuleSettings) -> dict[str, dict[str, Limits]]:
        """Return limits by rule and language, for the rules of a set that the recipe does not override."""
        languages = self.rules_of(settings)
        rule_names = {rule for rules in languages.values() for rule in rules.bounds} - settings.overridden
        return {
            name: {
                language: rules.bounds.get(name, settings.bounds[name])
                for language, rules in languages.items()
            }
            for name in rule_names & settings.bounds.keys()
        }


def languages_of(before: Sequence[Step]) -> Languages:
    """Return the languages that a step before the current step identifies."""
    for number, step in enumerate(before, 1):
        if isinstance(step, LanguageIdStep):
            return Languages(f"{number}.{LANGUAGE}", step.language_id)
    return Languages()


def statistics_of(rule_set: str, lists: Collection[str]) -> tuple[str, ...]:
    """Return the statistics of a rule set, without the statistics of term lists that are not given."""
    settings = RULE_SETS[rule_set]
    return tuple(rule for rule in settings.rules if settings.lists.get(rule) in (None, *lists))


def measures_of(sets: Iterable[RuleSettings], languages: Languages) -> tuple[Measure, ...]:
    """Return the rule sets to measure, each once, with the terms of their lists."""
    measures = dict[str, Measure]()
    for settings in sets:
        published = settings.published_set
        contents = {name: content_of(url) for name, url in settings.lists.items()}
        words = {name: rules.stop_words for name, rules in languages.rules_of(settings).items()}
        for rule_set in [published] if published else [rule.partition(".")[0] for rule in settings.bounds]:
            measure = Measure(
                rule_set=rule_set,
                statistics=statistics_of(rule_set, contents),
                options=settings.options if published else RULE_SETS[rule_set].options,
                terms={name: terms_of(settings.lists[name], content) for name, content in contents.items()},
                digests={name: sha256(content).hexdigest() for name, content in contents.items()},
                languages=languages.column if settings.languages else "",
                stop_words=words,
                version=PERSONAL_VERSION if rule_set == PERSONAL else "",
            )
            measures.setdefault(rule_set, measure)
    return tuple(measures.values())


def content_of(url: str) -> bytes:
    """Return the content of a term list. Raises Denied, Unavailable, and ValueError for a missing or large file."""
    folder, _, name = url.rpartition("/")
    content = Folder(folder or "/").read_if_there(name)
    if content is None:
        raise ValueError(f"{url}: no such file")
    if len(content) > limits().rules_bytes:
        raise ValueError(f"{url}: it has {len(content):,} bytes, expected at most {limits().rules_bytes:,}")
    return content


def terms_of(url: str, content: bytes) -> tuple[str, ...]:
    """Return the terms of a list, which are regular expressions. Raises ValueError for an invalid one."""
    from zyda_flows.textkernels.texts.patterns import Patterns
    from zyda_flows.textkernels.texts.word_lists import word_list

    terms = word_list(content, url)
    for term in terms:
        try:
            Patterns((term,))
        except re.error as error:
            raise ValueError(f"{url}: {term!r} is no regular expression: {error}") from error
    return terms
