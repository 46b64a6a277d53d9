r"""Repair Unicode: the results of `ftfy.fix_text`, much faster.

ftfy applies all its repairs to each segment of a text; segments are lines (long ones in parts). Here a
scan finds the segments in which a character, a pair of characters or an entity of HTML may be changed,
and skips all others. Most of the found segments have only characters that ftfy replaces
individually (curly quotes, full width), which is done here. Only segments that may have mojibake,
entities or terminal controls are passed to ftfy.

The tables of the scan are read from ftfy: pairs that may be mojibake (`mojibake`), and the characters it replaces.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.rules import segments as kernel
from zyda_flows.textkernels.rules.characters import CODE_POINTS
from zyda_flows.textkernels.texts.mojibake import read_neighbours

C1 = range(0x80, 0xA0)
ESCAPE = 0x1B
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# ftfy's fixers that replace single characters, in its order.
ONE_BY_ONE = (
    "fix_latin_ligatures",
    "fix_character_width",
    "uncurl_quotes",
    "fix_line_breaks",
    "remove_control_chars",
)
JAMO = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))  # they join the character before
CHUNK = 4096  # code points that are tested together
CHANGED, JUDGED, ENTITY, MOJIBAKE = (
    int(bit) for bit in (kernel.CHANGED, kernel.JUDGED, kernel.ENTITY, kernel.MOJIBAKE)
)


def repair_texts(
    texts: pa.LargeStringArray, options: Mapping[str, Any]
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    """Return the texts as ftfy repairs them with these options, and which have changed, (n,) bool."""
    check_options(options)
    repair = repair_by(tuple(sorted(options.items())))
    is_changed = repair.may_change(texts)
    if not is_changed.any():
        return texts, is_changed
    found = texts.filter(pa.array(is_changed))
    replacements = repair.repair_column(found)
    is_changed[np.flatnonzero(is_changed)] = [text is not None for text in replacements]
    if not is_changed.any():
        return texts, is_changed
    changed = pa.array([text for text in replacements if text is not None], pa.large_binary()).cast(
        pa.large_string()
    )
    return pc.replace_with_mask(texts, pa.array(is_changed), changed), is_changed


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an option or a value that ftfy does not have.

    `explain` is not accepted, because nothing is explained here.
    """
    from ftfy import TextFixerConfig

    known = [name for name in TextFixerConfig._fields if name != "explain"]
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"unknown option {name} of ftfy; use {', '.join(known)}")
        if not is_value(name, value):
            raise ValueError(f"{name}: expected {VALUES.get(name, 'true or false')}, got {value!r}")


VALUES = {
    "unescape_html": '"auto", true or false',
    "normalization": f"{', '.join(FORMS)} or null",
    "max_decode_length": "a number of 1 or more",
}


def is_value(name: str, value: Any) -> bool:
    if name == "max_decode_length":
        return type(value) is int and value > 0  # with less, ftfy never ends
    if name == "normalization":
        return value is None or value in FORMS
    return type(value) is bool or (name == "unescape_html" and value == "auto")


@lru_cache(maxsize=4)
def repair_by(options: tuple[tuple[str, Any], ...]) -> "Repair":
    return Repair(dict(options))


class Repair:
    """ftfy with some options, and the tables by which a scan skips text that ftfy would not change."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        import ftfy

        self.ftfy = ftfy
        self.config = ftfy.TextFixerConfig(**options)

    @property
    def unescapes(self) -> int:
        modes = {"auto": kernel.UNLESS_LESS, True: kernel.ALWAYS, False: kernel.NEVER}
        return modes[self.config.unescape_html]

    def may_change(self, texts: pa.LargeStringArray) -> NDArray[np.bool_]:
        """Return the texts with a segment that may change: (n,) bool."""
        repair_column, longest = text_buffers(texts), self.config.max_decode_length
        return kernel.may_change(*repair_column, self.tables, longest, self.unescapes)

    @cached_property
    def tables(self) -> kernel.Tables:
        """Return the bits of each code point for the kernel, and the pairs that may be mojibake."""
        bits = np.zeros(CODE_POINTS, np.uint8)
        pairs = read_neighbours(self.ftfy.badness.BADNESS_RE)
        for character, bit in (("\n", kernel.NEWLINE), ("<", kernel.LESS), ("&", kernel.AND)):
            bits[ord(character)] = bit
        if self.config.fix_encoding:
            bits[pairs.firsts] |= kernel.SUSPECT
        bits[[ESCAPE, *C1, *pairs.alone]] |= kernel.JUDGED
        bits[list(map(ord, self.replaced))] |= kernel.CHANGED
        if self.config.normalization is not None:
            bits[not_alone(self.config.normalization)] |= kernel.JOINS
        return bits, pairs.kinds, pairs.follows

    @cached_property
    def replaced(self) -> dict[str, str]:
        """Return ftfy's replacement of each character that it replaces, without normalization."""
        names = [name for name in ONE_BY_ONE if getattr(self.config, name)]
        replacements = dict[str, str]()
        for character in sorted(set().union(*map(replaced_by, names))):
            replacements[character] = character
            for name in names:
                replacements[character] = self.ftfy.FIXERS[name](replacements[character])
        return replacements

    @cached_property
    def to_replace(self) -> re.Pattern[str]:
        members = "".join(map(re.escape, self.replaced))
        return re.compile(rf"\r\n|[{members}]" if "\r" in self.replaced else f"[{members}]")

    def repair_column(self, texts: pa.LargeStringArray) -> list[bytes | None]:
        """Return the new bytes of each text, or None for a text that does not change."""
        data, ends = text_buffers(texts)
        view, pieces = memoryview(data.data), dict[int, list[Any]]()
        at = ends.tolist()
        segments = kernel.repairable_segments(
            data, ends, self.tables, self.config.max_decode_length, self.unescapes
        )
        for text, start, stop, found, unescapes in segments.tolist():
            segment = str(view[start:stop], "utf-8")
            fixed = self.repair_segment(segment, found, bool(unescapes))
            if fixed != segment:
                pieces.setdefault(text, []).extend((view[at[text] : start], fixed.encode()))
                at[text] = stop
        return [
            b"".join([*pieces[text], view[at[text] : ends[text + 1]]]) if text in pieces else None
            for text in range(len(texts))
        ]

    def repair_segment(self, segment: str, found: int, unescapes: bool) -> str:
        """Return a segment as ftfy fixes it. found: the bits that the kernel found in it."""
        if not self.is_for_ftfy(segment, found, unescapes):
            fixed = self.replace_single(segment)
            if fixed == segment:
                return segment
            found = kernel.text_bits(fixed.encode(), self.tables)
            if not (found & CHANGED or self.is_for_ftfy(fixed, found, unescapes)):
                return fixed
        config = self.config if unescapes else self.config._replace(unescape_html=False)
        return str(self.ftfy.fix_and_explain(segment, config).text)

    def is_for_ftfy(self, segment: str, found: int, unescapes: bool) -> bool:
        """Return whether ftfy may do more with a segment than replace single characters and normalize."""
        if found & JUDGED or (found & ENTITY and unescapes):
            return True
        return bool(found & MOJIBAKE and self.ftfy.badness.is_bad(segment))

    def replace_single(self, segment: str) -> str:
        fixed = self.to_replace.sub(self.replacement, segment) if self.replaced else segment
        form = self.config.normalization
        return fixed if form is None else unicodedata.normalize(form, fixed)

    def replacement(self, match: re.Match[str]) -> str:
        return "\n" if match[0] == "\r\n" else self.replaced[match[0]]


@cache
def replaced_by(name: str) -> frozenset[str]:
    """Return the characters that a fixer of ftfy replaces, by the fixer's name."""
    from ftfy import FIXERS

    found = set[str]()
    for first in range(0, CODE_POINTS, CHUNK):
        characters = "".join(map(chr, range(first, first + CHUNK)))
        if FIXERS[name](characters) != characters:
            found |= {character for character in characters if FIXERS[name](character) != character}
    return frozenset(found)


@lru_cache(maxsize=len(FORMS))
def not_alone(form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> NDArray[np.int64]:
    """Return the code points, (k,), without which a text is in a normal form."""
    found = list[int](JAMO)
    for code in range(CODE_POINTS):
        character = chr(code)
        found += [code] * (
            unicodedata.combining(character) > 0 or not unicodedata.is_normalized(form, character)
        )
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.append(int(parts[1], 16))
    return np.unique(found)
