"""Keep text nodes of one character, which resiliparse 2.0.1 drops (docs/design.md explains when and why).

A mark is put after each such character before the extraction, and removed from the extracted text. The mark is a
character that the page does not have.
"""

from collections.abc import Callable

import numpy as np

from zyda_flows.tasks.extraction.nesting import (
    NO_SPANS,
    Bytes,
    Places,
    in_utf8,
    lone_places,
    referenced_characters,
    splice,
)

# Control characters that are not white space, and code points that are not characters.
UNUSED_CHARACTERS = [*map(chr, (*range(1, 9), *range(14, 28), 127, *range(0xFDD1, 0xFDF0)))]


def with_lone(page: str, extract: Callable[[str], str]) -> str:
    """Extract the text of a page and keep its text nodes of one character.

    Raises ValueError if the page has all characters that could be the mark.
    """
    data = in_utf8(page)
    lone = lone_places(data)
    return with_marked(data, lone, NO_SPANS, extract) if len(lone) else extract(page)


def with_marked(data: Bytes, lone: Places, names: Places, extract: Callable[[str], str]) -> str:
    """Extract the text of a page with text nodes of one character, and rename some tags to `span`.

    data: the page in UTF-8. lone, names: `Measured.lone` and `Measured.in_sentences`.
    """
    mark = unused_character(data) if len(lone) else ""
    spans = np.concatenate([names, np.stack([lone, lone], 1)])
    order = np.argsort(spans[:, 0])
    texts = [b"span" if i < len(names) else mark.encode() for i in order.tolist()]
    text = extract(splice(data, spans[order], texts))
    return text.replace(mark, "") if mark else text


def unused_character(data: Bytes) -> str:
    """Return a mark that a page has neither as a character nor as a reference. data: the page in UTF-8."""
    used, page = referenced_characters(data), data.tobytes()
    for mark in UNUSED_CHARACTERS:
        if not used[ord(mark)] and mark.encode() not in page:
            return mark
    raise ValueError("the page has all control characters; expected one or more to be unused")
