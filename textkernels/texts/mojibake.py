"""Find pairs of neighbouring characters that may be mojibake, read from ftfy's expression for it.

The expression has some forty alternatives, most of them sequences of classes of characters. For each alternative
only the rarest pair of neighbours is kept: ftfy finds nothing in a text without any of these pairs.
"""

import importlib
import re
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.rules.characters import CODE_POINTS

parser = importlib.import_module("re._parser")


class Characters(NamedTuple):
    """A set of characters, or the complement of a set."""

    codes: frozenset[int]
    are_left_out: bool = False

    def has(self, code: int) -> bool:
        return (code in self.codes) != self.are_left_out

    def size(self) -> int:
        return CODE_POINTS - len(self.codes) if self.are_left_out else len(self.codes)


class Neighbours(NamedTuple):
    """Characters and pairs of characters that may be mojibake.

    alone: the code points that are mojibake everywhere. firsts: the first code points of pairs. kinds: (0x110000,)
    uint8, the kind of each code point. follows: (kinds, kinds) bool, whether the second kind may be mojibake after
    the first.
    """

    alone: frozenset[int]
    firsts: list[int]
    kinds: NDArray[np.uint8]
    follows: NDArray[np.bool_]


@cache
def read_neighbours(expression: re.Pattern[str]) -> Neighbours:
    """Return the pairs without which an expression finds nothing. Raises ValueError if there are none."""
    alone, pairs = frozenset[int](), list[tuple[Characters, Characters]]()
    for choice in choices_of(parser.parse(expression.pattern, expression.flags)):
        if len(choice) == 1 and choice[0]:
            alone |= choice[0].codes
        else:
            pairs.append(rarest_pair(choice))
    named = sorted(set().union(*(one.codes for pair in pairs for one in pair)))
    other = next(code for code in range(CODE_POINTS) if code not in named)
    # Characters that all pairs treat alike are of one kind. Kind 0 has the characters that no pair names.
    kinds, signs = np.zeros(CODE_POINTS, np.uint8), dict[tuple[tuple[bool, bool], ...], int]()
    for code in [other, *named]:
        sign = tuple((first.has(code), second.has(code)) for first, second in pairs)
        kinds[code] = signs.setdefault(sign, len(signs))
    follows = [[any(a and b for (a, _), (_, b) in zip(x, y, strict=True)) for y in signs] for x in signs]
    firsts = sorted(set().union(*(first.codes for first, _ in pairs)))
    return Neighbours(alone, firsts, kinds, np.array(follows))


def rarest_pair(choice: list[Characters | None]) -> tuple[Characters, Characters]:
    pairs = [(one, other) for one, other in pairwise(choice) if one and other and not one.are_left_out]
    if not pairs:
        raise ValueError("ftfy's expression for mojibake has an unknown form; use the pinned version of ftfy")
    return min(pairs, key=lambda pair: pair[0].size() * pair[1].size())


def choices_of(tree: Any) -> list[list[Characters | None]]:
    """Return the alternatives of an expression: for each the sets of consecutive characters, or None for others."""
    choices: list[list[Characters | None]] = [[]]
    for kind, value in tree:
        if str(kind) == "BRANCH":
            more = [choice for one in value[1] for choice in choices_of(one)]
        elif str(kind) == "SUBPATTERN":
            more = choices_of(value[3])
        else:
            more = [[characters_of(str(kind), value)]]
        choices = [choice + one for choice in choices for one in more]
    return choices


def characters_of(kind: str, value: Any) -> Characters | None:
    """Return the characters of a literal or a class without Python's own classes, else None."""
    if kind == "LITERAL":
        return Characters(frozenset([value]))
    if kind != "IN" or not {str(one) for one, _ in value} <= {"NEGATE", "LITERAL", "RANGE"}:
        return None
    codes = {content for one, content in value if str(one) == "LITERAL"}
    for first, last in (content for one, content in value if str(one) == "RANGE"):
        codes |= set(range(first, last + 1))
    return Characters(frozenset(codes), str(value[0][0]) == "NEGATE")
