"""Words of facts: the lists of facts.toml, and the kind of a word by its form."""

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

KINDS = ("number", "negation", "identifier", "name")
APOSTROPHES = "'\u2019"


def read_lists(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


LISTS = read_lists("facts.toml")
WORDS = {name: frozenset(words.split()) for name, words in LISTS.items() if isinstance(words, str)}
OPPOSITES = tuple((tuple(left.split()), tuple(right.split())) for left, right in LISTS["opposites"])
PAIRS_OF_OPPOSITES = {  # the numbers of the pairs that have a word
    word: tuple(number for number, sides in enumerate(OPPOSITES) if word in sides[0] + sides[1])
    for word in {word for sides in OPPOSITES for side in sides for word in side}
}
FORMS = {word: line.split()[0] for line in LISTS["forms"] for word in line.split()}
SAME_UNITS = {unit: line.split()[0] for line in LISTS["same_units"] for unit in line.split()}
MONTHS = {name: number for number, line in enumerate(LISTS["months"], 1) for name in line.split()}
COVERED_WORDS = {
    name: frozenset(words.split()) for name, words in read_lists("languages.toml")["covered"].items()
}
FUNCTION_WORDS = frozenset().union(*COVERED_WORDS.values())
CHINESE_NEGATIONS = re.compile("|".join(sorted(word for word in WORDS["negations"] if word >= "\u3400")))
CHINESE_OPPOSITES = re.compile(
    "|".join(
        sorted(
            {word for pair in OPPOSITES for side in pair for word in side if word >= "\u3400"}
            - WORDS["negations"],
            key=lambda word: (-len(word), word),
        )
    )
)
CHINESE_NUMBER = re.compile(
    "[零〇半一二三四五六七八九十百千万萬亿億两兩]+(?:[分点點][之]?[零〇半一二三四五六七八九十百千万萬亿億两兩]+)?"
)
AMBIGUOUS = {"bar", "bit", "cal", "mes", "min", "second", "seconds"}  # also other words
UNIT_WORDS = {
    unit.lower(): SAME_UNITS.get(unit, unit.lower())
    for unit in (*WORDS["units"], *WORDS["unit_words"])
    if len(unit) > 2 and unit.isalpha() and unit[1:].islower() and unit not in AMBIGUOUS
}
DAYS_AND_MONTHS = WORDS["days"].union(name for name in MONTHS if len(name) > 3 or name == "mai") - {"march"}
NUMBER_FORM = re.compile(LISTS["number_form"], re.VERBOSE)  # of compounds and ordinals
FIRST_OF_NUMBERS = WORDS["number_beginnings"]
PARTS = re.compile(r"[./:_\\>-]+")


@lru_cache(maxsize=1 << 17)
def kind_of(word: str) -> tuple[str, str] | None:
    """Return the kind of a word and its compared form; None if it is no fact.

    A capitalised word is a name here. Its place decides whether it may be the beginning of a sentence.
    """
    lower = word.lower()
    if lower in WORDS["numbers"] or WORDS["numbers"].issuperset(lower.split("-")):  # also twenty-one
        return "number", lower
    if lower in UNIT_WORDS:
        return "number", UNIT_WORDS[lower]
    if lower in DAYS_AND_MONTHS or (lower[:3] in FIRST_OF_NUMBERS and NUMBER_FORM.fullmatch(lower)):
        return "number", lower
    if lower.endswith(tuple(f"n{mark}t" for mark in APOSTROPHES)):
        return "negation", "not"
    if lower in WORDS["negations"]:
        return "negation", FORMS.get(lower, lower)
    if word[0] in "nN" and word[1:2] in APOSTROPHES and len(word) > 2:  # French n'est
        return "negation", "ne"
    name = word[:-2] if len(word) > 2 and word[-1] == "s" and word[-2] in APOSTROPHES else word
    if is_identifier(name):
        return "identifier", name
    if not name[0].isupper() or name in ("A", "I"):
        return None
    return "name", name


def is_identifier(word: str) -> bool:
    if word[0] in "-$@#" or word.endswith("()") or "_" in word or "@" in word or any(map(str.isdigit, word)):
        return True
    parts = [part for part in PARTS.split(word) if part]
    if len(parts) > 1:
        is_path = not {*APOSTROPHES, "-"} & {*word} and (
            len(parts) > 2 or all(len(part) > 1 for part in parts)
        )
        return is_path or any(part[0].isupper() or not part.isalpha() for part in parts)
    return any(map(str.isupper, word[1:])) and not word.isupper()


def is_german_noun(word: str) -> bool:
    """Return whether a capitalised word of a German text is a noun that is no name."""
    lower = word.lower()
    return lower in WORDS["german_words"] or (len(word) > 5 and lower.endswith(tuple(WORDS["german_nouns"])))
