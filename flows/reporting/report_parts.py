"""The parts of a report, for the HTML page and for Prefect's dashboard."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Fact(NamedTuple):
    """A line of the report's head: text, with a button to copy it, a link, or further facts.

    link: a URL, or a path relative to the report.
    """

    name: str
    text: str = ""
    is_to_copy: bool = False
    link: str = ""
    more: tuple["Fact", ...] = ()


@dataclass(frozen=True)
class Table:
    """A table; the first column has names. has_total: the last row is a total. is_of_text: cells are texts."""

    title: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    has_total: bool = False
    is_of_text: bool = False


class Text(NamedTuple):
    """Texts that the reader can open, each with a line above it."""

    summary: str
    parts: tuple[tuple[str, str], ...]
    is_open: bool = False


@dataclass
class Section:
    """A section of the report. notes: paragraphs. plot: an <svg> element."""

    title: str
    notes: list[str] = field(default_factory=list)
    plot: str = ""
    tables: list[Table] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def count(number: int) -> str:
    return f"{number:,}"


def with_sign(number: int) -> str:
    return f"{number:+,}" if number else "0"
