"""Elements that resiliparse drops wherever they stand, and that are words of a sentence: `<time>` and form labels.

Outside of sentences they are dates of posts and forms, and are dropped as before. Within one they become `<span>`.
"""

import re
from collections.abc import Iterator

import numpy as np

from tasks.extraction.nesting import Bytes, Measured, spliced
from textkernels import markup

WINDOW = 200  # bytes looked at before and behind an element
NAME = re.compile(rb"[a-zA-Z]+")
TAG = re.compile(rb"<(/?)([a-zA-Z][a-zA-Z0-9-]*)(?:[^<>a-zA-Z0-9-][^<>]*)?>")
INLINE = frozenset(markup.INLINE.encode().split())
# Of these, one date with words on one side of it is part of a sentence.
PROSE = frozenset(b"p li dd dt td th blockquote figcaption caption h1 h2 h3 h4 h5 h6 br".split())


def with_sentences(page: Measured) -> Measured:
    """Return a page in which elements within sentences are spans."""
    if not len(page.in_sentences):
        return page
    names = sorted({*renamed(page.data, page.in_sentences.tolist())})
    if not names:
        return page
    spans = np.array(names)
    starts, ends = spans.T
    parts = [page.data.data[a:b] for a, b in zip([0, *ends], [*starts, len(page.data)], strict=True)]
    data = np.frombuffer(b"span".join(parts), np.uint8)
    grown = np.cumsum([0, *(len("span") - (ends - starts))])
    lone = page.lone + grown[np.searchsorted(ends, page.lone)]
    return page._replace(html=spliced(page.html, page.data, spans, "span"), data=data, lone=lone)


def renamed(data: Bytes, elements: list[list[int]]) -> Iterator[tuple[int, int]]:
    """Yield where names of tags that become others begin and end.

    elements: where start and end tags begin. Elements may stand in each other.
    """
    for start, end in elements:
        first = max(0, start - WINDOW)
        content = data[first : end + 2 * WINDOW].tobytes()
        name = NAME.match(content, start - first + 1)
        if name and is_in_sentence(content, name[0].lower(), start - first, end - first):
            for place in (start + 1, end + 2):
                yield place, place + len(name[0])


def is_in_sentence(content: bytes, name: bytes, start: int, end: int) -> bool:
    """Say whether an element of inline content stands among words: a date on one side, a label on both."""
    is_followed = has_words_after(content, content.find(b">", end) + 1)
    if not is_followed and name != b"time":
        return False
    if any(tag[2].lower() not in INLINE for tag in TAG.finditer(content, start, end)):
        return False
    is_preceded, block = words_before(content, start)
    return (is_preceded and is_followed) or (
        (is_preceded or is_followed) and name == b"time" and block in PROSE
    )


def has_words_after(content: bytes, place: int) -> bool:
    """Say whether words follow up to the next element that is not inline, within WINDOW."""
    after = content[place : place + WINDOW]
    stop = next((tag.start() for tag in TAG.finditer(after) if tag[2].lower() not in INLINE), len(after))
    return has_words(after[:stop])


def words_before(content: bytes, place: int) -> tuple[bool, bytes]:
    """Say whether words stand before a place, up to an element that is not inline; return its name, or nothing."""
    first, at = max(0, place - WINDOW), place
    while (at := content.rfind(b"<", first, at)) >= 0:
        tag = TAG.match(content, at, place)
        if tag and tag[2].lower() not in INLINE:
            return has_words(content[tag.end() : place]), tag[2].lower()
    return has_words(content[first:place]), b""


def has_words(html: bytes) -> bool:
    text = TAG.sub(b"", html).strip()
    return bool(text) and any(map(str.isalnum, text.decode("utf-8", "ignore")))
