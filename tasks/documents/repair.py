r"""Unicode repair: a text as `ftfy.fix_text` repairs it, and much sooner.

ftfy goes through a text segment by segment, which are its lines (long ones in parts), and with each it does
all that it can. Here a scan finds the segments of which a character, a pair of them or an entity of HTML may
be changed, and the rest are left alone. Of those found, most have characters that ftfy replaces one by one
(curly quotes, full width), which is done here as well. Only what may be mojibake, has entities or controls of
terminals goes through ftfy.

What this relies on of ftfy's heuristic is that mojibake has two of the characters that the heuristic names
beside each other, or one of LONELY before what is no letter of ASCII, or one of C1. A test reads it there.
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

from tasks.kernels import segments as kernel
from tasks.kernels.characters import CODE_POINTS
from tasks.kernels.texts import text_buffers

C1 = range(0x80, 0xA0)
LONELY = "ŒœÃÂ"
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
TO_FTFY = int(kernel.JUDGED) | int(kernel.ENTITY)


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
        return kernel.worth_a_look(*of_texts, self.kinds, longest, self.unescapes)

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """What each code point can mean, in the kernel's bits: (0x110000,)."""
        kinds = np.zeros(CODE_POINTS, np.uint8)
        for character, bit in (("\n", kernel.NEWLINE), ("<", kernel.LESS), ("&", kernel.AND)):
            kinds[ord(character)] = bit
        if self.config.fix_encoding:
            kinds[list(suspects(self.ftfy.badness.BADNESS_RE.pattern))] |= kernel.SUSPECT
            kinds[list(map(ord, LONELY))] |= kernel.LONELY
        kinds[[ESCAPE, *C1]] |= kernel.JUDGED
        kinds[list(map(ord, self.replaced))] |= kernel.CHANGED
        if self.config.normalization is not None:
            kinds[not_alone(self.config.normalization)] |= kernel.JOINS
        return kinds

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
        segments = kernel.segments(data, ends, self.kinds, self.config.max_decode_length, self.unescapes)
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
        if not (found & TO_FTFY or (found & int(kernel.MOJIBAKE) and self.is_bad(segment))):
            fixed = self.one_by_one(segment)
            if fixed == segment or self.is_fixed(fixed, unescapes):
                return fixed
        config = self.config if unescapes else self.config._replace(unescape_html=False)
        return self.ftfy.fix_and_explain(segment, config).text

    def one_by_one(self, segment: str) -> str:
        fixed = self.to_replace.sub(self.replacement, segment) if self.replaced else segment
        form = self.config.normalization
        return fixed if form is None else unicodedata.normalize(form, fixed)

    def replacement(self, match: re.Match[str]) -> str:
        return "\n" if match[0] == "\r\n" else self.replaced[match[0]]

    def is_fixed(self, segment: str, unescapes: bool) -> bool:
        """Say whether ftfy would leave a segment as it is, once it is replaced and normalized."""
        if unescapes and self.ftfy.chardata.HTML_ENTITY_RE.search(segment):
            return False
        if self.replaced and self.to_replace.search(segment):
            return False
        return not (self.config.fix_encoding and self.may_be_bad.search(segment) and self.is_bad(segment))

    def is_bad(self, segment: str) -> bool:
        """Say whether ftfy takes a segment for mojibake, which it finds out at 4 MB/s."""
        return bool(self.ftfy.badness.is_bad(segment))

    @cached_property
    def may_be_bad(self) -> re.Pattern[str]:
        """What the kernel takes for a sign of mojibake."""
        names = "".join(map(chr, sorted(suspects(self.ftfy.badness.BADNESS_RE.pattern))))
        return re.compile(f"[{names}]{{2}}|[{LONELY}][^A-Za-z]")


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


def suspects(expression: str) -> set[int]:
    """Return the code points that are not of ASCII and that an expression names, in its ranges too."""
    bounds = re.findall("([^\0-\x7f])-([^\0-\x7f])", expression)
    of_ranges = {code for first, last in bounds for code in range(ord(first), ord(last) + 1)}
    return of_ranges | {ord(character) for character in expression if not character.isascii()}


@lru_cache(maxsize=len(FORMS))
def not_alone(form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> NDArray[np.int64]:
    """Return the code points by which a text may not be in a normal form: with none of them, it is."""
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
