"""Rule sets as a recipe asks for them: which statistics are measured, with which terms and stop words."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from zyda_flows.tasks.documents.cleanings import PERSONAL_VERSION
from zyda_flows.tasks.documents.language_rules import LanguageRules, check_written_with_spaces, language_rules
from zyda_flows.tasks.documents.languages import LANGUAGE, kept_languages
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS
from zyda_flows.tasks.recipe.rule_settings import Limits, RuleSettings
from zyda_flows.tasks.recipe.steps.language_id import LanguageId, LanguageIdStep
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

ZYDA1, PERSONAL = "zyda1", "pii"  # sets with passes of their own; all others are measured in one


class Measure(Record):
    """A rule set whose statistics are wanted.

    terms: of the lists that it counts, by their names. digests: of the files that these were read from, SHA-256.
    stop_words: by the language, which `languages`, a column of the statistics, names. version: of what finds
    personal data, of a set about it.
    """

    of: str
    statistics: tuple[str, ...]
    options: dict[str, Any] = {}
    terms: dict[str, tuple[str, ...]] = {}
    digests: dict[str, str] = {}
    languages: str = ""
    stop_words: dict[str, tuple[str, ...]] = {}
    version: str = ""

    @property
    def shared_pass(self) -> str:
        """The pass over texts that measures it with other sets: about personal data, or about words and lines."""
        return PERSONAL if self.of == PERSONAL else "" if self.of == ZYDA1 else "prose"

    @property
    def terminal(self) -> bool:
        return bool(self.options.get("terminal_punctuation", True))


@dataclass(frozen=True)
class Languages:
    """The languages of documents, from a step before. column: of the statistics."""

    column: str = ""
    said: LanguageId | None = None

    def rules_of(self, settings: RuleSettings) -> dict[str, LanguageRules]:
        """Return what the files of a set say of each language that is kept. Raises BadInput."""
        name = f"{settings.name}.languages"
        if not settings.languages:
            return {}
        kept = kept_languages(self.said) if self.said else {}
        if not kept:
            raise BadInput(
                f"{name}: a step before it has to say which languages stay: language_id with `keep`"
            )
        found = language_rules(name, settings.languages)
        if without := [language for language in kept if language not in found]:
            raise BadInput(f"{name}: there is no file for {without[0]}, which language_id keeps")
        rules = {language: found[language] for language in kept}
        check_written_with_spaces(name, rules)
        return rules

    def bounds_of(self, settings: RuleSettings) -> dict[str, dict[str, Limits]]:
        """Return the values of each language for the rules of a set that its step does not name, by rule."""
        rules = self.rules_of(settings)
        of_files = {rule for of_language in rules.values() for rule in of_language.bounds} - settings.said
        return {
            rule: {language: of.bounds.get(rule, settings.bounds[rule]) for language, of in rules.items()}
            for rule in of_files & settings.bounds.keys()
        }


def languages_of(before: Sequence[Step]) -> Languages:
    """Return the languages that the steps before another one find."""
    for number, step in enumerate(before, 1):
        if isinstance(step, LanguageIdStep):
            return Languages(f"{number}.{LANGUAGE}", step.language_id)
    return Languages()


def statistics_of(of: str, lists: Collection[str]) -> tuple[str, ...]:
    """Return the statistics of a set, without those of lists that are not given."""
    of_set = RULE_SETS[of]
    return tuple(rule for rule in of_set.rules if of_set.lists.get(rule) in (None, *lists))


def measures_of(sets: Iterable[RuleSettings], languages: Languages) -> tuple[Measure, ...]:
    """Return what rule sets need measured, each set once, with the terms of its lists."""
    named = dict[str, Measure]()
    for settings in sets:
        contents = {name: content_of(url) for name, url in settings.lists.items()}
        words = {name: rules.stop_words for name, rules in languages.rules_of(settings).items()}
        for of in [settings.of] if settings.of else [rule.partition(".")[0] for rule in settings.bounds]:
            measure = Measure(
                of=of,
                statistics=statistics_of(of, contents),
                options=settings.options if settings.of else RULE_SETS[of].options,
                terms={name: terms_of(settings.lists[name], content) for name, content in contents.items()},
                digests={name: sha256(content).hexdigest() for name, content in contents.items()},
                languages=languages.column if settings.languages else "",
                stop_words=words,
                version=PERSONAL_VERSION if of == PERSONAL else "",
            )
            named.setdefault(of, measure)
    return tuple(named.values())


def content_of(url: str) -> bytes:
    """Read a list of terms. Raises Denied, Unavailable, and ValueError where there is none."""
    folder, _, name = url.rpartition("/")
    content = Folder(folder or "/").read_if_there(name)
    if content is None:
        raise ValueError(f"{url}: there is no such file")
    if len(content) > limits().rules_bytes:
        raise ValueError(f"{url}: it has {len(content):,} bytes, expected at most {limits().rules_bytes:,}")
    return content


def terms_of(url: str, content: bytes) -> tuple[str, ...]:
    """Return the terms of a list, which are regular expressions. Raises ValueError."""
    from zyda_flows.textkernels.texts.patterns import Patterns
    from zyda_flows.textkernels.texts.word_lists import word_list

    terms = word_list(content, url)
    for term in terms:
        try:
            Patterns((term,))
        except re.error as error:
            raise ValueError(f"{url}: {term!r} is no regular expression: {error}") from error
    return terms
