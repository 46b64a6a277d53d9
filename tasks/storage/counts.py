"""Counts of documents, tokens and bytes, of changes by cleanings, and of special tokens; and their sums."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.words import counted


class Counts(Record):
    """Documents, tokens and UTF-8 bytes of text."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            documents=self.documents + other.documents,
            tokens=self.tokens + other.tokens,
            bytes=self.bytes + other.bytes,
        )

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(
            documents=self.documents - other.documents,
            tokens=self.tokens - other.tokens,
            bytes=self.bytes - other.bytes,
        )

    def sentence(self) -> str:
        """Return the numbers of documents and tokens for people."""
        return f"{counted(self.documents, 'document')}, {counted(self.tokens, 'token')}"


def total(counts: Iterable[Counts]) -> Counts:
    return sum(counts, Counts())


class CleaningCounts(Record):
    """The number of documents that a cleaning changed, and their characters before and after it.

    replaced: number of replacements, for a cleaning that replaces personal data.
    """

    documents: int = 0
    characters_before: int = 0
    characters_after: int = 0
    replaced: int = 0

    def __add__(self, other: "CleaningCounts") -> "CleaningCounts":
        return CleaningCounts(
            documents=self.documents + other.documents,
            characters_before=self.characters_before + other.characters_before,
            characters_after=self.characters_after + other.characters_after,
            replaced=self.replaced + other.replaced,
        )


class ControlCounts(Record):
    """The documents on which a judge was compared with the conditions before it.

    documents: of the sample. equal: the number for which the judge alone, by the condition `alone`, decides as the
    `keep` of the recipe does.
    """

    documents: int
    equal: int
    alone: str


class SpecialCounts(Record):
    """The number of texts with a special token of the tokenizer as characters, and the token's occurrences."""

    documents: int = 0
    occurrences: int = 0

    def __add__(self, other: "SpecialCounts") -> "SpecialCounts":
        return SpecialCounts(
            documents=self.documents + other.documents, occurrences=self.occurrences + other.occurrences
        )


Addable = TypeVar("Addable", Counts, CleaningCounts, SpecialCounts)
Named = TypeVar("Named", bound=Hashable)


def totals(named: Iterable[Mapping[Named, Addable]]) -> dict[Named, Addable]:
    """Add values with equal names; names are in the order of their first occurrence."""
    sums = dict[Named, Addable]()
    for mapping in named:
        for name, value in mapping.items():
            sums[name] = sums[name] + value if name in sums else value
    return sums
