"""Text nodes of one character, which resiliparse 2.0.1 drops: a mark behind each keeps them.

Where and why it drops them is in docs/design.md. The mark is a character that the page does not have, and is taken
out of the text again.
"""

import re
from collections.abc import Callable

import numpy as np

from tasks.extraction.nesting import Bytes
from textkernels.markup import HASHES, KINDS, ROOM, nesting

# Control characters that are no white space, and code points that stand for no character.
MARKS = [*map(chr, (*range(1, 9), *range(14, 28), 127, *range(0xFDD1, 0xFDF0)))]
REFERENCE = re.compile(r"&#(?:x0*([0-9a-f]{1,4})|0*([0-9]{1,5}))(?![0-9a-f])", re.IGNORECASE)


def extracted_with_lone(page: str, extract: Callable[[str], str], data: Bytes | None = None) -> str:
    """Extract the text of a page that has such text nodes; raise ValueError where no character can be a mark.

    data: the page in UTF-8, where that is at hand.
    """
    data = np.frombuffer(page.encode(), np.uint8) if data is None else data
    places = lone_places(data)
    if not len(places):
        return extract(page)
    mark = unused_character(page)
    code = np.frombuffer(mark.encode(), np.uint8)
    marked = np.insert(data, np.repeat(places, len(code)), np.tile(code, len(places)))
    return extract(str(marked.data, "utf-8")).replace(mark, "")


def lone_places(data: Bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the places after such characters in a page, in UTF-8."""
    places = np.zeros(1024, np.int64)
    while (found := nesting(data, HASHES, KINDS, ROOM - 2, places)[-1]) > len(places):
        places = np.zeros(found, np.int64)
    return places[:found]


def unused_character(page: str) -> str:
    """Return a mark that a page has neither as itself nor as a reference."""
    used = {chr(int(found[1], 16) if found[1] else int(found[2])) for found in REFERENCE.finditer(page)}
    for mark in MARKS:
        if mark not in page and mark not in used:
            return mark
    raise ValueError("it has all control characters; expected at least one that could mark others")
