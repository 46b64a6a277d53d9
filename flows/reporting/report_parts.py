"""What a report consists of, for the page and for Prefect's dashboard alike."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Fact(NamedTuple):
    """A line of the report's head: text to read, to copy, or to follow, and what comes after it.

    link: a URL, or a path relative to the report.
    """

    name: str
    text: str = ""
    is_to_copy: bool = False
    link: str = ""
    more: tuple["Fact", ...] = ()


@dataclass(frozen=True)
class Table:
    """Cells; the first column is of names. has_total: the last row is of all. is_of_text: else of numbers."""

    title: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    has_total: bool = False
    is_of_text: bool = False


class Text(NamedTuple):
    """Something to open and read: texts as they are, each with the line above it."""

    summary: str
    parts: tuple[tuple[str, str], ...]
    is_open: bool = False


@dataclass
class Section:
    """A chapter of the report. notes: paragraphs. plot: an <svg> element."""

    title: str
    notes: list[str] = field(default_factory=list)
    plot: str = ""
    tables: list[Table] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def count(number: int) -> str:
    return f"{number:,}"


def with_sign(number: int) -> str:
    return f"{number:+,}" if number else "0"
