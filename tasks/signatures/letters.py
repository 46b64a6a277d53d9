"""The letters of a text, which are equal for all forms of the same words, and a 128-bit key of them.

Letters are those of Unicode's form NFKD with case folding (`str.casefold`), without white space, punctuation,
modifier symbols, control and format characters. So texts have equal letters if they differ in white space, line
ends and line breaks, also within Chinese; in case; in straight or curly quotes; in a byte order mark, zero-width
characters or soft hyphens; in NFC, NFD, NFKC or NFKD. A text of only punctuation has no letters, and no key.
"""

import string
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from typing import Any
from unicodedata import unidata_version

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.kinds import ExactRound
from zyda_flows.tasks.signatures.shingles import CODE_POINTS, SPARSE, SURROGATES
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.letters import LetterTable, letters_of

VERSION = 1  # raise it if the letters of a text change
LEFT_OUT = {"Cc", "Cf", "Sk", "Zs", "Zl", "Zp", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}
# Tatweel, which only stretches a word, characters that select the form of another, and tags, which are invisible.
NO_LETTERS = {0x34F, 0x640, *range(0x180B, 0x180E), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000)}


class LettersRound(ExactRound):
    """The parameters of the keys of letters, as a round of equal texts; no recipe has such a round."""

    @property
    def key_parameters(self) -> dict[str, Any]:
        return {"letters": VERSION, "unicode": unidata_version}


LETTERS = LettersRound(exact="text")


def is_letter(character: str) -> bool:
    is_left_out = unicodedata.category(character) in LEFT_OUT or ord(character) in NO_LETTERS
    return not (is_left_out or character.isspace() or character in string.punctuation)


def letters_of_character(code: int) -> str:
    """Return the letters of a character."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
    return "".join(filter(is_letter, folded))


@lru_cache(maxsize=1)
def letter_table() -> LetterTable:
    """Return the table of the letters of each code point, for `textkernels.letters`."""
    starts, first, last = np.zeros(CODE_POINTS + 1, np.int32), *np.zeros((2, CODE_POINTS), np.uint8)
    longer = np.zeros(256, np.uint8)
    parts, size = list[bytes](), 0
    for code in (
        *range(SURROGATES.start),
        *range(SURROGATES.stop, SPARSE),
    ):  # no character beyond has letters
        if letters := letters_of_character(code):
            first[code], last[code] = (unicodedata.combining(letters[place]) for place in (0, -1))
            parts.append(letters.encode())
            size += len(parts[-1])
            own = chr(code).encode()
            longer[own[0]] = max(int(longer[own[0]]), len(parts[-1]) - len(own))
        starts[code + 1] = size
    np.maximum.accumulate(starts, out=starts)
    return LetterTable(np.frombuffer(b"".join([*parts, b"\0"]), np.uint8), starts, first, last, longer)


def letters_in(texts: pa.LargeStringArray) -> list[memoryview]:
    """Return the letters of texts, in UTF-8."""
    letters, ends, is_disordered = letters_of(*text_buffers(texts), letter_table())
    whole = letters.data
    letters_of_texts = [whole[start:end] for start, end in pairwise(ends.tolist())]
    for place in np.flatnonzero(is_disordered).tolist():
        ordered = unicodedata.normalize("NFKD", texts[place].as_py())
        letters_of_texts[place] = letters_of(*text_buffers(as_array([ordered])), letter_table())[0].data
    return letters_of_texts


def as_array(texts: Sequence[str]) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


def letter_hash(text: str) -> str | None:
    """Return the SHA-256 of a text's letters, in hexadecimal digits; None if it has no letters."""
    (letters,) = letters_in(as_array([text]))
    return sha256(letters).hexdigest() if len(letters) else None


def key_of_hash(digest: str) -> NDArray[np.uint64]:
    """Return the key of letters with this SHA-256: its first 128 bits, (2,) uint64."""
    return np.frombuffer(bytes.fromhex(digest)[:16], "<u8").astype(np.uint64)


def letter_keys(texts: pa.LargeStringArray, _: LettersRound) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the key of each text, (n, 1, 2) uint64, and which texts have letters, (n,) bool."""
    letters = letters_in(texts)
    digests = b"".join([sha256(text_letters).digest()[:16] for text_letters in letters])
    keys = np.frombuffer(digests, np.dtype("<u8")).astype(np.uint64)
    return keys.reshape(-1, 1, 2), np.array([len(text_letters) > 0 for text_letters in letters], np.bool_)
