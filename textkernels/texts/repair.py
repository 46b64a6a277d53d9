r"""Unicode repair: a text as `ftfy.fix_text` repairs it, and much sooner.

ftfy goes through a text segment by segment, which are its lines (long ones in parts), and with each it does
all that it can. Here a scan finds the segments of which a character, a pair of them or an entity of HTML may
be changed, and the rest are left alone. Of those found, most have characters that ftfy replaces one by one
(curly quotes, full width), which is done here as well. Only what may be mojibake, has entities or controls of
terminals goes through ftfy.

What a scan cannot know is read from ftfy: which neighbours may be mojibake (`mojibake`), what it replaces.
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
from zyda_flows.textkernels.texts.mojibake import neighbours

C1 = range(0x80, 0xA0)
ESCAPE = 0x1B
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# How ftfy replaces characters one by one, in its order.
ONE_BY_ONE = (
    "fix_latin_ligatures",
    "fix_character_width",
    "uncurl_quotes",
    "fix_line_breaks",
    "remove_control_chars",
)
JAMO = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))  # that join the one before
CHUNK = 4096  # code points that are tried together
CHANGED, JUDGED, ENTITY, MOJIBAKE = (
    int(bit) for bit in (kernel.CHANGED, kernel.JUDGED, kernel.ENTITY, kernel.MOJIBAKE)
)


def repaired(
    texts: pa.LargeStringArray, options: Mapping[str, Any]
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    """Return the texts as ftfy repairs them with these options of its, and which have changed, (n,) bool."""
    check_options(options)
    repair = repair_by(tuple(sorted(options.items())))
    is_changed = repair.worth_a_look(texts)
    if not is_changed.any():
        return texts, is_changed
    found = texts.filter(pa.array(is_changed))
    others = repair.of_texts(found)
    is_changed[np.flatnonzero(is_changed)] = [text is not None for text in others]
    if not is_changed.any():
        return texts, is_changed
    changed = pa.array([text for text in others if text is not None], pa.large_binary()).cast(
        pa.large_string()
    )
    return pc.replace_with_mask(texts, pa.array(is_changed), changed), is_changed


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError where ftfy has no such option, or the option no such value.

    `explain` is left out: nothing is explained here.
    """
    from ftfy import TextFixerConfig

    known = [name for name in TextFixerConfig._fields if name != "explain"]
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{name} is no option of ftfy; there are {', '.join(known)}.")
        if not is_value(name, value):
            raise ValueError(f"{name} cannot be {value!r}: {VALUES.get(name, 'true or false')} is wanted.")


VALUES = {
    "unescape_html": '"auto", true or false',
    "normalization": f"{', '.join(FORMS)} or null",
    "max_decode_length": "a number of 1 or more",
}


def is_value(name: str, value: Any) -> bool:
    if name == "max_decode_length":
        return type(value) is int and value > 0  # with less, ftfy does not come to an end
    if name == "normalization":
        return value is None or value in FORMS
    return type(value) is bool or (name == "unescape_html" and value == "auto")


@lru_cache(maxsize=4)
def repair_by(options: tuple[tuple[str, Any], ...]) -> "Repair":
    return Repair(dict(options))


class Repair:
    """What ftfy does with some options, and by what it is known that it does nothing."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        import ftfy

        self.ftfy = ftfy
        self.config = ftfy.TextFixerConfig(**options)

    @property
    def unescapes(self) -> int:
        of_options = {"auto": kernel.UNLESS_LESS, True: kernel.ALWAYS, False: kernel.NEVER}
        return of_options[self.config.unescape_html]

    def worth_a_look(self, texts: pa.LargeStringArray) -> NDArray[np.bool_]:
        """Say which texts have a segment that may change: (n,) bool."""
        of_texts, longest = text_buffers(texts), self.config.max_decode_length
        return kernel.worth_a_look(*of_texts, self.tables, longest, self.unescapes)

    @cached_property
    def tables(self) -> kernel.Tables:
        """What each code point can mean, in the kernel's bits, and which neighbours may be mojibake."""
        bits = np.zeros(CODE_POINTS, np.uint8)
        of_pairs = neighbours(self.ftfy.badness.BADNESS_RE)
        for character, bit in (("\n", kernel.NEWLINE), ("<", kernel.LESS), ("&", kernel.AND)):
            bits[ord(character)] = bit
        if self.config.fix_encoding:
            bits[of_pairs.firsts] |= kernel.SUSPECT
        bits[[ESCAPE, *C1, *of_pairs.alone]] |= kernel.JUDGED
        bits[list(map(ord, self.replaced))] |= kernel.CHANGED
        if self.config.normalization is not None:
            bits[not_alone(self.config.normalization)] |= kernel.JOINS
        return bits, of_pairs.kinds, of_pairs.follows

    @cached_property
    def replaced(self) -> dict[str, str]:
        """What ftfy puts in the place of each character that it does not leave, without normalization."""
        names = [name for name in ONE_BY_ONE if getattr(self.config, name)]
        others = dict[str, str]()
        for character in sorted(set().union(*map(replaced_by, names))):
            others[character] = character
            for name in names:
                others[character] = self.ftfy.FIXERS[name](others[character])
        return others

    @cached_property
    def to_replace(self) -> re.Pattern[str]:
        of_one = "".join(map(re.escape, self.replaced))
        return re.compile(rf"\r\n|[{of_one}]" if "\r" in self.replaced else f"[{of_one}]")

    def of_texts(self, texts: pa.LargeStringArray) -> list[bytes | None]:
        """Return each text anew, or None where it stays as it is."""
        data, ends = text_buffers(texts)
        view, pieces = memoryview(data.data), dict[int, list[Any]]()
        at = ends.tolist()
        segments = kernel.segments(data, ends, self.tables, self.config.max_decode_length, self.unescapes)
        for text, start, stop, found, unescapes in segments.tolist():
            segment = str(view[start:stop], "utf-8")
            fixed = self.of_segment(segment, found, bool(unescapes))
            if fixed != segment:
                pieces.setdefault(text, []).extend((view[at[text] : start], fixed.encode()))
                at[text] = stop
        return [
            b"".join([*pieces[text], view[at[text] : ends[text + 1]]]) if text in pieces else None
            for text in range(len(texts))
        ]

    def of_segment(self, segment: str, found: int, unescapes: bool) -> str:
        """Return a segment as ftfy fixes it, of which the kernel has found these bits."""
        if not self.is_for_ftfy(segment, found, unescapes):
            fixed = self.one_by_one(segment)
            if fixed == segment:
                return segment
            found = kernel.all_in(fixed.encode(), self.tables)
            if not (found & CHANGED or self.is_for_ftfy(fixed, found, unescapes)):
                return fixed
        config = self.config if unescapes else self.config._replace(unescape_html=False)
        return str(self.ftfy.fix_and_explain(segment, config).text)

    def is_for_ftfy(self, segment: str, found: int, unescapes: bool) -> bool:
        """Say whether ftfy may do more with a segment than to replace characters one by one and normalize."""
        if found & JUDGED or (found & ENTITY and unescapes):
            return True
        return bool(found & MOJIBAKE and self.ftfy.badness.is_bad(segment))

    def one_by_one(self, segment: str) -> str:
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
            found |= {one for one in characters if FIXERS[name](one) != one}
    return frozenset(found)


@lru_cache(maxsize=len(FORMS))
def not_alone(form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> NDArray[np.int64]:
    """Return the code points, (k,), by which a text may not be in a normal form: with none of them, it is."""
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
