r"""Evaluate the conditionals of LaTeX: find the `\else` and `\fi` of each `\if`, and decide its condition."""

import re
from collections.abc import Callable, Mapping
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
# Conditionals of which the first branch is taken. The conditions of the last five are unknown.
TRUE = {
    "iftrue", "ifpdf", "ifpdftex", "ifPDFTeX", "ifvmode", "ifhmode", "ifinner", "ifvoid", "ifeof",
}  # fmt: skip
THEN, ELSE = 0, -1  # the first branch of a conditional, and the branch after `\else`
COMPARISON = re.compile(r"\s*+(-?\d++|\\[A-Za-z@]++)\s*+([<>=])\s*+(-?\d++|\\[A-Za-z@]++)\s?")
NUMBER = re.compile(r"\s*+(-?\d++|\\[A-Za-z@]++)\s?")
TOKEN = re.compile(r"\\(?:[A-Za-z@]+\s*|.)|\s+|.", re.DOTALL)
CSNAME = re.compile(r"\s*+([^\\{}]{0,200})\\endcsname")
# Commands that LaTeX itself defines, which conditionals compare with undefined ones.
BUILT_IN = {"pdfoutput", "pdftexversion", "documentclass", "section", "chapter", "newcommand"}
Macros = Mapping[str, Macro]
Test = Callable[[str, str, int, Macros], tuple[int, int]]


@dataclass
class Branches:
    r"""The positions of a conditional. begins: of the branches after the first. end: of the text after `\fi`."""

    begins: list[int] = field(default_factory=list)
    has_else: bool = False
    end: int = 0


def branches_in(text: str) -> dict[int, Branches]:
    r"""Return the branches of the conditionals in a text, by the positions of their `\if`, `\else` and `\or`.

    Conditionals without `\fi` are omitted.
    """
    declared = set(DECLARED.findall(text))
    pairs, opened = dict[int, Branches](), list[tuple[Branches, list[int]]]()
    for match in MARK.finditer(text):
        name = match[1]
        if not name:
            continue
        if name.startswith("if"):
            if is_conditional(name, text[match.end() : match.end() + 1], declared):
                opened.append((Branches(), [match.start()]))
        elif opened:
            branches, positions = opened[-1]
            if name == "fi":
                branches.end = match.end()
                pairs.update(dict.fromkeys(positions, branches))
                opened.pop()
            else:
                branches.begins.append(match.end())
                branches.has_else |= name == "else"
                positions.append(match.start())
    return pairs


def is_conditional(name: str, following: str, declared: set[str]) -> bool:
    r"""Return whether `\name` ends at `\fi`; other commands such as `\ifthenelse` have branches as arguments."""
    return name in PRIMITIVE or name in declared or (following != "{" and name not in NO_CONDITIONALS)


def condition(
    name: str, text: str, position: int, macros: Macros, flags: Mapping[str, bool]
) -> tuple[int, int]:
    """Return the branch of a conditional that is taken, and where the condition ends.

    The branch is THEN, ELSE, or a number of `ifcase`. If the condition is unknown, it is THEN.
    """
    if name in flags:
        return THEN if flags[name] else ELSE, position
    if test := TEST_EVALUATORS.get(name):
        return test(name, text, position, macros)
    return THEN if name in TRUE else ELSE, position


def compare_tokens(name: str, text: str, position: int, macros: Macros) -> tuple[int, int]:
    r"""Compare the two tokens after `\if`, `\ifcat` or `\ifx`."""
    position += text[position : position + 1] in {" ", "\n", "\t"}
    first = TOKEN.match(text, position)
    second = TOKEN.match(text, first.end()) if first else None
    if first is None or second is None:
        return THEN, position
    meanings = [meaning(token[0].strip() or " ", macros) for token in (first, second)]
    if name != "ifx" and any(map(is_long, meanings)):
        return THEN, second.end()
    return THEN if meanings[0] == meanings[1] else ELSE, second.end()


def is_long(token: str) -> bool:
    r"""Return whether a meaning is a command with a name, of which `\if` compares the unknown expansion."""
    return token.startswith("\\") and len(token) > 2


def meaning(token: str, macros: Macros) -> str:
    """Return the body of a macro, or another token itself."""
    name = token[1:]
    if not token.startswith("\\") or name in BUILT_IN:
        return token
    if name in {"empty", "@empty"}:
        return ""
    return macros[name].body if name in macros else "\\undefined"


def compare_numbers(name: str, text: str, position: int, macros: Macros) -> tuple[int, int]:
    r"""Compare the two numbers after `\ifnum` or `\ifdim`."""
    match = COMPARISON.match(text, position)
    if match is None:
        return THEN, position
    left, right = number_in(match[1], macros), number_in(match[3], macros)
    if left is None or right is None:
        return THEN, match.end()
    is_true = {"<": left < right, ">": left > right, "=": left == right}[match[2]]
    return THEN if is_true else ELSE, match.end()


def branch_of_number(name: str, text: str, position: int, macros: Macros) -> tuple[int, int]:
    r"""Return the branch that the number after `\ifodd` or `\ifcase` selects."""
    match = NUMBER.match(text, position)
    if match is None:
        return THEN, position
    number = number_in(match[1], macros)
    if number is None:
        return THEN, match.end()
    return number if name == "ifcase" else number % 2 - 1, match.end()


def is_defined(name: str, text: str, position: int, macros: Macros) -> tuple[int, int]:
    r"""Look up the command after `\ifdefined`, or the name before `\endcsname`."""
    match = (CSNAME if name == "ifcsname" else TOKEN).match(text, position)
    if match is None:
        return ELSE, position
    macro = match[1].strip() if name == "ifcsname" else match[0].strip()[1:]
    return THEN if macro in macros else ELSE, match.end()


TEST_EVALUATORS: dict[str, Test] = {
    **dict.fromkeys(("if", "ifcat", "ifx"), compare_tokens),
    **dict.fromkeys(("ifnum", "ifdim"), compare_numbers),
    **dict.fromkeys(("ifodd", "ifcase"), branch_of_number),
    **dict.fromkeys(("ifdefined", "ifcsname"), is_defined),
}


def number_in(text: str, macros: Macros) -> int | None:
    """Return a number of at most nine digits, which may be the body of a macro; or None."""
    if text.startswith("\\"):
        macro = macros.get(text[1:])
        text = macro.body.strip() if macro else ""
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def is_true(kind: str, test: str, macros: Macros, flags: Mapping[str, bool]) -> bool:
    """Evaluate a test in braces, of a command such as `ifthenelse`. An unknown test is true."""
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
    return compare_numbers("ifnum", test, 0, macros)[0] == THEN
