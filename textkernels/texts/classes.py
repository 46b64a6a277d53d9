"""Classes of characters, as in Python's regular expressions: of a word, white space, digits."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.rules.characters import CODE_POINTS, CUT, DIGIT, SPACE, WORD

BETWEEN_WORDS = "-/\\."  # Zyda-1 cuts a text into words at these and at white space


@lru_cache(maxsize=1)
def character_classes() -> NDArray[np.uint8]:
    r"""Return the classes of each code point: WORD for `\w`, SPACE for `\s`, DIGIT for `\d`; (0x110000,) uint8."""
    classes = np.zeros(CODE_POINTS, np.uint8)
    for code in range(CODE_POINTS):
        character = chr(code)
        if character.isalnum() or character == "_":
            classes[code] |= WORD
        if character.isspace():
            classes[code] |= SPACE | CUT
        if character.isdecimal():
            classes[code] |= DIGIT
    classes[[ord(character) for character in BETWEEN_WORDS]] |= CUT
    return classes
