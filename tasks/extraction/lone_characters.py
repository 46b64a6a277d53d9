"""Text nodes of one character, which resiliparse 2.0.1 drops: a mark behind each keeps them.

Where and why it drops them is in docs/design.md. The mark is a character that the page does not have, and is taken
out of the text again.
"""

from collections.abc import Callable

import numpy as np

from tasks.extraction.nesting import Bytes, Places, lone_places, referenced, spliced

# Control characters that are no white space, and code points that stand for no character.
MARKS = [*map(chr, (*range(1, 9), *range(14, 28), 127, *range(0xFDD1, 0xFDF0)))]


def with_lone(
    page: str, extract: Callable[[str], str], data: Bytes | None = None, places: Places | None = None
) -> str:
    """Extract the text of a page that may have such text nodes.

    data: the page in UTF-8. places: after these characters, in bytes, (n,). Both are found where they are None.
    Raises ValueError where no character can be a mark.
    """
    if data is None or places is None:
        data = np.frombuffer(page.encode(), np.uint8)
        places = lone_places(data)
    if not len(places):
        return extract(page)
    mark = unused_character(page, data)
    return extract(spliced(page, data, np.stack([places, places], 1), mark)).replace(mark, "")


def unused_character(page: str, data: Bytes) -> str:
    """Return a mark that a page has neither as itself nor as a reference. data: the page in UTF-8."""
    used = referenced(data)
    for mark in MARKS:
        if not used[ord(mark)] and mark not in page:
            return mark
    raise ValueError("it has all control characters; expected at least one that could mark others")
