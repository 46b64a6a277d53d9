"""Numbers of the items of ordered lists that a page numbers otherwise than from one on.

resiliparse counts items from one. A mark at the beginning of an item comes through its extraction and
has the number.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from zyda_flows.tasks.extraction.marks import SIGN

TAG = re.compile(r"<(/?)(ol|ul|menu|li)\b([^<>]*)>", re.IGNORECASE)
INTEGER = r"(?<![^\s\"'/]){}\s*=\s*[\"']?\s*([-+]?[0-9]{{1,9}})"
START, VALUE = (re.compile(INTEGER.format(name), re.IGNORECASE) for name in ("start", "value"))
REVERSED = re.compile(r"(?<![^\s\"'/])reversed(?![\w-])", re.IGNORECASE)
MARK = re.compile(f"{SIGN}n(-?[0-9]+);")
WRITTEN = re.compile(rf"[0-9]+\. {SIGN}n(-?[0-9]+);[ \n]*")


@dataclass
class Numbering:
    """A list: its attributes, and where each of its items begins, with the attributes of the item."""

    is_ordered: bool
    attributes: str
    items: list[tuple[int, str]] = field(default_factory=list)


def with_numbers(page: str) -> str:
    """Return a page with marks at the beginning of the items of lists that do not count from one on.

    page: one that `without_marks` has seen.
    """
    marks = sorted(mark for one in lists_of(page) for mark in numbers_of(one))
    parts, place = list[str](), 0
    for end, number in marks:
        parts += [page[place:end], f"{SIGN}n{number};"]
        place = end
    return "".join([*parts, page[place:]])


def lists_of(page: str) -> Iterator[Numbering]:
    """Yield the lists of a page, each before those around it."""
    around = list[Numbering]()
    for tag in TAG.finditer(page):
        name = tag[2].lower()
        if name != "li" and not tag[1]:
            around.append(Numbering(name == "ol", tag[3]))
        elif name != "li" and around:
            yield around.pop()
        elif name == "li" and not tag[1] and around:
            around[-1].items.append((tag.end(), tag[3]))
    yield from around


def numbers_of(one: Numbering) -> Iterator[tuple[int, int]]:
    """Yield where each item of a list begins and its number, as the HTML standard has it; none of a plain list."""
    is_reversed, start = REVERSED.search(one.attributes) is not None, START.search(one.attributes)
    values = [VALUE.search(attributes) for _, attributes in one.items]
    if not one.is_ordered or not (is_reversed or start or any(values)):
        return
    step = -1 if is_reversed else 1
    number = int(start[1]) if start else len(one.items) if is_reversed else 1
    for (place, _), value in zip(one.items, values, strict=True):
        number = int(value[1]) if value else number
        yield place, number
        number += step


def numbered(text: str) -> str:
    """Return plain text of resiliparse with the numbers that its marks have."""
    return MARK.sub("", WRITTEN.sub(r"\1. ", text)) if SIGN in text else text
