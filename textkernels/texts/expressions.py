"""Analyse a regular expression by the tree of Python's own parser.

`literal_string` returns the string of an expression that is only a string. `character_sequence` returns the
characters of an expression of consecutive single characters. For any other, `scan_expression` returns an expression
for a scan of UTF-8 bytes: the scan matches every text in which Python finds the expression, and some more. Where
the scan has less Unicode data, the expression is made weaker.

The parser is not a public part of Python. For unknown parts the result is None, and Python itself must search.
"""

import importlib
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

parser = importlib.import_module("re._parser")

PLAIN = re.UNICODE | re.VERBOSE | re.DOTALL | re.MULTILINE  # a character matches only itself
KNOWN = PLAIN | re.IGNORECASE
SEQUENCES = {"LITERAL", "NOT_LITERAL", "ANY"}
OTHERS = r"[\xc2-\xf4][\x80-\xbf]{1,3}"  # any character beyond ASCII, in bytes
MOST_REPEATS = 8  # a repeat up to this is counted; a higher one becomes unlimited
CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
Tree = Any


class UnknownError(Exception):
    """An expression has an unknown part."""


def literal_string(expression: str) -> str | None:
    """Return the string of an expression that matches only this string, else None."""
    tree = parser.parse(expression)
    if len(tree) == 0 or tree.state.flags & ~PLAIN or any(str(kind) != "LITERAL" for kind, _ in tree):
        return None
    string = "".join(chr(code) for _, code in tree)
    return string if is_utf8(string) else None


def is_utf8(string: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in string)


def character_sequence(expression: str) -> list[tuple[bool, str]] | None:
    """Return the accepted characters of an expression of consecutive single characters, else None.

    Each is (True, character) for this character, or (False, character) for any other ("" excludes none).
    """
    tree = parser.parse(expression)
    if tree.state.flags & ~PLAIN or any(str(kind) not in SEQUENCES for kind, _ in tree):
        return None
    but = "" if tree.state.flags & re.DOTALL else "\n"
    return [(str(kind) == "LITERAL", but if value is None else chr(value)) for kind, value in tree]


def scan_expression(expression: str) -> bytes | None:
    """Return an expression in bytes that matches wherever the given expression does, for a scan without Unicode."""
    tree = parser.parse(expression)
    try:
        return scan_tree(tree, tree.state.flags).encode()
    except UnknownError:
        return None


def scan_tree(tree: Tree, flags: int) -> str:
    if flags & ~KNOWN:
        raise UnknownError
    return "".join(scan_node(str(kind), value, flags) for kind, value in tree)


def scan_node(kind: str, value: Any, flags: int) -> str:
    if kind not in NODE_SCANNERS:
        raise UnknownError
    return NODE_SCANNERS[kind](value, flags)


def scan_literal(code: int, flags: int) -> str:
    same = cases(chr(code)) if flags & re.IGNORECASE else chr(code)
    if not is_utf8(same):
        raise UnknownError
    return either("".join(rf"\x{byte:02x}" for byte in one.encode()) for one in same)


@lru_cache(maxsize=1)
def cased() -> str:
    """Return every character that has another case."""
    every = (chr(code) for code in range(0x110000))
    return "".join(one for one in every if one.lower() != one or one.upper() != one)


@lru_cache(maxsize=4096)
def cases(character: str) -> str:
    """Return all characters that a character matches if case is ignored."""
    found = re.findall(re.escape(character), cased(), re.IGNORECASE)
    return "".join(sorted({character, *found}))


def scan_not_literal(code: int, flags: int) -> str:
    left_out = cases(chr(code)) if flags & re.IGNORECASE else chr(code)
    return any_of(set(range(128)) - set(map(ord, left_out)), with_others=True)


def scan_any(_: None, flags: int) -> str:
    return any_of(set(range(128)) - (set() if flags & re.DOTALL else {10}), with_others=True)


def scan_class(items: list[tuple[Any, Any]], flags: int) -> str:
    is_negated = str(items[0][0]) == "NEGATE"
    if flags & re.IGNORECASE and is_negated:
        return any_of(set(range(128)), with_others=True)
    codes, with_others = set[int](), is_negated
    for kind, value in items[is_negated:]:
        item_codes, more = CLASS_ITEM_READERS.get(str(kind), unknown)(value)
        codes |= item_codes
        with_others |= more
    if flags & re.IGNORECASE:  # ASCII characters that match characters beyond ASCII, too
        codes |= {ord(chr(code).swapcase()) for code in codes} | set(map(ord, "iIkKsS"))
        with_others = True
    return any_of(set(range(128)) - codes if is_negated else codes, with_others)


def range_characters(bounds: tuple[int, int]) -> tuple[set[int], bool]:
    """Return its ASCII characters, and whether it may have others."""
    return set(range(bounds[0], min(bounds[1], 127) + 1)), bounds[1] > 127


def category_characters(category: Any) -> tuple[set[int], bool]:
    name = str(category).removeprefix("CATEGORY_")
    if name.removeprefix("NOT_") not in CATEGORIES:
        raise UnknownError
    matcher = re.compile(CATEGORIES[name.removeprefix("NOT_")])
    matching = {code for code in range(128) if matcher.match(chr(code))}
    return set(range(128)) - matching if name.startswith("NOT_") else matching, True


def unknown(_: Any) -> tuple[set[int], bool]:
    raise UnknownError


def any_of(codes: set[int], with_others: bool) -> str:
    ascii_ones = "[" + "".join(rf"\x{code:02x}" for code in sorted(codes)) + "]" if codes else None
    return either(filter(None, [ascii_ones, OTHERS if with_others else None]))


def either(choices: Iterable[str]) -> str:
    found = list(choices)
    if not found:
        raise UnknownError  # no character can match: the expression matches no text
    return found[0] if len(found) == 1 else "(?:" + "|".join(found) + ")"


def scan_repeat(value: tuple[int, Any, Tree], flags: int) -> str:
    least, most, tree = value
    upper = "" if most is parser.MAXREPEAT or most > MOST_REPEATS else str(int(most))
    return f"(?:{scan_tree(tree, flags)}){{{min(least, MOST_REPEATS)},{upper}}}"


def scan_group(value: tuple[Any, int, int, Tree], flags: int) -> str:
    _, added, taken, tree = value
    return f"(?:{scan_tree(tree, (flags | added) & ~taken)})"


def scan_branch(value: tuple[None, list[Tree]], flags: int) -> str:
    return "(?:" + "|".join(scan_tree(tree, flags) for tree in value[1]) + ")"


def scan_position(place: Any, flags: int) -> str:
    """Match the end of the text; skip any other position, because words differ in the scan."""
    return "" if flags & re.MULTILINE else {"AT_END": "$", "AT_END_STRING": r"\z"}.get(str(place), "")


NODE_SCANNERS: dict[str, Callable[[Any, int], str]] = {
    "LITERAL": scan_literal,
    "NOT_LITERAL": scan_not_literal,
    "ANY": scan_any,
    "IN": scan_class,
    "BRANCH": scan_branch,
    "SUBPATTERN": scan_group,
    "ATOMIC_GROUP": scan_tree,
    "MAX_REPEAT": scan_repeat,
    "MIN_REPEAT": scan_repeat,
    "POSSESSIVE_REPEAT": scan_repeat,
    "AT": scan_position,
    "ASSERT": lambda value, flags: "",
    "ASSERT_NOT": lambda value, flags: "",
    "GROUPREF": lambda value, flags: f"(?:[\\x00-\\x7f]|{OTHERS})*",
    "GROUPREF_EXISTS": lambda value, flags: f"(?:[\\x00-\\x7f]|{OTHERS})*",
}
CLASS_ITEM_READERS: dict[str, Callable[[Any], tuple[set[int], bool]]] = {
    "LITERAL": lambda code: range_characters((code, code)),
    "RANGE": range_characters,
    "CATEGORY": category_characters,
}
