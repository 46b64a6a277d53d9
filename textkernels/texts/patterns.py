"""Count the matches of many regular expressions in texts, exactly as Python's `re.findall`.

One scan (Hyperscan) finds which expressions occur in a text; Python counts the matches of these, so the counts have
Python's meaning. Expressions without consecutive literals, such as ` [^ ] [^ ] [^ ]`, give the scan nothing to
search for; a kernel counts them. Without Hyperscan the counts are the same, but slower.
"""

import logging
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.rules.characters import CODE_POINTS
from zyda_flows.textkernels.rules.sequences import BITS, count, count_string
from zyda_flows.textkernels.texts.expressions import character_sequence, literal_string, scan_expression

LOG = logging.getLogger("textkernels")
MOST_WORDS = 4  # of sequences: each word is a pass over the texts, at 850 MB/s
LEAST_LITERAL = 2  # consecutive literal characters that are enough for a scan to search for


@dataclass(frozen=True)
class Patterns:
    """Regular expressions to count. Raises re.error for an invalid expression."""

    expressions: tuple[str, ...]

    def __post_init__(self) -> None:
        for expression in self.expressions:
            re.compile(expression)

    def __getstate__(self) -> dict[str, Any]:
        return {"expressions": self.expressions}  # compiled expressions are not pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @cached_property
    def compiled(self) -> "CompiledPatterns":
        return CompiledPatterns(self.expressions)

    def count(self, texts: pa.LargeStringArray) -> NDArray[np.int64]:
        """Count each expression in each text: (texts, expressions) int64."""
        counts = np.zeros((len(texts), len(self.expressions)), np.int64)
        for sequences in self.compiled.sequences:
            counts[:, list(sequences.places)] = sequences.count(texts)
        data, ends = text_buffers(texts)
        view, occurring = memoryview(data.data), defaultdict[int, list[int]](list)
        for number, (start, stop) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            for place in self.compiled.occurring_in(view[start:stop].tobytes()):
                occurring[place].append(number)
        for place, numbers in occurring.items():
            if place in self.compiled.strings:
                # Valid UTF-8 matches only at the beginnings of characters, so bytes are counted.
                string = self.compiled.strings[place]
                counts[numbers, place] = count_string(data, ends, np.array(numbers), string)
            else:
                matches = self.compiled.others[place].finditer
                counts[numbers, place] = [
                    sum(1 for _ in matches(texts[number].as_py())) for number in numbers
                ]
        return counts


class CompiledPatterns:
    """Expressions by the way in which they are counted, with their index."""

    def __init__(self, expressions: Sequence[str]) -> None:
        self.sequences, sequence_indices = words_of(expressions)
        self.strings, self.others = dict[int, bytes](), dict[int, re.Pattern[str]]()
        scanned = dict[int, bytes]()
        for place, expression in enumerate(expressions):
            if place in sequence_indices:
                continue
            string = literal_string(expression)
            if string is not None:
                self.strings[place] = string.encode()
            else:
                self.others[place] = re.compile(expression)
                scanned[place] = scan_expression(expression) or b""
        string_expressions = {place: escaped(string) for place, string in self.strings.items()}
        # Two scans, because a scan for strings alone is faster than a scan for all.
        self.scans = [Scan(string_expressions), Scan(scanned)]

    def occurring_in(self, text: bytes) -> Iterator[int]:
        """Yield the indices of expressions that may occur in a text, except sequences."""
        for scan in self.scans:
            yield from scan.occurring_in(text)


class Scan:
    """A scan for expressions in bytes: returns those that may occur in a text, and all unsupported expressions."""

    def __init__(self, expressions: Mapping[int, bytes]) -> None:
        self.database, known = database_of(expressions)
        self.others = [place for place in expressions if place not in known]
        self.lock = threading.Lock()  # a database has one scratch space

    def occurring_in(self, text: bytes) -> list[int]:
        places = self.others.copy()
        if self.database is not None:
            with self.lock:
                self.database.scan(text, match_event_handler=note, context=places)
        return places


def note(place: int, start: int, end: int, flags: int, places: list[int]) -> None:
    """Record that an expression occurs."""
    places.append(place)


def database_of(expressions: Mapping[int, bytes]) -> tuple[Any, set[int]]:
    """Return a database of the expressions, and the indices in it: Hyperscan rejects some expressions."""
    hyperscan = scanner()
    if hyperscan is None:
        return None, set()
    known = [place for place, expression in expressions.items() if expression]
    try:
        return compiled(hyperscan, expressions, known), set(known)
    except hyperscan.error:
        known = [place for place in known if is_known(hyperscan, expressions, place)]
        return compiled(hyperscan, expressions, known), set(known)


def is_known(hyperscan: Any, expressions: Mapping[int, bytes], place: int) -> bool:
    try:
        compiled(hyperscan, expressions, [place])
    except hyperscan.error:
        return False
    return True


def compiled(hyperscan: Any, expressions: Mapping[int, bytes], places: Sequence[int]) -> Any:
    if not places:
        return None
    database = hyperscan.Database()
    database.compile(
        expressions=[expressions[place] for place in places],
        ids=list(places),
        flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(places),
    )
    return database


@lru_cache(maxsize=1)
def scanner() -> Any:
    """Return the module hyperscan, or None if it is not installed."""
    try:
        import hyperscan
    except ImportError:
        LOG.warning(
            "Hyperscan is not installed: patterns are counted without it, with equal counts, but slower."
        )
        return None
    return hyperscan


def escaped(string: bytes) -> bytes:
    """Return the expression that matches a string literally."""
    return b"".join(b"\\x%02x" % byte for byte in string)


@dataclass(frozen=True)
class Sequences:
    """Sequences that share a word of bits: the accepted characters of each, by index."""

    items: Mapping[int, list[tuple[bool, str]]]

    @property
    def places(self) -> Iterable[int]:
        return self.items.keys()

    @cached_property
    def tables(self) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """Return the kind of each code point, (0x110000,), and the positions that accept each kind, (kinds,)."""
        every = [item for items in self.items.values() for item in items]
        named = sorted({character for _, character in every if character})
        kinds = np.zeros(CODE_POINTS, np.uint8)
        kinds[[ord(character) for character in named]] = range(1, len(named) + 1)
        fits = [
            sum(1 << bit for bit, (matching, one) in enumerate(every) if (one == character) == matching)
            for character in [None, *named]
        ]
        return kinds, np.array(fits, np.uint64)

    def count(self, texts: pa.LargeStringArray) -> NDArray[np.int64]:
        """Count each sequence in each text: (texts, sequences) int64."""
        return count(*text_buffers(texts), *self.tables, list(map(len, self.items.values())))


def words_of(expressions: Sequence[str]) -> tuple[list[Sequences], set[int]]:
    """Return the sequences without enough consecutive literals for a scan, in words, and their indices."""
    words = [dict[int, list[tuple[bool, str]]]() for _ in range(MOST_WORDS)]
    for place, expression in enumerate(expressions):
        items = character_sequence(expression)
        if items and longest_hold(items) < LEAST_LITERAL:
            room = (word for word in words if sum(map(len, word.values())) + len(items) <= BITS)
            next(room, {})[place] = items
    filled = [Sequences(word) for word in words if word]
    return filled, {place for word in filled for place in word.places}


def longest_hold(items: Sequence[tuple[bool, str]]) -> int:
    """Return the greatest number of consecutive literals; a string of only literals is always enough."""
    if all(matching for matching, _ in items):
        return max(LEAST_LITERAL, len(items))
    return max(map(len, "".join("x" if matching else " " for matching, _ in items).split()), default=0)
