"""Map Unicode's spaces, dashes and full-width forms to the plain characters that they replace.

Numbers are written with no-break spaces, thin spaces and dashes of many kinds, and in East Asia with full-width
digits. PLAIN, and the classes of regular expressions made here, come from the same tables of Unicode.
"""

import re
import unicodedata

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

PLAIN_SIZE = 1 << 16
BLANK, HYPHEN = " ", "-"
NO_WIDTH = "\u200b\u2060\ufeff"  # format characters in Unicode's tables; between digits they are spaces
MORE_DASHES = "\u00ad\u2043\u2212"  # soft hyphen, hyphen bullet, minus
WIDE = {*range(0xFE50, 0xFE70), *range(0xFF01, 0xFF5F)}  # small and full-width forms of ASCII
WRITTEN_WIDE = "0123456789+().@"


def plain_character(character: str) -> str:
    """Return the plain character that a character beyond ASCII replaces, or an empty string."""
    category = unicodedata.category(character)
    if category == "Zs" or character in NO_WIDTH:
        return BLANK
    if category == "Pd" or character in MORE_DASHES:
        return HYPHEN
    plain = unicodedata.normalize("NFKC", character) if ord(character) in WIDE else ""
    return plain if plain and plain in WRITTEN_WIDE else ""


def plain_table() -> NDArray[np.uint8]:
    """Return the plain byte of each code point, or 0: (PLAIN_SIZE,) uint8."""
    table = np.zeros(PLAIN_SIZE, np.uint8)
    for code in range(128, PLAIN_SIZE):
        table[code] = ord(plain_character(chr(code)) or "\0")
    return table


PLAIN = plain_table()


def written_as(characters: str) -> str:
    """Return the inside of a class of a regular expression: plain characters and all that replace them."""
    codes = np.flatnonzero(np.isin(PLAIN, np.frombuffer(characters.encode(), np.uint8))).tolist()
    return re.escape(characters) + "".join(map(chr, codes))


@njit(cache=True, nogil=True, inline="always")
def plain_at(data, i, stop):
    """Return the plain byte of the character at `i`, or 0, and the number of bytes of the character."""
    byte = np.int64(data[i])
    if byte < 0x80:
        return byte, 1
    if byte < 0xE0 and i + 1 < stop:
        return np.int64(PLAIN[(byte & 0x1F) << 6 | data[i + 1] & 0x3F]), 2
    if 0xE0 <= byte < 0xF0 and i + 2 < stop:
        return np.int64(PLAIN[(byte & 0x0F) << 12 | (data[i + 1] & 0x3F) << 6 | data[i + 2] & 0x3F]), 3
    return np.int64(0), 1


@njit(cache=True, nogil=True, inline="always")
def plain_before(data, start, i):
    """Return the result of `plain_at` for the character that ends before `i`."""
    k = i - 1
    while k > start and data[k] & 0xC0 == 0x80:
        k -= 1
    byte, _ = plain_at(data, k, i)
    return byte, i - k
