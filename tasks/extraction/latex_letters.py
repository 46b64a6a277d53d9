# ruff: noqa: RUF001
"""Letters of LaTeX: letters with accents, shorthands of babel, and Greek in Latin transcription."""

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

MAX_ACCENTED = 100  # characters of the LaTeX of a letter with its accents
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


def accented(latex: str, position: int, accent: str) -> tuple[int, str]:
    """Return where an accent with its letter ends, and the letter with it."""
    start = SPACE.match(latex, position).end()  # type: ignore[union-attr]
    inside = group_at(latex[start : start + MAX_ACCENTED], 0)
    if inside is None:
        size, letter = read_letter(latex[start : start + MAX_ACCENTED], MAX_ACCENTS)
        rest = ""
    elif not inside.strip():
        return start + len(inside) + 2, ALONE.get(accent, "")
    else:
        letter_size, letter = read_letter(inside.strip(), MAX_ACCENTS)
        size, rest = len(inside) + 2, inside.strip()[letter_size:].strip("{}")
    if not letter:
        return (position, "") if inside is None else (start + size, rest)
    return start + size, with_accent(letter, accent) + rest


def with_accent(letter: str, accent: str) -> str:
    letter = DOTLESS.get(letter[0], letter[0]) + letter[1:]
    return unicodedata.normalize("NFC", letter + accent)


def read_letter(text: str, max_accents: int) -> tuple[int, str]:
    """Return the length of the LaTeX of a letter, and the letter with its accents; (0, "") without a letter."""
    if text[:1].isalpha():
        return 1, text[0]
    match = COMMAND.match(text)
    if match is None or not max_accents:
        return 0, ""
    name = match[1] or match[2]
    if name in LETTERS:
        return match.end(), LETTERS[name]
    accent = ACCENTS.get(name) or ACCENT_WORDS.get(name)
    return read_accented(text, match.end(), accent, max_accents - 1) if accent else (0, "")


def read_accented(text: str, position: int, accent: str, max_accents: int) -> tuple[int, str]:
    """Return the end and the letter with accents that follows an accent at `position`; (0, "") without a letter."""
    inside = group_at(text, position)
    if inside is None:
        size, letter = read_letter(text[position:], max_accents)
    else:
        size, letter = len(inside) + 2, read_letter(inside, max_accents)[1]
    return (position + size, with_accent(letter, accent)) if letter else (0, "")


def shorthands_of(preamble: str) -> dict[str, str]:
    """Return the characters of the shorthands of the document's languages, by shorthand."""
    languages = set[str]()
    for options, package in LANGUAGES.findall(preamble):
        languages.update(option.strip().rpartition("=")[2] for option in options.split(","))
        languages.add(package)
    if not languages & SHORTHAND_LANGUAGES:
        return {}
    return SHORTHANDS | (UMLAUTS if languages & UMLAUT_LANGUAGES else {})


def greek(text: str) -> str:
    """Return the Greek text of its transcription in the encoding LGR."""
    return FINAL.sub("ς", text.translate(GREEK)) if text.isascii() else text
