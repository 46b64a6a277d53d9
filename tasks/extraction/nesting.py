"""Which pages are safe to parse: libraries take quadratic time for some, and no call of theirs can be stopped.

resiliparse 2.0.1 and lexbor need time in proportion to depth times size (100,000 nested `<div>` take minutes), to
the square of the attributes of one tag (100,000 take minutes) and of the options of one `<select>` (10,000 take
half a second). So pages are measured before they are parsed, and options, whose text nobody wants, are taken out.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.limits import limits
from textkernels.markup import HASHES, IS_IN_SENTENCE, IS_STRUCTURE, KINDS, NO_PLACES, nesting

OPTION = re.compile(r"</?opt(?:ion|group)\b[^<>]*>?", re.IGNORECASE)


Bytes = NDArray[np.uint8]


class Measured(NamedTuple):
    """A page in a form that is safe to parse, nearly always as it was, and what is in it.

    has_structure: an element of `textkernels.markup.STRUCTURE`. has_lone: a text node of one character that
    resiliparse drops. has_in_sentence: an element of `textkernels.markup.IN_SENTENCES`.
    """

    html: str
    has_structure: bool
    has_lone: bool
    has_in_sentence: bool


def checked(html: str, data: Bytes | None = None) -> str:
    """Return a page in a form that is safe to parse; raise ValueError where there is none.

    data: the page in UTF-8, where that is at hand.
    """
    return measured(html, data).html


def measured(html: str, data: Bytes | None = None) -> Measured:
    """Return what `checked` does, and what is in the page."""
    if data is None:
        html, data = in_utf8(html)
    most = limits()
    if len(data) > most.html_bytes:
        raise ValueError(f"it has {len(data):,} bytes, expected at most {most.html_bytes:,}")
    depth, tags, work, options, seen, alone = nesting(data, HASHES, KINDS, most.html_depth, NO_PLACES)
    if depth > most.html_depth:
        raise ValueError(f"elements nest more than {most.html_depth} deep")
    if tags > most.html_tags:
        raise ValueError(f"there are {tags:,} tags, more than {most.html_tags:,}")
    if work > most.html_work:
        raise ValueError(
            f"{len(data):,} bytes in elements up to {depth} deep and their attributes cost too much to parse: "
            f"{work:,}, expected at most {most.html_work:,}"
        )
    html = OPTION.sub("", html) if options > most.html_options else html
    return Measured(html, bool(seen & IS_STRUCTURE), alone > 0, bool(seen & IS_IN_SENTENCE))


def in_utf8(html: str) -> tuple[str, Bytes]:
    """Return a page without halves of characters, and its bytes."""
    try:
        page = html.encode()
    except UnicodeEncodeError:  # which no page has that was decoded
        page = html.encode("utf-8", "replace")
        html = page.decode()
    return html, np.frombuffer(page, np.uint8)
