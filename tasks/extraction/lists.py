"""Keep the numbers of ordered lists that do not count 1, 2, 3.

resiliparse numbers the items of every list from 1 on. A mark with the right number is put at the beginning of an
item before the extraction, and replaces resiliparse's number after it.
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
NUMBER_AND_MARK = re.compile(rf"[0-9]+\. {SIGN}n(-?[0-9]+);[ \n]*")


@dataclass
class HtmlList:
    """A list of a page. items: where each item's content begins, and the item's attributes."""

    is_ordered: bool
    attributes: str
    items: list[tuple[int, str]] = field(default_factory=list)

    def numbers(self) -> Iterator[tuple[int, int]]:
        """Yield where each item begins and its number, by the HTML standard; nothing if the list counts 1, 2, 3."""
        if not self.is_ordered:
            return
        values = [VALUE.search(attributes) for _, attributes in self.items]
        number, step = self.first_number()
        if (number, step) == (1, 1) and not START.search(self.attributes) and not any(values):
            return
        for (place, _), value in zip(self.items, values, strict=True):
            number = int(value[1]) if value else number
            yield place, number
            number += step

    def first_number(self) -> tuple[int, int]:
        """Return the number of the first item, and the difference between the numbers of two items."""
        is_reversed, start = REVERSED.search(self.attributes) is not None, START.search(self.attributes)
        first = len(self.items) if is_reversed else 1
        return int(start[1]) if start else first, -1 if is_reversed else 1


def with_numbers(page: str) -> str:
    """Return a page with marks at the beginning of the items of lists that do not count 1, 2, 3.

    page: the result of `without_marks`.
    """
    marks = sorted(mark for html_list in lists_in(page) for mark in html_list.numbers())
    parts, place = list[str](), 0
    for end, number in marks:
        parts += [page[place:end], f"{SIGN}n{number};"]
        place = end
    return "".join([*parts, page[place:]])


def lists_in(page: str) -> Iterator[HtmlList]:
    """Yield the lists of a page, inner lists before outer ones."""
    open_lists = list[HtmlList]()
    for tag in TAG.finditer(page):
        name = tag[2].lower()
        if name != "li" and not tag[1]:
            open_lists.append(HtmlList(name == "ol", tag[3]))
        elif name != "li" and open_lists:
            yield open_lists.pop()
        elif name == "li" and not tag[1] and open_lists:
            open_lists[-1].items.append((tag.end(), tag[3]))
    yield from open_lists


def restore_numbers(text: str) -> str:
    """Return the plain text of resiliparse with the numbers of the marks in place of resiliparse's numbers."""
    return MARK.sub("", NUMBER_AND_MARK.sub(r"\1. ", text)) if SIGN in text else text
