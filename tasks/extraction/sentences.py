"""Elements that resiliparse drops wherever they stand, and that are words of a sentence: `<time>` and form labels.

Outside of sentences they are dates of posts and forms, and are dropped as before. Within one they become `<span>`.
"""

import re
from collections.abc import Iterator

import numpy as np

from tasks.extraction.nesting import Bytes, Measured, lone_places
from textkernels.markup import IN_SENTENCES

WINDOW = 200  # bytes looked at before and behind an element
LONGEST = 300  # bytes of an element that is part of a sentence
NAME = re.compile(rb"[a-zA-Z]+")
END = {
    name: re.compile(rb"</((?i:" + name + rb"))(?=[\s>])[^<>]*>") for name in IN_SENTENCES.encode().split()
}
TAG = re.compile(rb"<(/?)([a-zA-Z][a-zA-Z0-9-]*)(?:[^<>a-zA-Z0-9-][^<>]*)?>")
INLINE = frozenset(
    b"a abbr acronym b bdi bdo big button cite code data del dfn em font i img ins kbd label mark q rb rp rt ruby "
    b"nobr output s samp small span strike strong sub sup time tt u var wbr".split()
)
# Of these, one date with words on one side of it is part of a sentence.
PROSE = frozenset(b"p li dd dt td th blockquote figcaption caption h1 h2 h3 h4 h5 h6 br".split())


def with_sentences(page: Measured) -> Measured:
    """Return a page in which elements within sentences are spans."""
    if not len(page.in_sentences):
        return page
    parts, place = list[bytes | memoryview](), 0
    for start, end in sorted({*renamed(page.data, page.in_sentences.tolist())}):
        parts += [page.data.data[place:start], b"span"]
        place = end
    if not parts:
        return page
    content = b"".join([*parts, page.data.data[place:]])
    data = np.frombuffer(content, np.uint8)
    return page._replace(
        html=content.decode(), data=data, lone=lone_places(data) if len(page.lone) else page.lone
    )


def renamed(data: Bytes, places: list[int]) -> Iterator[tuple[int, int]]:
    """Yield where names of tags that become others begin and end; elements may stand in each other."""
    for place in places:
        first = max(0, place - WINDOW)
        content = data[first : place + LONGEST + 2 * WINDOW].tobytes()
        name = NAME.match(content, place - first + 1)
        if name is None:
            continue
        end = END[name[0].lower()].search(content, name.end(), name.end() + LONGEST)
        if end is not None and is_in_sentence(content, name[0].lower(), place - first, end):
            yield first + name.start(), first + name.end()
            yield first + end.start(1), first + end.end(1)


def is_in_sentence(content: bytes, name: bytes, start: int, end: re.Match[bytes]) -> bool:
    """Say whether an element of inline content stands among words: a date on one side, a label on both."""
    is_followed = has_words_after(content, end.end())
    if not is_followed and name != b"time":
        return False
    if any(tag[2].lower() not in INLINE for tag in TAG.finditer(content, start, end.start())):
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
