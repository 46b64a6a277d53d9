"""Measure pages before they are parsed, and reject pages that would take too much time or memory.

resiliparse 2.0.1 and lexbor take time in proportion to depth times size (100,000 nested `<div>` take minutes), to
the square of the attributes of one tag (100,000 take minutes), and to the square of the options of one `<select>`
(10,000 take half a second). A call of these libraries cannot be stopped. Options, whose text is not content, are
removed from a page that has many.
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


FIRST_PLACES = 1024  # the first size of the array of places
Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
NO_SPANS = np.zeros((0, 2), np.int64)
LENGTHS = np.zeros(256, np.int64)  # of names of IN_SENTENCES, by their first letter
for name in IN_SENTENCES.split():
    LENGTHS[ord(name[0])] = len(name)


class MeasuredPage(NamedTuple):
    """A page that is safe to parse, and its properties.

    Attributes:
        data: the page in UTF-8, without `<option>` elements if it had too many.
        has_structure: whether it has an element of `textkernels.markup_names.STRUCTURE`.
        has_numbers: whether it has a list that may not count 1, 2, 3.
        has_bracket: whether a text begins with `[`, as links to edit a section do.
        lone: the places, in bytes, after text nodes of one character, which resiliparse drops; int64, (n,).
        in_sentences: where the names of tags of `textkernels.markup_names.IN_SENTENCES` that are in a sentence
            begin and end, in bytes; int64, (n, 2).
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


def measure_page(page: str | Bytes) -> MeasuredPage:
    """Return a page that is safe to parse, and its properties.

    Args:
        page: the page, as text or as bytes in UTF-8; bytes are faster.

    Raises:
        ValueError: the page exceeds a limit of size, depth, tags or work.
    """
    data, bounds = in_utf8(page) if isinstance(page, str) else page, limits()
    if len(data) > bounds.html_bytes:
        raise ValueError(f"the page has {len(data):,} bytes, expected at most {bounds.html_bytes:,}")
    (depth, tags, work, options, kinds, _), places = survey(data, bounds.html_depth)
    if depth > bounds.html_depth:
        raise ValueError(f"elements are nested more than {bounds.html_depth} deep")
    if tags > bounds.html_tags:
        raise ValueError(
            f"the page has {tags:,} tags with the formatting that blocks open again, expected at most"
            f" {bounds.html_tags:,}"
        )
    if work > bounds.html_work:
        raise ValueError(
            f"{len(data):,} bytes in elements up to {depth} deep and their attributes cost too much to parse: "
            f"{work:,}, expected at most {bounds.html_work:,}"
        )
    if options > bounds.html_options:
        data = in_utf8(OPTION.sub("", str(data.data, "utf-8")))
        _, places = survey(data, bounds.html_depth)
    structure, numbers, bracket = (bool(kinds & kind) for kind in (IS_STRUCTURE, HAS_NUMBERS, HAS_BRACKET))
    return MeasuredPage(data, structure, numbers, bracket, places[places >= 0], name_spans(data, places))


def survey(data: Bytes, max_depth: int) -> tuple[tuple[int, int, int, int, int, int], Places]:
    """Return the measures of a page and the places in it, as `textkernels.markup.nesting` returns them."""
    places = np.empty(FIRST_PLACES, np.int64)
    while (measures := nesting(data, HASHES, KINDS, max_depth, places))[-1] > len(places):
        places = np.empty(measures[-1], np.int64)
    return measures, places[: measures[-1]]


def name_spans(data: Bytes, places: Places) -> Places:
    """Return where the names of tags in sentences begin and end, int64, (n, 2).

    places: of `textkernels.markup.nesting`. Negative places are the complements of the places where the start tag
    and the end tag of such an element begin.
    """
    start, end = ~places[places < 0].reshape(-1, 2).T
    if not len(start):
        return NO_SPANS
    length = LENGTHS[data[start + 1] | 32]
    begins = np.concatenate([start + 1, end + 2])
    spans = np.stack([begins, begins + np.tile(length, 2)], 1)
    return spans[np.argsort(begins)]


def lone_places(data: Bytes) -> Places:
    """Return the places, in bytes, after text nodes of one character in a page that was measured before."""
    _, places = survey(data, ROOM - 2)
    return places[places >= 0]


def referenced_characters(data: Bytes) -> NDArray[np.bool_]:
    """Return which code points below 2**16 a page refers to by number: bool, (2**16,)."""
    named: NDArray[np.bool_] = references(data, HASHES, KINDS)
    return named


def splice(data: Bytes, spans: Places, texts: Sequence[bytes]) -> str:
    """Return a page in which texts replace spans. spans: begin and end in bytes, (n, 2)."""
    places = spans.ravel().tolist()
    kept = [data.data[a:b] for a, b in zip([0, *places[1::2]], [*places[::2], len(data)], strict=True)]
    return b"".join(chain.from_iterable(zip(kept, [*texts, b""], strict=True))).decode()


def with_sentences(page: MeasuredPage) -> str:
    """Return a page in which elements in sentences are renamed to `span`, which resiliparse keeps."""
    names = page.in_sentences
    return splice(page.data, names, [b"span"] * len(names)) if len(names) else page.html


def in_utf8(html: str) -> Bytes:
    """Return the bytes of a page in UTF-8, with lone surrogates replaced."""
    return np.frombuffer(html.encode("utf-8", "replace"), np.uint8)
