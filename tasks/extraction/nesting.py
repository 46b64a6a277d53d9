"""Which pages are safe to parse: libraries take quadratic time for some, and no call of theirs can be stopped.

resiliparse 2.0.1 and lexbor need time in proportion to depth times size (100,000 nested `<div>` take minutes), to
the square of the attributes of one tag (100,000 take minutes) and of the options of one `<select>` (10,000 take
half a second). So pages are measured before they are parsed, and options, whose text nobody wants, are taken out.
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.limits import limits
from zyda_flows.textkernels.markup import ROOM, nesting, references
from zyda_flows.textkernels.markup_names import (
    HAS_BRACKET,
    HAS_NUMBERS,
    HASHES,
    IN_SENTENCES,
    IS_STRUCTURE,
    KINDS,
)

OPTION = re.compile(r"</?opt(?:ion|group)\b[^<>]*>?", re.IGNORECASE)


PLACES = 1024  # for which there is room at once
Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
NO_SPANS = np.zeros((0, 2), np.int64)
LENGTHS = np.zeros(256, np.int64)  # of names of IN_SENTENCES, by their first letter
for name in IN_SENTENCES.split():
    LENGTHS[ord(name[0])] = len(name)


class Measured(NamedTuple):
    """A page in a form that is safe to parse, nearly always as it was, and what is in it.

    data: the page in UTF-8. has_structure: an element of `textkernels.markup_names.STRUCTURE`. has_numbers: a list
    that may count otherwise than from one on. has_bracket: a text that begins with `[`, as links to edit do. lone:
    the places after characters that resiliparse drops because they are a whole text node, in bytes, (n,).
    in_sentences: where names of tags of `textkernels.markup_names.IN_SENTENCES` begin and end that are part of one,
    (n, 2), in bytes.
    """

    data: Bytes
    has_structure: bool
    has_numbers: bool
    has_bracket: bool
    lone: Places
    in_sentences: Places

    @property
    def html(self) -> str:
        return str(self.data.data, "utf-8")


def measured(page: str | Bytes) -> Measured:
    """Return a page in a form that is safe to parse, and what is in it; raise ValueError where there is none.

    page: in UTF-8, where that is at hand, for only what is parsed is decoded.
    """
    data, most = in_utf8(page) if isinstance(page, str) else page, limits()
    if len(data) > most.html_bytes:
        raise ValueError(f"it has {len(data):,} bytes, expected at most {most.html_bytes:,}")
    (depth, tags, work, options, seen, _), places = surveyed(data, most.html_depth)
    if depth > most.html_depth:
        raise ValueError(f"elements nest more than {most.html_depth} deep")
    if tags > most.html_tags:
        raise ValueError(
            f"there are {tags:,} tags, with those that blocks open again, more than {most.html_tags:,}"
        )
    if work > most.html_work:
        raise ValueError(
            f"{len(data):,} bytes in elements up to {depth} deep and their attributes cost too much to parse: "
            f"{work:,}, expected at most {most.html_work:,}"
        )
    if options > most.html_options:
        data = in_utf8(OPTION.sub("", str(data.data, "utf-8")))
        _, places = surveyed(data, most.html_depth)
    structure, numbers, bracket = (bool(seen & kind) for kind in (IS_STRUCTURE, HAS_NUMBERS, HAS_BRACKET))
    return Measured(data, structure, numbers, bracket, places[places >= 0], name_spans(data, places))


def surveyed(data: Bytes, deepest: int) -> tuple[tuple[int, int, int, int, int, int], Places]:
    """Return the measures of a page and the places in it, as `nesting` has them. deepest: elements."""
    places = np.empty(PLACES, np.int64)
    while (measures := nesting(data, HASHES, KINDS, deepest, places))[-1] > len(places):
        places = np.empty(measures[-1], np.int64)
    return measures, places[: measures[-1]]


def name_spans(data: Bytes, places: Places) -> Places:
    """Return where names of tags in sentences begin and end, (n, 2). places: as `nesting` has them."""
    start, end = ~places[places < 0].reshape(-1, 2).T
    if not len(start):
        return NO_SPANS
    length = LENGTHS[data[start + 1] | 32]
    begins = np.concatenate([start + 1, end + 2])
    spans = np.stack([begins, begins + np.tile(length, 2)], 1)
    return spans[np.argsort(begins)]


def lone_places(data: Bytes) -> Places:
    """Return the places after lone characters in a page that was measured before, in bytes."""
    _, places = surveyed(data, ROOM - 2)
    return places[places >= 0]


def referenced(data: Bytes) -> NDArray[np.bool_]:
    """Say which code points below 2**16 a page refers to by number: (2**16,)."""
    named: NDArray[np.bool_] = references(data, HASHES, KINDS)
    return named


def spliced(data: Bytes, spans: Places, texts: Sequence[bytes]) -> str:
    """Return a page in UTF-8 with a text in the place of each span, (n, 2), in bytes."""
    places = spans.ravel().tolist()
    kept = [data.data[a:b] for a, b in zip([0, *places[1::2]], [*places[::2], len(data)], strict=True)]
    return b"".join(chain.from_iterable(zip(kept, [*texts, b""], strict=True))).decode()


def with_sentences(page: Measured) -> str:
    """Return a page in which elements that are part of a sentence are spans, which resiliparse keeps."""
    names = page.in_sentences
    return spliced(page.data, names, [b"span"] * len(names)) if len(names) else page.html


def in_utf8(html: str) -> Bytes:
    """Return the bytes of a page, without halves of characters, which no page has that was decoded."""
    return np.frombuffer(html.encode("utf-8", "replace"), np.uint8)
