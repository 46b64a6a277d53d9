"""Limits of rules and stop words for each language, from files in the form that FineWeb-2 publishes.

A file has the name of its language in the model of the step `language_id`, `deu_Latn.yml`. Its fields have the
names of FineWeb-2's configs, or of the rules of `fineweb-2`:

    language_score: 0.821
    stopwords: [der, und, die]
    dup_line_frac: 0.263
    top_n_grams: [[2, 0.169], [3, 0.153], [4, 0.137]]
    words: [20, 100000]
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from posixpath import basename
from typing import Any

import yaml

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.rule_sets import FINEWEB_2
from zyda_flows.tasks.recipe.rule_settings import Limits, as_number
from zyda_flows.tasks.recipe.rule_settings import limits as rule_limits
from zyda_flows.tasks.sources.small_files import PlannedFile, planned_files, read_planned_file
from zyda_flows.tasks.storage.records import Record

SCORE, STOP_WORDS = "language_score", "stopwords"
# Fields of FineWeb-2's configs and their rules. In these configs, 0 disables the rules of OFF_AT_ZERO.
NAMES = {
    "dup_line_frac": "duplicate_lines",
    "line_punct_thr": "line_punctuation",
    "new_line_ratio": "new_lines",
    "max_non_alpha_words_ratio": "alphabetic_words",
}
LENGTHS = ("min_avg_word_length", "max_avg_word_length")
GRAMS = {"top_n_grams": "top_{}_grams", "dup_n_grams": "duplicate_{}_grams"}
OFF_AT_ZERO = {"duplicate_lines", "alphabetic_words", "mean_word_length"}
# Scripts without spaces between words: of the classes ID and SA of Unicode's line breaking (UAX #14), and Tibetan.
WITHOUT_SPACES = {
    "Hani", "Hans", "Hant", "Jpan", "Hira", "Kana", "Hrkt", "Bopo", "Yiii", "Thai", "Laoo", "Khmr", "Mymr", "Tibt",
    "Lana", "Tale", "Talu", "Tavt", "Ahom",
}  # fmt: skip
# Languages in such scripts, by the codes of ISO 639: labels of models such as lid.176 have no script.
LANGUAGES_WITHOUT_SPACES = {
    "ja", "jpn", "zh", "zho", "chi", "cmn", "yue", "wuu", "nan", "gan", "hak", "hsn", "lzh", "cdo", "cjy", "mnp",
    "cpx", "czh", "czo", "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur", "bo", "bod", "tib",
    "dz", "dzo", "ii", "iii", "nod", "tts", "sou", "shn", "mnw", "khb", "kkh", "tdd", "blt", "rki", "ltc", "och",
}  # fmt: skip
MOST_WORDS = 1000


class LanguageRules(Record):
    """The file of a language. score: the lowest probability of documents to keep. bounds: limits by rule."""

    language: str
    score: float | None = None
    stop_words: tuple[str, ...] = ()
    bounds: dict[str, Limits] = {}


def read_language_rules(name: str, urls: Sequence[str]) -> dict[str, LanguageRules]:
    """Return the rules in files by language. name: the field of the recipe, for errors.

    Raises BadInput for an unknown rule, and for two files of one language.
    """
    by_language = dict[str, LanguageRules]()
    for file in planned_files(name, tuple(urls), most=limits().rules_bytes):
        rules = rules_in(name, file)
        if rules.language in by_language:
            raise BadInput(f"{name}, file {file.listed.url}: a second file for {rules.language}; remove one")
        by_language[rules.language] = rules
    return by_language


@lru_cache(maxsize=4096)
def rules_in(name: str, file: PlannedFile) -> LanguageRules:
    """Return the rules in a file of a language. Raises BadInput."""
    language = re.sub(r"\.ya?ml$", "", basename(file.listed.url))
    try:
        content = yaml.safe_load(read_planned_file(name, file, limits().rules_bytes))
        if not isinstance(content, dict):
            raise ValueError("a mapping is expected")
        return LanguageRules(
            language=language,
            score=score_in(content),
            stop_words=stop_words_in(content),
            bounds=dict(bounds_in(content)),
        )
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        fault = str(getattr(error, "problem", None) or error).replace("\n", " ")
        raise BadInput(f"{name}, file {file.listed.url}: {fault}") from error


def score_in(content: Mapping[str, Any]) -> float | None:
    if SCORE not in content:
        return None
    score = as_number(SCORE, content[SCORE])
    if not 0 <= score <= 1:
        raise ValueError(f"{SCORE}: a probability is expected, from 0 to 1")
    return score


def stop_words_in(content: Mapping[str, Any]) -> tuple[str, ...]:
    words = content.get(STOP_WORDS, [])
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise ValueError(
            f"{STOP_WORDS}: a list of words is expected; write words that YAML reads as other values in quotes"
        )
    if len(words) > MOST_WORDS:
        raise ValueError(f"{STOP_WORDS}: it has {len(words):,} words, expected at most {MOST_WORDS:,}")
    return tuple(dict.fromkeys(words))


def bounds_in(content: Mapping[str, Any]) -> Iterator[tuple[str, Limits]]:
    """Yield the limits of a language by rule. Raises ValueError for an unknown rule."""
    if any(name in content for name in LENGTHS):
        low, high = (as_number(name, content[name]) if name in content else None for name in LENGTHS)
        yield "mean_word_length", (low or None, high or None)
    for name, value in content.items():
        if name in GRAMS:
            yield from grams_in(name, value)
        elif name in NAMES:
            yield NAMES[name], config_limits(name, value)
        elif name in FINEWEB_2.rules:
            published = FINEWEB_2.rules[name]
            yield name, rule_limits(name, value, (published.low, published.high))
        elif name not in {SCORE, STOP_WORDS, *LENGTHS}:
            raise ValueError(f"unknown rule {name}")


def config_limits(name: str, value: Any) -> Limits:
    """Return the limits of a rule by a field of FineWeb-2's configs."""
    limit = as_number(name, value)
    if limit == 0 and NAMES[name] in OFF_AT_ZERO:
        return None, None
    return (limit, None) if FINEWEB_2.rules[NAMES[name]].low is not None else (None, limit)


def grams_in(name: str, value: Any) -> Iterator[tuple[str, Limits]]:
    """Yield the limits for sequences of words, from pairs of the number of words and the highest share."""
    for pair in value if isinstance(value, list) else [value]:
        rule = GRAMS[name].format(pair[0]) if isinstance(pair, list) and len(pair) == 2 else ""
        if rule not in FINEWEB_2.rules:
            raise ValueError(
                f"{name}: pairs of a number of words and a share are expected, for example [[2, 0.2]]"
            )
        yield rule, (None, as_number(name, pair[1]))


def check_written_with_spaces(name: str, languages: Mapping[str, LanguageRules]) -> None:
    """Raise BadInput for a language without spaces between words, whose words the rules cannot count."""
    if others := [language for language in languages if is_without_spaces(language)]:
        raise BadInput(
            f"{name}: {others[0]} is written without spaces between words, but the rules count words between "
            "spaces; remove its file, and filter the language with your own function"
        )


def is_without_spaces(label: str) -> bool:
    """Return whether a language is written without spaces, by the script in its label, or by its code.

    Labels are those of language models: `jpn_Jpan`, `ja`, `zh-Hans`, `zh_CN`.
    """
    code, *subtags = label.removeprefix("__label__").replace("-", "_").split("_")
    scripts = [subtag.title() for subtag in subtags if len(subtag) == 4 and subtag.isalpha()]
    return bool(WITHOUT_SPACES & {*scripts}) if scripts else code.lower() in LANGUAGES_WITHOUT_SPACES
