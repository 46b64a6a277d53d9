"""Forms of facts: numbers, words, titles and operators, counted in pieces of a text."""

import re
from collections import Counter
from dataclasses import dataclass, field

from zyda_flows.tasks.dedup.fact_words import (
    APOSTROPHES,
    CHINESE_NEGATIONS,
    CHINESE_NUMBER,
    CHINESE_OPPOSITES,
    MONTHS,
    SAME_UNITS,
    WORDS,
)

# A character of a word, but not in Thai, kana, Chinese or Korean, which join words or endings to numbers.
LETTER = "[^\\W\u0e00-\u0e4f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
RAISED = re.compile("(?<=\\d)(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u00bc-\u00be\u2150-\u215e])")
CHINESE = re.compile("[\u3400-\u9fff\u3007]")
MINUS, DASH, SLASH = "\u2212", "\u2013", "\u2044"
UNITS = "|".join(sorted(map(re.escape, WORDS["units"]), key=len, reverse=True))
DIGITS = re.compile(rf"\d+(?:[.,:/{SLASH}{APOSTROPHES}·-]\d+)*")
NUMBER_WORD = re.compile(rf"[.]?{DIGITS.pattern}")
BEFORE = re.compile(
    rf"(?:(?<!{LETTER})(?<![)\]])(?P<sign>[-+{MINUS}{DASH}]))?(?P<currency>[$€£¥₹₩₽₺₫₱₦]\s?)?(?P<point>(?<!\d)\.)?$"
)
UNIT = re.compile(rf"[ \u00a0-]?(?P<unit>{UNITS})(?!{LETTER})")
IS_LETTER = re.compile(LETTER)
GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
POINTED = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?")
OPERATOR = re.compile(r"(?<![!=<>&|])(?:[!=<>]=|<>|&&|\|\||(?<=\s)[<>=](?=\s))(?![=<>&|])")
SYMBOL = re.compile("[\u2190-\u21ff\u2260-\u2265\u2600-\u27bf\U0001f000-\U0001faff]")  # \u2264, \u2713, emoji
ROMAN = re.compile(r"\s([ivxlc]{1,7})(?=[\s.,;:)]|$)")
PARTS_OF_BOOKS = tuple(WORDS["parts_of_books"])
TITLE = re.compile(r"《([^《》\n]{1,100})》")
YEAR = re.compile(r"\b([Jj]ahre?|year|année|año) $")
PREPOSITIONS = {"am": "en", "an": "fr"}  # units in one language, and words of others: "1749 am Main"
BOUNDS = {"over": "above", "über": "above", "under": "less", "unter": "less"}
BOUND = re.compile(r"\b([Oo]ver|[Üü]ber|[Uu]nder|[Uu]nter)(?= [$€£]?\d)")  # "over 500" is "more than 500"
DATES = (
    re.compile(
        r"(?P<d>\d{1,2})(?:\.|st|nd|rd|th|er)?[ \u00a0](?:de |of )?(?P<m>[^\W\d_]{3,10})\.?,?"
        r"[ \u00a0](?:de |del )?(?P<y>\d{4})\b"
    ),
    re.compile(r"(?P<m>[A-Z][a-z]{2,8})\.?[ \u00a0](?P<d>\d{1,2})(?:st|nd|rd|th)?,?[ \u00a0](?P<y>\d{4})\b"),
    re.compile(
        r"(?P<y>\d{4})[ \u00a0]?年[ \u00a0]?(?P<m>\d{1,2})[ \u00a0]?月[ \u00a0]?(?P<d>\d{1,2})[ \u00a0]?日"
    ),
    re.compile(r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})(?![\d.]\d)"),
)


def word_pattern(letter: str) -> str:
    prefix, joint = r"(?:--?(?=[A-Za-z])|[$@#](?=[^\W\d]))?", rf"(?:[./:@{APOSTROPHES}_-]|::|->|\\)"
    return rf"{prefix}{letter}+(?:{joint}{letter}+)*(?:\(\))?"


def opening_pattern(letter: str) -> str:
    ends = r"[.!?:;\n\"()\[\]*#|>\u2026\u3002\uff01\uff1f\u201c\u201d\u00ab\u00bb]"
    return rf"(?:^|{ends})\s{{0,8}}[-*\u2013\u2014\u2022]{{0,3}}\s{{0,8}}({word_pattern(letter)})"


# ASCII is searched with a smaller class of letters, which takes half of the time.
WORD, ASCII_WORD = re.compile(word_pattern(LETTER)), re.compile(word_pattern("[0-9A-Za-z_]"))
OPENING, ASCII_OPENING = re.compile(opening_pattern(LETTER)), re.compile(opening_pattern("[0-9A-Za-z_]"))


@dataclass
class Found:
    """Counts of the forms in the pieces of a text that were added.

    numbers: with sign, currency and unit, as `as_number` returns them. words: as in the text; without numbers.
    openings: the words that begin sentences. titles, operators: as in the text.
    """

    numbers: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    openings: Counter[str] = field(default_factory=Counter)
    titles: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """The number of distinct forms."""
        return len(self.numbers) + len(self.words) + len(self.titles)

    def whole_openings(self) -> Counter[str]:
        """Return the words that begin sentences, but without parts of words (`a:Name`) and words of capitals."""
        counts = ((word, min(count, self.words[word])) for word, count in self.openings.items())
        return Counter(
            {word: count for word, count in counts if count > 0 and (len(word) == 1 or not word.isupper())}
        )

    def add(self, text: str) -> None:
        """Count the forms in a piece of a text."""
        for dates in DATES:
            text = dates.sub(in_iso_form, text)
        is_ascii = text.isascii()
        self.words.update((ASCII_WORD if is_ascii else WORD).findall(text))
        for word in (ASCII_OPENING if is_ascii else OPENING).findall(text):
            if word[0].isupper():
                self.openings[word] += 1
        self.operators.update(OPERATOR.findall(text))
        self.words.update(BOUNDS[word.lower()] for word in BOUND.findall(text))
        for roman in ROMAN.finditer(text):
            if text[max(0, roman.start() - 12) : roman.start()].lower().endswith(PARTS_OF_BOOKS):
                self.numbers["", roman[1], ""] += 1
        self.add_numbers(text)
        if not is_ascii:
            self.operators.update(SYMBOL.findall(text))
        if not is_ascii and CHINESE.search(text):
            self.titles.update(TITLE.findall(text))
            self.words.update(CHINESE_NEGATIONS.findall(text))
            self.words.update(CHINESE_OPPOSITES.findall(text))
            self.numbers.update(("", digits, "") for digits in CHINESE_NUMBER.findall(text))

    def add_numbers(self, text: str) -> None:
        """Count the numbers of a piece, and take them and their units off the words."""
        for match in DIGITS.finditer(text):
            start, end = match.span()
            before = BEFORE.search(text, max(0, start - 3), start)
            point = before["point"] if before and before["point"] else ""
            first = start - len(point)
            if first and IS_LETTER.match(text[first - 1]):
                continue
            unit = UNIT.match(text, end)
            if unit is None and end < len(text) and IS_LETTER.match(text[end]):
                continue
            sign = "-" if before and before["sign"] in ("-", MINUS, DASH) else ""
            currency = (before["currency"] or "").strip() if before else ""
            self.numbers[sign + currency, point + match[0], unit["unit"] if unit else ""] += 1
            if end - start == 4 and (year := YEAR.search(text, max(0, start - 8), start)):  # "im Jahr 1937"
                self.words[year[1]] -= 1
            taken = text[start : unit.end() if unit else end]
            for word in WORD.findall(taken):
                self.words[word] -= 1


def in_iso_form(match: re.Match[str]) -> str:
    """Return a date as YYYY-MM-DD, another match as it is."""
    month = int(match["m"]) if match["m"].isdecimal() else MONTHS.get(match["m"].lower(), 0)
    before = match.string[match.start() - 1 : match.start()]
    if not 1 <= month <= 12 or before.isalnum() or before == ".":
        return match[0]
    return f"{match['y']}-{month:02}-{int(match['d']):02}"


def number_in_one_form(number: tuple[str, str, str], language: str) -> str:
    """Return a number with its sign, currency and unit in a common form.

    >>> number_in_one_form(("$", "1,000", ""), "en"), number_in_one_form(("", "1.280", "Meter"), "de")
    ('$1000', '1280 m')
    """
    before, digits, unit = number
    if PREPOSITIONS.get(unit, language) != language:
        unit = ""
    if language == "en" and GROUPED.fullmatch(digits):
        digits = digits.replace(",", "")
    elif language != "en" and POINTED.fullmatch(digits):
        digits = digits.replace(".", "")
    return f"{before}{digits}{f' {SAME_UNITS.get(unit, unit)}' if unit else ''}"
