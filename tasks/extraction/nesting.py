"""Which pages are safe to parse: libraries take quadratic time for some, and no call of theirs can be stopped.

resiliparse 2.0.1 and lexbor need time in proportion to depth times size (100,000 nested `<div>` take minutes), to
the square of the attributes of one tag (100,000 take minutes) and of the options of one `<select>` (10,000 take
half a second). So pages are measured before they are parsed, and options, whose text nobody wants, are taken out.
"""

import re

import numpy as np
from numpy.typing import NDArray

from textkernels.markup import HASHES, KINDS, nesting

DEEPEST = 512  # which is where browsers stop, too; of 308 real pages the deepest had 47
MOST_ATTRIBUTES = 512  # the most of them was 302
MOST_WORK = 2_000_000_000  # some seconds
MOST_TAGS = (
    1_000_000  # for which resiliparse takes some 300 MB; the most that one of 308 real pages had is 19,425
)
MOST_OPTIONS = 256
MOST_BYTES = 12 << 20
OPTION = re.compile(r"</?opt(?:ion|group)\b[^<>]*>?", re.IGNORECASE)


Bytes = NDArray[np.uint8]


def checked(html: str, data: Bytes | None = None) -> str:
    """Return a page in a form that is safe to parse, nearly always itself; raise ValueError where there is none.

    data: the page in UTF-8, where that is at hand.
    """
    return measured(html, data)[0]


def measured(html: str, data: Bytes | None = None) -> tuple[str, bool]:
    """Return what `checked` does, and whether the page has elements of `textkernels.markup.STRUCTURE`."""
    if data is None:
        try:
            page = html.encode()
        except UnicodeEncodeError:  # halves of characters, which no page has that was decoded
            page = html.encode("utf-8", "replace")
            html = page.decode()
        data = np.frombuffer(page, np.uint8)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has {len(data):,} bytes, expected at most {MOST_BYTES:,}")
    depth, tags, attributes, work, options, has_structure = nesting(data, HASHES, KINDS, DEEPEST)
    if depth > DEEPEST:
        raise ValueError(f"elements nest more than {DEEPEST} deep")
    if tags > MOST_TAGS:
        raise ValueError(f"there are {tags:,} tags, more than {MOST_TAGS:,}")
    if attributes > MOST_ATTRIBUTES:
        raise ValueError(f"a tag has {attributes:,} attributes, more than {MOST_ATTRIBUTES}")
    if work > MOST_WORK:
        raise ValueError(f"{len(data):,} bytes in elements up to {depth} deep are too many")
    return (OPTION.sub("", html) if options > MOST_OPTIONS else html), has_structure
