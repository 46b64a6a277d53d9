"""Write the templates of Wikipedia that are a part of a sentence as text. All other templates have no text.

The arguments of these templates are words of a sentence: of languages and pronunciation, numbers and units, single
characters, lists in a line, and quotations. Other templates are navigation, boxes, references and notices.
"""

import re
from collections.abc import Callable, Sequence
from itertools import dropwhile

Arguments = Sequence[str]  # the arguments without a name, in their order
NAME = re.compile(r"[\w .-]{1,40}")
NUMBER = re.compile(r"[-+\u2212]?[0-9.][0-9.,+/\u2044e-]*")
POWERS = {"3": "thousand", "6": "million", "9": "billion", "12": "trillion", "15": "quadrillion"}
POWER_OF_UNIT = re.compile(r"e([0-9]{1,2})(?=\D)")
WHOLE_AND_PART = re.compile(r"(?<=[0-9])\+(?=[0-9])")
NOT_SOUNDS = frozenset({"pron", "us", "uk", "lang", "local", "audio", "also", "en", "ipa", "and", "icon"})
UNITS = {
    "km2": "km²", "m2": "m²", "cm2": "cm²", "km3": "km³", "m3": "m³", "cm3": "cm³", "sqmi": "sq mi",
    "sqft": "sq ft", "cuft": "cu ft", "C": "°C", "F": "°F", "K-change": "K", "C-change": "°C",
    "F-change": "°F", "nmi": "nmi", "km/h": "km/h", "kph": "km/h", "uspint": "US pt", "usgal": "US gal",
    "impgal": "imp gal", "kn": "kn",
}  # fmt: skip
BETWEEN = {
    "to": " to ", "and": " and ", "or": " or ", "by": " by ", "x": " &times; ", "-": "&ndash;", "\u2013": "&ndash;",
    "to(-)": " to ", "and(-)": " and ", "or(-)": " or ", "and/or": " and/or ",
    "+/-": " &plusmn; ", "&plusmn;": " &plusmn; ", "\u00b1": " &plusmn; ", "to about": " to about ",
    ",": ", ", ", and": ", and ", ", or": ", or ", "xx": " &times; ", "*": " &times; ", "\u00d7": " &times; ",
    "+": " + ", "&ndash;": "&ndash;", "&times;": " &times; ", "&": " and ",
}  # fmt: skip
CHARACTERS = {  # character references are resolved after all templates are read
    "!": "|", "=": "=", "pipe": "|", "'": "'", '"': '"', "'s": "'s", "(": "{{", ")": "}}", "nbsp": " ",
    "space": " ", "spaces": " ", "thinsp": " ", "hair space": "", "zwnj": "", "zwj": "", "shy": "",
    "wbr": "", "break": "\n", "br": "\n", "-": "\n", "ndash": "&ndash;", "en dash": "&ndash;",
    "\u2013": "&ndash;", "spaced ndash": " &ndash; ", "snd": " &ndash; ", "spnd": " &ndash; ",
    "snd2": " &ndash; ", "mdash": "&mdash;", "em dash": "&mdash;", "\u2014": "&mdash;",
    "spaced mdash": " &mdash; ", "dot": " &middot; ", "·": " &middot; ", "•": " &bull; ",
    "bull": " &bull; ", "bullet": " &bull; ", "pi": "&pi;", "degree": "&deg;", "deg": "&deg;",
    "minus": "&minus;", "times": "&times;", "prime": "&prime;", "okina": "&#699;", "hamza": "&#702;",
    "ayin": "&#703;", "sharp": "&sharp;", "flat": "&flat;", "euro": "&euro;", "yes": "Yes", "ya": "Yes",
    "no": "No", "na": "No", "ad": "AD", "bc": "BC", "ce": "CE", "bce": "BCE",
}  # fmt: skip


def first(arguments: Arguments) -> str:
    return arguments[0] if arguments else ""


def second(arguments: Arguments) -> str:
    return arguments[1] if len(arguments) > 1 else ""


def last(arguments: Arguments) -> str:
    return arguments[-1] if arguments else ""


def joined(arguments: Arguments) -> str:
    return "".join(map(str.strip, arguments))


def listed(arguments: Arguments) -> str:
    return ", ".join(filter(None, map(str.strip, arguments)))


def quoted(arguments: Arguments) -> str:
    """Return a quotation with `>` before each line, and its author."""
    lines = [line.strip() for line in first(arguments).strip().split("\n")]
    if second(arguments).strip():
        lines.append(f"— {second(arguments).strip()}")
    return "\n\n" + "\n".join(f"> {line}" for line in lines if line) + "\n\n"


def with_unit(arguments: Arguments) -> str:
    """Return numbers with their units, as in `5 ft 11 in` or `3, 4 and 5 km`, without the converted numbers.

    A number after a unit that is not followed by a unit is the precision of the conversion, and is skipped.
    """
    values, texts, place = list(map(str.strip, arguments)), list[str](), 0
    while place < len(values):
        texts.append(WHOLE_AND_PART.sub(" ", values[place]))
        between = values[place + 1] if place + 1 < len(values) else ""
        place += 2
        if between and between not in BETWEEN:
            texts.append(f" {unit_named(between)}")
            if has_another_unit(values, place):
                texts.append(" ")
                continue
            between = values[place] if place < len(values) else ""
            place += 1
        if between not in BETWEEN or place >= len(values):
            break
        texts.append(BETWEEN[between])
    return "".join(texts)


def has_another_unit(values: Sequence[str], place: int) -> bool:
    """Return whether the values at `place` are a number and its unit."""
    if place + 1 >= len(values) or not NUMBER.fullmatch(values[place]):
        return False
    return (
        bool(values[place + 1]) and values[place + 1] not in BETWEEN and not NUMBER.match(values[place + 1])
    )


def unit_named(unit: str) -> str:
    """Return the symbol of a unit, for example `million km²` of `e6km2`."""
    power = POWER_OF_UNIT.match(unit)
    if power and power[1] in POWERS:
        return f"{POWERS[power[1]]} {unit_named(unit[power.end() :])}"
    return UNITS.get(unit, unit)


def measured(arguments: Arguments) -> str:
    return " ± ".join(filter(None, map(str.strip, arguments[:2])))


def with_commas(arguments: Arguments) -> str:
    number = first(arguments).strip()
    return f"{int(number):,}" if number.isascii() and number.isdecimal() and len(number) < 30 else number


def fraction(arguments: Arguments) -> str:
    """Return a fraction such as `1/2` or `3 1/2`; a single number n is the fraction 1/n."""
    numbers = list(map(str.strip, arguments))
    if len(numbers) == 1:
        return f"1/{numbers[0]}"
    return " ".join([*numbers[:-2], "/".join(numbers[-2:])])


def pronounced(arguments: Arguments) -> str:
    """Return sounds between slashes, without the words about the language before them."""
    sounds = list(dropwhile(NOT_SOUNDS.__contains__, map(str.strip, arguments)))
    return f"/{''.join(sounds).replace('_', ' ')}/" if sounds else ""


def in_brackets(arguments: Arguments) -> str:
    sounds = first(arguments).strip()
    return sounds if not sounds or sounds[0] in "/[" else f"[{sounds}]"


def respelled(arguments: Arguments) -> str:
    return "-".join(filter(None, map(str.strip, arguments))).replace("-_-", " ")


def japanese(arguments: Arguments) -> str:
    """Return English words, and in parentheses the Japanese words and their transcription."""
    words = list(map(str.strip, arguments[:3]))
    inside = ", ".join(filter(None, words[1:]))
    return f"{words[0] if words else ''} ({inside})".strip() if inside else first(words)


def about(arguments: Arguments) -> str:
    return f"c. {first(arguments).strip()}"


def dated(arguments: Arguments) -> str:
    return "-".join(filter(None, map(str.strip, arguments[:3])))


def spaced(arguments: Arguments) -> str:
    return " ".join(filter(None, map(str.strip, arguments[:3])))


def as_of(arguments: Arguments) -> str:
    return f"As of {dated(arguments)}"


NAMES_BY_WRITER: dict[Callable[[Arguments], str], str] = {
    first: """abbr|abbrlink|angbr|angle bracket|asiantitle|audio-ipa|big|bold|center|char|code|codes|
        color box|columns-list|defn|em|flag|flagcountry|highlight|ill|illm|interlanguage link|ipa|ipa link|
        ipalink|italic|kbd|key|key press|keypress|large|larger|left|linktext|math|mono|mvar|no italic|nobold|nobr|
        noitalic|normal|not a typo|nowrap|pad|plainlist|flatlist|polytonic|right|rtl-lang|s|
        samp|sc|script|sic|sm|small|smallcaps|smallcaps2|smaller|strong|sub|sup|term|text|tooltip|tt|u|
        underline|unichar|unicode|vanchor|var|visible anchor""",
    second: """audio|color|colored text|font color|fontcolor|hover title|lang|lang-text|langue|script/hebrew|
        wikt-lang|zh-text""",
    last: "langx|link language|resize|sort|translit|transl|transliteration|xlit",
    joined: "ce|chem|chem2|gaps|nuclide|simplenuclide",
    listed: """br separated entries|bulleted list|comma separated entries|cslist|hlist|ubl|ublist|ulist|
        unbulleted list""",
    quoted: "blockquote|bquote|centered pull quote|cquote|poem quote|poemquote|quotation|quote|quote box|rquote",
    with_unit: "convert|cvt",
    measured: "nta|nts|number table sorting|val",
    with_commas: "fmtn|formatnum|num",
    fraction: "frac|fraction|fract|sfrac",
    pronounced: "ipac|ipac-en",
    respelled: "pronunciation respelling|respell",
    japanese: "nihongo|nihongo2|nihongo3",
    about: "c.|ca.|circa",
    dated: """birth date|birth date and age|date table sorting|death date|death date and age|dts|end date|film date|
        start date|start-date""",
    spaced: "date|nombre|sortname|unité",
    as_of: "as of|asof",
}  # fmt: skip
TEMPLATE_WRITERS = {
    name.strip(): function for function, names in NAMES_BY_WRITER.items() for name in names.split("|")
}


CURRENCIES = {
    "us$": "US$", "usd": "$", "a$": "A$", "c$": "C$", "gbp": "£", "£": "£", "eur": "€", "€": "€", "inr": "₹",
    "₹": "₹", "jpy": "¥", "¥": "¥", "yen": "¥",
}  # fmt: skip
RUPEES = {"k": "thousand", "l": "lakh", "c": "crore", "m": "million", "b": "billion", "t": "trillion"}


def amount_of(name: str, arguments: Arguments) -> str:
    """Return an amount of money such as `£5` or `₹8 crore`, or "" for a template of something else."""
    amount, more = first(arguments).strip(), second(arguments).strip()
    if name == "currency":
        name, more = more.lower() or "usd", ""
    elif name == "inrconvert":
        name = "inr"
    more = RUPEES.get(more, "") if name == "inr" else ""
    return f"{CURRENCIES[name]}{amount} {more}".strip() if name in CURRENCIES and amount else ""


def text_of_template(parts: Sequence[str]) -> str:
    """Return the text of a template. parts: its name and arguments, in which inner templates are already texts."""
    name, colon, value = parts[0].partition(":")
    name = name.strip().replace("_", " ").lower()
    if name in CHARACTERS:
        return CHARACTERS[name]
    function = TEMPLATE_WRITERS.get(name)
    if not function and (name.startswith(("lang-", "ipa-"))):
        function = in_brackets if name.startswith("ipa-") else first
    if not function:
        return amount_of(name, _arguments(parts[1:]))
    return function([value, *parts[1:]] if colon else _arguments(parts[1:]))


def _arguments(parts: Sequence[str]) -> list[str]:
    """Return the arguments without a name in their order; a number as a name is the position of an argument."""
    arguments = list[str]()
    numbered = dict[int, str]()
    for part in parts:
        name, equals, value = part.partition("=")
        name = name.strip()
        if not (equals and NAME.fullmatch(name)):
            arguments.append(part)
        elif name.isascii() and name.isdecimal() and 0 < int(name) < 10:
            numbered[int(name)] = value
        elif name.lower() in {"text", "quote", "content"}:
            numbered.setdefault(1, value)
    for number in sorted(numbered):
        arguments[number - 1 : number] = [numbered[number]]
    return arguments
