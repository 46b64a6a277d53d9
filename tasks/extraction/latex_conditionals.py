r"""The conditionals of LaTeX: which `\else` and `\fi` belong to an `\if`, and whether its condition holds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from zyda_flows.tasks.extraction.latex_macros import Macro
from zyda_flows.tasks.extraction.latex_reader import Reader

MARK = re.compile(r"\\(?:newif\s*+\\if[A-Za-z@]*+|(if[A-Za-z@]*+|else|or|fi)(?![A-Za-z@]))")
DECLARED = re.compile(r"\\newif\s*+\\(if[A-Za-z@]++)")
PRIMITIVE = {
    "if", "ifx", "ifcat", "ifnum", "ifdim", "ifodd", "ifcase", "iftrue", "iffalse", "ifmmode", "ifvmode",
    "ifhmode",
    "ifinner", "ifvoid", "ifhbox", "ifvbox", "ifeof", "ifdefined", "ifcsname", "iffontchar",
}  # fmt: skip
NO_CONDITIONALS = {"iff", "ifthenelse"}
TRUE = {"iftrue", "ifpdf", "ifpdftex", "ifPDFTeX"}
COMPARED = re.compile(r"\s*+(-?\d++|\\[A-Za-z@]++)\s*+([<>=])\s*+(-?\d++|\\[A-Za-z@]++)\s?")
NUMBER = re.compile(r"\s*+(-?\d++|\\[A-Za-z@]++)\s?")
TOKEN = re.compile(r"\\(?:[A-Za-z@]+\s*|.)|\s+|.", re.DOTALL)
CSNAME = re.compile(r"\s*+([^\\{}]{0,200})\\endcsname")
KNOWN = {"pdfoutput", "pdftexversion", "documentclass", "section", "chapter", "newcommand"}  # by every LaTeX
Macros = Mapping[str, Macro]


@dataclass
class Branches:
    r"""Where the branches of a conditional begin, but for the first, and where it ends behind `\fi`."""

    begins: list[int] = field(default_factory=list)
    has_else: bool = False
    end: int = 0


def paired(text: str) -> dict[int, Branches]:
    r"""Return the branches of the conditionals of a text, by the places of their `\if`, `\else` and `\or`.

    Conditionals without `\fi` are omitted.
    """
    declared = set(DECLARED.findall(text))
    pairs, opened = dict[int, Branches](), list[tuple[Branches, list[int]]]()
    for found in MARK.finditer(text):
        name = found[1]
        if not name:
            continue
        if name.startswith("if"):
            if is_conditional(name, text[found.end() : found.end() + 1], declared):
                opened.append((Branches(), [found.start()]))
        elif opened:
            branches, places = opened[-1]
            if name == "fi":
                branches.end = found.end()
                pairs.update(dict.fromkeys(places, branches))
                opened.pop()
            else:
                branches.begins.append(found.end())
                branches.has_else |= name == "else"
                places.append(found.start())
    return pairs


def is_conditional(name: str, following: str, declared: set[str]) -> bool:
    r"""Return whether `\name` ends at `\fi`: others take their branches as arguments."""
    return name in PRIMITIVE or name in declared or (following != "{" and name not in NO_CONDITIONALS)


def condition(name: str, text: str, place: int, macros: Macros, flags: Mapping[str, bool]) -> tuple[int, int]:
    """Return which branch of a conditional holds, and where the condition ends.

    The first branch is 0, which is taken where the condition is unknown, too; that of `else` is -1.
    """
    if name in flags:
        return 0 if flags[name] else -1, place
    if name in {"if", "ifcat", "ifx"}:
        return compared(name, text, place, macros)
    if name in {"ifnum", "ifdim"}:
        return compared_numbers(text, place, macros)
    if name in {"ifodd", "ifcase"}:
        found = NUMBER.match(text, place)
        value = number_of(found[1], macros) if found else None
        if found is None or value is None:
            return 0, found.end() if found else place
        return value if name == "ifcase" else value % 2 - 1, found.end()
    if name == "ifdefined":
        found = TOKEN.match(text, place)
        return 0 if found and found[0].strip()[1:] in macros else -1, found.end() if found else place
    if name == "ifcsname":
        found = CSNAME.match(text, place)
        return 0 if found and found[1].strip() in macros else -1, found.end() if found else place
    is_unknown = name in {"ifvmode", "ifhmode", "ifinner", "ifvoid", "ifeof"}
    return 0 if name in TRUE or is_unknown else -1, place


def compared(name: str, text: str, place: int, macros: Macros) -> tuple[int, int]:
    r"""Compare the two tokens behind `\if` and `\ifx`."""
    place += len(text[place : place + 1]) if text[place : place + 1] in {" ", "\n", "\t"} else 0
    first = TOKEN.match(text, place)
    second = TOKEN.match(text, first.end()) if first else None
    if first is None or second is None:
        return 0, place
    values = [meaning(one[0].strip() or " ", macros) for one in (first, second)]
    if name != "ifx" and any(value.startswith("\\") and len(value) > 2 for value in values):
        return 0, second.end()
    return 0 if values[0] == values[1] else -1, second.end()


def meaning(token: str, macros: Macros) -> str:
    """Return the meaning of a token: its expansion, or itself."""
    name = token[1:]
    if not token.startswith("\\") or name in KNOWN:
        return token
    if name in {"empty", "@empty"}:
        return ""
    return macros[name].body if name in macros else "\\undefined"


def compared_numbers(text: str, place: int, macros: Macros) -> tuple[int, int]:
    r"""Compare the two numbers behind `\ifnum`."""
    found = COMPARED.match(text, place)
    if found is None:
        return 0, place
    values = number_of(found[1], macros), number_of(found[3], macros)
    if values[0] is None or values[1] is None:
        return 0, found.end()
    holds = {"<": values[0] < values[1], ">": values[0] > values[1], "=": values[0] == values[1]}[found[2]]
    return 0 if holds else -1, found.end()


def number_of(text: str, macros: Macros) -> int | None:
    """Return a number of at most nine digits, or that of a macro that stands for one."""
    if text.startswith("\\"):
        macro = macros.get(text[1:])
        text = macro.body.strip() if macro else ""
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def holds(kind: str, test: str, macros: Macros, flags: Mapping[str, bool]) -> bool:
    """Return whether a test in braces holds. An unknown test holds."""
    if kind.startswith("IfNoValue"):
        return test == "\\NoValue"
    if kind.startswith("IfValue"):
        return test != "\\NoValue"
    if kind.startswith("IfBoolean"):
        return test == "\\BooleanTrue"
    if kind in {"iftoggle", "ifbool"}:
        return flags.get(f"if{test}", False)
    inner = Reader(test, 10 * len(test) + 1000)
    name = inner.control()
    if name == "boolean":
        return flags.get(f"if{inner.argument().strip()}", False)
    if name == "equal":
        return inner.argument().strip() == inner.argument().strip()
    return condition("ifnum", test, 0, macros, flags)[0] == 0
