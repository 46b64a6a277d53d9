"""Compare the two texts of a pair, in both directions: which of them may be removed for the other.

A text may be removed if the other text has its facts, and it is

- a copy: the other text has its words in the same order, or its sentences and others between them; or
- a rewrite: the other text lacks so many of its words that it cannot be a copy with a few changed words.

All others are edited versions. They stay, because a changed word can be content of which no fact is known. A word
that is added within a sentence can change what the sentence states ("is rarely open").
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.copies import (
    Content,
    changed_sentence,
    content_of,
    is_copied,
    lacking_words,
)
from zyda_flows.tasks.dedup.coverage import is_covered
from zyda_flows.tasks.dedup.facts import TextFacts, facts_of, lacking_facts
from zyda_flows.tasks.dedup.novelty import novel_share_of_words, words_in_order

MOST_FACTS, MOST_CHARACTERS = 20, 400  # of the facts that are listed for a pair
KNOWN_CHARACTERS = 32 << 20  # of texts whose facts are kept while pairs are compared
# Of a rewrite: the least share and number of the text's words that the other lacks, the least share of its 3-grams,
# and the most words for each word of the other. An edit of three Chinese words has at most 12 characters.
REWRITTEN, LEAST_LACKING, NEW_GRAMS, LONGER = 0.2, 13, 0.7, 1.5
UNKNOWN_LANGUAGE = "language: the words of facts are not known"
SIDES_OF_TEXTS = pa.schema(
    [("agrees", pa.bool_()), ("lacks", pa.string()), ("novel", pa.float32())]
)  # of a side


class Relation(StrEnum):
    """How the facts of two texts are related. The first that applies."""

    CONTRADICTION = "contradiction"  # each text has facts that the other lacks
    SAME = "same facts"  # a text may be removed for the other
    LANGUAGE = "unknown language"  # the words of facts are not known
    EDITED = "edited version"


class Side(NamedTuple):
    """A document of a pair. agrees: whether it may be removed for the other. lacks: what the other lacks, as text.

    novel: share of the document's 3-grams of words that the other lacks. has_own_facts: whether facts are lacking.
    """

    agrees: bool
    lacks: str
    novel: float
    has_own_facts: bool


EQUAL = Side(agrees=True, lacks="", novel=0.0, has_own_facts=False)  # of equal texts


class TextToCompare(NamedTuple):
    """A text. is_covered: whether the word lists of facts cover its language.

    words: their hashes, in order. content: its words and sentences; none if the facts are not complete.
    """

    text: str
    facts: TextFacts
    is_covered: bool
    words: NDArray[np.uint64]
    content: Content


class ComparedTexts:
    """Compares texts by their ids. A text is read once for neighbouring pairs.

    text_of: returns the text of a document.
    """

    def __init__(self, text_of: Callable[[int], str]) -> None:
        cache: LRUCache[Any, TextToCompare] = LRUCache(
            KNOWN_CHARACTERS, getsizeof=lambda text: len(text.text) + 1
        )
        self.known = cached(cache)(lambda doc_id: to_compare(text_of(doc_id)))

    def sides(self, a: int, b: int) -> tuple[Side, Side]:
        """Return both sides of a pair."""
        own, other = self.known(a), self.known(b)
        if own.text == other.text:
            return EQUAL, EQUAL
        return side_of(own, other), side_of(other, own)


def to_compare(text: str) -> TextToCompare:
    facts = facts_of(text)
    return TextToCompare(
        text, facts, is_covered(text), words_in_order(text), content_of(text if facts.is_complete else "")
    )


def side_of(own: TextToCompare, other: TextToCompare) -> Side:
    """Return the side of a text in its pair with another."""
    lacks, is_covered = lacking_facts(own.facts, other.facts), own.is_covered and other.is_covered
    novel = novel_share_of_words(own.words, other.words)
    lacking = lacking_words(own.content, other.content)
    if not lacking and is_copied(own.content, other.content):
        edits = dict[str, tuple[str, ...]]()
        lacks = without_added_negations(lacks)
    else:
        edits = edits_of(own, other, lacking, novel)
    return Side(
        agrees=is_covered and not lacks and not edits,
        lacks="; ".join(
            filter(None, ["" if is_covered else UNKNOWN_LANGUAGE, as_text(lacks), as_text(edits)])
        ),
        novel=novel,
        has_own_facts=bool(lacks),
    )


def without_added_negations(lacks: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Leave out the negations that only the kept text has: in a copy, they are in sentences that it adds."""
    kept = tuple(word for word in lacks.get("negation", ()) if not word.startswith("+"))
    return {kind: facts for kind, facts in (lacks | {"negation": kept}).items() if facts}


def edits_of(
    own: TextToCompare, other: TextToCompare, lacking: Counter[str], novel: float
) -> dict[str, tuple[str, ...]]:
    """Return what a text that is no copy has of its own: words, or its first changed sentence. Empty for a rewrite.

    lacking: the words that the other text lacks. novel: the share of 3-grams that it lacks.
    """
    if not lacking:
        return {"sentence": (changed_sentence(own.text, other.text),)}
    count, size, others = (sum(words.values()) for words in (lacking, own.content.words, other.content.words))
    is_rewrite = (
        count >= max(LEAST_LACKING, REWRITTEN * size) and novel >= NEW_GRAMS and size <= LONGER * others
    )
    return {} if is_rewrite else {"words": tuple(sorted(lacking.elements()))}


def relation_of(a: Side, b: Side) -> Relation:
    """Return the relation of two sides of a pair."""
    if a.has_own_facts and b.has_own_facts:
        return Relation.CONTRADICTION
    if a.agrees or b.agrees:
        return Relation.SAME
    return Relation.LANGUAGE if a.lacks.startswith(UNKNOWN_LANGUAGE) else Relation.EDITED


def as_text(lacks: Mapping[str, tuple[str, ...]]) -> str:
    """Return facts as a text: `number: 5 km, 7; negation: not`."""
    kinds = list[str]()
    for kind, facts in lacks.items():
        more = f" and {len(facts) - MOST_FACTS:,} more" if len(facts) > MOST_FACTS else ""
        kinds.append(f"{kind}: {', '.join(facts[:MOST_FACTS])}{more}")
    listed = "; ".join(kinds)
    return listed if len(listed) <= MOST_CHARACTERS else f"{listed[:MOST_CHARACTERS]}…"


def columns_of_sides(sides: list[tuple[Side, Side]]) -> dict[str, pa.Array]:
    """Return the columns of pairs: `relation`, then `agrees_a`, `lacks_a`, `novel_a`, `agrees_b` and so on."""
    columns: dict[str, Any] = {"relation": [relation_of(a, b) for a, b in sides]}
    for ending, number in (("a", 0), ("b", 1)):
        for field in SIDES_OF_TEXTS:
            values = [getattr(pair[number], field.name) for pair in sides]
            columns[f"{field.name}_{ending}"] = pa.array(values, field.type)
    return columns
