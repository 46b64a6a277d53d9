"""Words of texts for the search for evaluation items: NFKC, case-folded, without regard to markup.

This module makes the tables of characters, entities and commands for the kernel `textkernels.item_words`.
Characters are compared as NFKD, whose marks the kernel accepts in any order. They follow the Unicode version of
this Python.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from html.entities import name2codepoint

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.item_words import (
    ALONE,
    BASE,
    END,
    JOIN,
    MARK,
    SEVERAL,
    Letters,
    hash_words,
    place_words,
)

CODE_POINTS = 0x110000
SPARSE = 0x34000  # from here on code points are unassigned, private or invisible
SURROGATES = range(0xD800, 0xE000)
IDEOGRAPHS = (range(0x3400, 0x4DC0), range(0x4E00, 0xA000), range(0x20000, SPARSE))
# Lao and Thai, Myanmar, Khmer, Tai, kana and bopomofo, radicals: scripts without spaces between words.
WITHOUT_SPACES = (
    range(0x0E01, 0x0F00), range(0x1000, 0x10A0), range(0x1780, 0x1800), range(0x1950, 0x1AB0),
    range(0x2E80, 0x2FE0), range(0x3005, 0x3130), range(0x31A0, 0x3200), range(0xA9E0, 0xAA00),
    range(0xAA60, 0xAAE0), range(0x1AFF0, 0x1B170), *IDEOGRAPHS,
)  # fmt: skip
# Besides format characters: the grapheme joiner, Hangul fillers, variation selectors.
INVISIBLE = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)]
)
COMMANDS = """
    textbf textit textsl textsc texttt textrm textsf textmd textup textnormal text mbox emph underline uline
    bf it sl sc tt rm sf em mathrm mathbf mathit mathsf mathtt textquotesingle textquotedblleft textquotedblright
    textquoteleft textquoteright textasciitilde textasciicircum textbackslash textunderscore textless textgreater
    textbar textendash textemdash textellipsis textdollar textdegree ldots dots item noindent indent par newline
    linebreak newpage hfill quad qquad left right centering
"""


@lru_cache(maxsize=1)
def letters() -> Letters:
    """Return the table of characters; see `Letters`."""
    codes = np.arange(2, CODE_POINTS + 2, dtype=np.uint32)
    for ideographs in IDEOGRAPHS:
        codes[ideographs.start : ideographs.stop] |= ALONE
    several, first = list[int](), [0]
    for code in common_codes():
        code_entries = entries(chr(code))
        if len(code_entries) == 1:
            (codes[code],) = code_entries
        else:
            codes[code] = int(SEVERAL) + len(first) - 1
            several += code_entries
            first.append(len(several))
    codes[SURROGATES.start : SURROGATES.stop] = END
    codes[0xE0000:0xE1000] = JOIN
    names = {hash_of(name): code for name, code in {**name2codepoint, "apos": ord("'")}.items()}
    return Letters(
        codes, np.array(several, np.uint32), np.array(first), np.array(sorted(names), np.uint64),
        np.array([names[name] for name in sorted(names)]),
        np.array(sorted(map(hash_of, COMMANDS.split())), np.uint64),
    )  # fmt: skip


def common_codes() -> Iterator[int]:
    """Yield the code points outside ranges whose entries are all of one kind."""
    begin = 0
    for codes in (*sorted((*IDEOGRAPHS, SURROGATES), key=lambda codes: codes.start), range(SPARSE, SPARSE)):
        yield from range(begin, codes.start)
        begin = codes.stop


def entries(character: str) -> tuple[int, ...]:
    """Return the entries of `Letters` for a character."""
    folded = unicodedata.normalize("NFKC", character).casefold()
    return tuple(map(entry, unicodedata.normalize("NFKD", folded))) or (int(JOIN),)


@cache
def entry(character: str) -> int:
    code, category = ord(character), unicodedata.category(character)
    if code in INVISIBLE or category == "Cf":
        return int(JOIN)
    if category[0] in "PSZ" or category == "Cc":
        return int(END)
    is_alone = any(code in codes for codes in WITHOUT_SPACES)
    if unicodedata.combining(character) or (is_alone and category[0] == "M"):
        return code + 2 | int(MARK)
    return code + 2 | (int(ALONE) if is_alone else 0)


def hash_of(name: str) -> int:
    """Return the kernel's hash of an ASCII name."""
    h = 0
    for byte in name.encode():
        h = (h * int(BASE) + byte) % 2**64
    return h


def word_hashes(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the hashes of the words of each text, (w,) uint64, and the ends of the texts, (n + 1,) int64."""
    return hash_words(*text_buffers(texts), letters())


def word_places(text: str) -> list[tuple[int, int]]:
    """Return the begin and end of each word of a text, in characters."""
    content = np.frombuffer(text.encode(), np.uint8)
    # The number of characters that begin before each byte.
    characters = np.concatenate([[0], np.cumsum(content & 0xC0 != 0x80)])
    starts, stops = place_words(content, letters())
    return [*zip(characters[starts].tolist(), characters[stops].tolist(), strict=True)]


def texts_of(texts: Iterable[str]) -> pa.LargeStringArray:
    return pa.array([*texts], pa.large_string())
