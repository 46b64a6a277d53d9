# ruff: noqa: RUF001
"""Letters of LaTeX: with accents, by babel's shorthands, and Greek that is written in Latin letters."""

import re
import unicodedata

from zyda_flows.tasks.extraction.latex_reader import group_at
from zyda_flows.tasks.extraction.latex_words import (
    ACCENT_WORDS,
    ACCENTS,
    LETTERS,
    SHORTHAND_LANGUAGES,
    SHORTHANDS,
    UMLAUT_LANGUAGES,
    UMLAUTS,
)

MAX_ACCENTED = 100  # characters of a letter with its accents, as written
MAX_ACCENTS = 4
SPACE = re.compile(r"[ \t]*+\n?[ \t]*+")
COMMAND = re.compile(r"\\(?:([A-Za-z]++)[ \t]*+|([^A-Za-z]))", re.DOTALL)
DOTLESS = {"ı": "i", "ȷ": "j"}
ALONE = {"\u0302": "^", "\u0303": "~"}
LANGUAGES = re.compile(
    r"\\(?:usepackage|documentclass|documentstyle)\s*+(?:\[([^\[\]]*+)\]\s*+)?\{\s*+(\w*+)[^{}]*+\}"
)
GREEK = str.maketrans(
    "abgdezhjiklmnxoprstufqywABGDEZHJIKLMNXOPRSTUFQYWc", "αβγδεζηθικλμνξοπρστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩς"
)
FINAL = re.compile("σ(?![α-ωάέήίόύώ])")


def accented(latex: str, place: int, accent: str) -> tuple[int, str]:
    """Return where an accent with its letter ends, and the letter with it."""
    start = SPACE.match(latex, place).end()  # type: ignore[union-attr]
    inside = group_at(latex[start : start + MAX_ACCENTED], 0)
    if inside is None:
        size, letter = base(latex[start : start + MAX_ACCENTED], MAX_ACCENTS)
        rest = ""
    elif not inside.strip():
        return start + len(inside) + 2, ALONE.get(accent, "")
    else:
        used, letter = base(inside.strip(), MAX_ACCENTS)
        size, rest = len(inside) + 2, inside.strip()[used:].strip("{}")
    if not letter:
        return (place, "") if inside is None else (start + size, rest)
    return start + size, with_accent(letter, accent) + rest


def with_accent(letter: str, accent: str) -> str:
    letter = DOTLESS.get(letter[0], letter[0]) + letter[1:]
    return unicodedata.normalize("NFC", letter + accent)


def base(text: str, accents: int) -> tuple[int, str]:
    """Return how long a letter is as it is written, and the letter: with accents of its own, or none."""
    if text[:1].isalpha():
        return 1, text[0]
    match = COMMAND.match(text)
    if match is None or not accents:
        return 0, ""
    name = match[1] or match[2]
    if name in LETTERS:
        return match.end(), LETTERS[name]
    accent = ACCENTS.get(name) or ACCENT_WORDS.get(name)
    if accent is None:
        return 0, ""
    inside = group_at(text, match.end())
    size, letter = base(text[match.end() :] if inside is None else inside, accents - 1)
    size = match.end() + (size if inside is None else len(inside) + 2)
    return (size, with_accent(letter, accent)) if letter else (0, "")


def shorthands_of(preamble: str) -> dict[str, str]:
    """Return the meanings of the shorthands that the languages of a document have."""
    languages = set[str]()
    for options, package in LANGUAGES.findall(preamble):
        languages.update(one.strip().rpartition("=")[2] for one in options.split(","))
        languages.add(package)
    if not languages & SHORTHAND_LANGUAGES:
        return {}
    return SHORTHANDS | (UMLAUTS if languages & UMLAUT_LANGUAGES else {})


def greek(text: str) -> str:
    """Return Greek that is written in Latin letters, as the encoding LGR has them."""
    return FINAL.sub("ς", text.translate(GREEK)) if text.isascii() else text
