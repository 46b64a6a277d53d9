"""The search for items of evaluation sets: which of them a text holds, and what of it says so.

An item is a question with its answer. A question of WIDTH words or more is looked for by MOST of its phrases of
so many words at the most, evenly spaced; one of LEAST or more as a whole; a shorter one with its answer behind
it, if both have LEAST words, and not at all if they have fewer. Words are those of word shingles
(`tasks.signatures.shingles`): in lower case, without punctuation, whatever stands between them.

What a shard keeps of a text: the hashes of all phrases that it has, by which the corpus is counted, and each
item of which it has two phrases (or the only one) with the answer near. What is evidence is decided of these
later, when it is known which phrases the corpus has often (`tasks.documents.contamination`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple
from unicodedata import unidata_version

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.documents.evaluation_sets import Item, PlannedSet, items_of
from tasks.errors import BadInput
from tasks.signatures.shingles import folded_characters, word_hashes
from textkernels.phrases import PhraseIndex, hashes_of, holds
from textkernels.words import DROPPED, UNSAFE

WIDTH, LEAST, MOST = 8, 6, 16
# Of what a search finds: raised when it finds something else. Folding follows Python's Unicode.
VERSION = f"1, Unicode {unidata_version}"
BEGINNING = 8  # words of an answer that are looked for
TWO = 2  # phrases, without which nothing is said of a question that has more than one
SHOWN = 300  # characters of what was found
MARK = pa.field("contamination", pa.list_(pa.string()))  # published where documents are marked
PHRASES = pa.list_(pa.uint64())
HELD = pa.list_(
    pa.struct(
        [("set", pa.string()), ("row", pa.int64()), ("found", PHRASES), ("phrases", PHRASES), ("at", pa.int64()),
         ("words", pa.string())]
    )
)  # fmt: skip

Hashes = NDArray[np.uint64]
WORD = re.compile(r"\S+")


class Place(NamedTuple):
    """Where a phrase stands among all words, how many it has, and its hash."""

    start: int
    length: int
    phrase: int


@dataclass(frozen=True)
class Tally:
    """How many items a set has, and how many of them are not looked for: too short, or without an answer."""

    items: int = 0
    short: int = 0
    unanswered: int = 0


@dataclass(frozen=True)
class Sought:
    """Items that are looked for, as arrays.

    names: of the sets. sets, rows: of each item, its set and its row there, (k,). phrases: the hashes of all their
    phrases, (p,) uint64, those of an item up to its `ends`, (k + 1,). answers: their hashes, (k,) uint64. lengths:
    of the answers in words, 0 where none is to be found, (k,).
    """

    names: Sequence[str]
    sets: NDArray[np.int64]
    rows: NDArray[np.int64]
    phrases: Hashes
    ends: NDArray[np.int64]
    answers: Hashes
    lengths: NDArray[np.int64]

    @cached_property
    def order(self) -> NDArray[np.int64]:
        return np.argsort(self.phrases, kind="stable")

    @cached_property
    def ascending(self) -> Hashes:
        return self.phrases[self.order]

    def owners(self, phrase: int) -> list[int]:
        """Return the items that have a phrase."""
        first, last = (
            int(np.searchsorted(self.ascending, np.uint64(phrase), side)) for side in ("left", "right")
        )
        places = self.order[first:last]
        return sorted({*(np.searchsorted(self.ends, places, side="right") - 1).tolist()})

    def phrases_of(self, item: int) -> list[int]:
        found: list[int] = self.phrases[self.ends[item] : self.ends[item + 1]].tolist()
        return found


@dataclass(frozen=True)
class ItemSearch:
    """What looks for items. answer_within: how many words before or after a question its answer may stand."""

    items: Sought
    indexes: tuple[PhraseIndex, ...]
    tallies: dict[str, Tally]
    answer_within: int

    def found(self, texts: pa.LargeStringArray) -> tuple[pa.ListArray, pa.ListArray]:
        """Look for items in texts: the hashes of the phrases of each, and what it holds, null where it has none."""
        words, ends = word_hashes(texts)
        phrases, held = dict[int, list[int]](), dict[int, list[dict[str, Any]]]()
        for document, places in self.phrases_in(words, ends):
            phrases[document] = sorted({place.phrase for place in places})
            items = [*self.held(words, ends[document : document + 2], places, texts[document])]
            if items:
                held[document] = items
        numbers = range(len(texts))
        return pa.array(map(phrases.get, numbers), PHRASES), pa.array(map(held.get, numbers), HELD)

    def cut(self, texts: pa.LargeStringArray, share: float) -> pa.LargeStringArray:
        """Return texts without the passages that hold items, with the answers that stand near them.

        share: of the phrases of an item that have to be there.
        """
        while True:
            words, ends = word_hashes(texts)
            shorter = dict[int, str]()
            for document, places in self.phrases_in(words, ends):
                of_document = ends[document : document + 2]
                if ranges := [*self.ranges_held(words, of_document, places, share)]:
                    shorter[document] = without_words(texts[document].as_py(), ranges)
            if not shorter:
                return texts
            # What stood on both sides of a passage may be another one by now.
            texts = texts_of(shorter.get(n, text) for n, text in enumerate(texts.to_pylist()))

    def ranges_held(
        self, words: Hashes, ends: NDArray[np.int64], places: Iterable[Place], share: float
    ) -> Iterator[tuple[int, int]]:
        """Yield ranges of the words of a document that hold an item, questions and answers: first, and end."""
        for number, of_item in self.by_item(places).items():
            phrases = self.items.phrases_of(number)
            least = max(min(TWO, len(phrases)), share * len(phrases))
            for passage in self.passages(of_item):
                if len(passage.found) >= least and self.is_answered(number, words, ends, passage):
                    yield passage.start - int(ends[0]), passage.stop - int(ends[0])
                    length = int(self.items.lengths[number])
                    for start in range(*self.near(ends, passage)) if length else ():
                        if holds(words, start, start + length, self.items.answers[number], length):
                            yield start - int(ends[0]), start + length - int(ends[0])

    def phrases_in(self, words: Hashes, ends: NDArray[np.int64]) -> Iterator[tuple[int, list[Place]]]:
        """Yield each document with phrases, and the places of these in their order."""
        rows = list[tuple[int, int, int, int]]()
        for index in self.indexes:
            documents, places, numbers = index.find(words, ends)
            columns = (documents, places, index.lengths[numbers], index.hashes[numbers])
            rows += zip(*(column.tolist() for column in columns), strict=True)
        for document, group in groupby(sorted(rows), key=itemgetter(0)):
            yield document, [Place(*place) for _, *place in group]

    def held(
        self, words: Hashes, ends: NDArray[np.int64], places: Iterable[Place], text: pa.LargeStringScalar
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of which a passage has phrases and the answer. ends: of a document's words."""
        of_words, of_items = list[re.Match[str]](), self.by_item(places)
        for number in sorted(of_items):
            phrases = self.items.phrases_of(number)
            passage = max(self.passages(of_items[number]), key=lambda one: len(one.found))
            if len(passage.found) < min(TWO, len(phrases)) or not self.is_answered(
                number, words, ends, passage
            ):
                continue
            of_words = of_words or words_in(text.as_py())
            first, last = of_words[passage.start - int(ends[0])], of_words[passage.stop - 1 - int(ends[0])]
            yield {
                "set": self.items.names[self.items.sets[number]], "row": int(self.items.rows[number]),
                "found": sorted(passage.found), "phrases": phrases, "at": first.start(),
                "words": shortened(first.string[first.start() : last.end()]),
            }  # fmt: skip

    def by_item(self, places: Iterable[Place]) -> dict[int, list[Place]]:
        """Return the places of phrases by the items that have them."""
        of_items = dict[int, list[Place]]()
        for place in places:
            for number in self.items.owners(place.phrase):
                of_items.setdefault(number, []).append(place)
        return of_items

    def passages(self, places: Iterable[Place]) -> list["Passage"]:
        """Cut the places of an item's phrases where the next is farther than an answer may be."""
        passages = list[Passage]()
        for place in places:
            stop = place.start + place.length
            if passages and place.start <= passages[-1].stop + self.answer_within:
                before = passages[-1]
                passages[-1] = Passage(before.start, max(before.stop, stop), before.found | {place.phrase})
            else:
                passages.append(Passage(place.start, stop, frozenset({place.phrase})))
        return passages

    def is_answered(self, item: int, words: Hashes, ends: NDArray[np.int64], passage: "Passage") -> bool:
        """Say whether the answer of an item stands near a passage of a document."""
        length = int(self.items.lengths[item])
        low, high = self.near(ends, passage)
        return not length or bool(holds(words, low, high, self.items.answers[item], length))

    def near(self, ends: NDArray[np.int64], passage: "Passage") -> tuple[int, int]:
        """Return the words of a document among which the answer to a passage may stand."""
        low = max(int(ends[0]), passage.start - self.answer_within)
        return low, min(int(ends[1]), passage.stop + self.answer_within)


class Passage(NamedTuple):
    """Where phrases of an item stand together, among all words, and the hashes of these."""

    start: int
    stop: int
    found: frozenset[int]


def words_in(text: str) -> list[re.Match[str]]:
    """Return the words of a text as shingles see them: those of which folding leaves something."""
    folded = folded_characters()
    return [
        word
        for word in WORD.finditer(text)
        if any(folded[ord(character)] & ~UNSAFE != DROPPED for character in word[0])
    ]


def without_words(text: str, ranges: Iterable[tuple[int, int]]) -> str:
    """Return a text without some of its words, ranges of their numbers, and what stands between these."""
    words, kept, at, gone = words_in(text), list[str](), 0, 0
    for first, stop in sorted(ranges):
        if first > gone or not kept:
            kept.append(text[at : words[first].start()])
        gone = max(gone, stop)
        at = words[gone - 1].end()
    return "".join([*kept, text[at:]])


def shortened(passage: str) -> str:
    """Return a passage on one line, its beginning where it is long."""
    shown = " ".join(passage.split())
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


@lru_cache(maxsize=2)
def search_for(planned: tuple[PlannedSet, ...], answer_within: int) -> ItemSearch:
    """Read sets, once in a process, and make what looks for their items. Raises BadInput."""
    read = [[*items_of(of_set)] for of_set in planned]
    items, names = (
        [*chain(*read)],
        [one.name for one, of_set in zip(planned, read, strict=True) for _ in of_set],
    )
    asked = np.diff(word_hashes(texts_of(item.question for item in items))[1])
    words, ends = word_hashes(texts_of(f"{item.question} {item.answer or ''}" for item in items))
    answered = np.diff(ends) - asked
    chosen, places, tallies = phrases_in_sets(names, items, asked, answered)
    counts = [*map(len, places)]
    is_long = np.repeat(asked[chosen] >= WIDTH, counts)
    starts = np.array([*chain(*places)], np.int64) + np.repeat(ends[chosen], counts)
    length_of_each = np.where(asked < LEAST, asked + answered, np.minimum(asked, WIDTH))
    lengths = np.repeat(length_of_each[chosen], counts)
    near = np.where(asked[chosen] >= LEAST, np.minimum(answered[chosen], BEGINNING), 0)
    sought = Sought(
        names=[of_set.name for of_set in planned],
        sets=np.array([number for number, of_set in enumerate(read) for _ in of_set])[chosen],
        rows=np.array([item.row for item in items])[chosen],
        phrases=hashes_of(words, starts, lengths),
        ends=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        answers=hashes_of(words, (ends[:-1] + asked)[chosen], near),
        lengths=near,
    )
    indexes = tuple(
        PhraseIndex.of(words, starts[which], lengths[which], width)
        for which, width in ((is_long, WIDTH), (~is_long, LEAST))
    )
    return ItemSearch(sought, indexes, tallies, answer_within)


def phrases_in_sets(
    names: Sequence[str], items: Sequence[Item], asked: NDArray[np.int64], answered: NDArray[np.int64]
) -> tuple[list[int], list[list[int]], dict[str, Tally]]:
    """Choose the items that are looked for; return them, where their phrases begin, and a tally of each set.

    names: of the set of each item. asked, answered: how many words its question and its answer have, (k,). Raises
    BadInput where no item of a set is looked for.
    """
    chosen, places, lacking = list[int](), list[list[int]](), Counter[tuple[str, str]]()
    for number, (name, item) in enumerate(zip(names, items, strict=True)):
        its_places = places_of_phrases(int(asked[number]), int(answered[number]))
        if item.answer is not None and not answered[number]:
            lacking[name, "unanswered"] += 1
        elif not its_places:
            lacking[name, "short"] += 1
        else:
            chosen.append(number)
            places.append(its_places)
    tallies = {
        name: Tally(count, lacking[name, "short"], lacking[name, "unanswered"])
        for name, count in Counter(names).items()
    }
    for name, tally in tallies.items():
        if tally.items == tally.short + tally.unanswered:
            raise BadInput(
                f"set {name}: none of its {tally.items:,} items has an answer and {LEAST} words, to be looked for"
            )
    return chosen, places, tallies


def texts_of(texts: Iterable[str]) -> pa.LargeStringArray:
    return pa.array([*texts], pa.large_string())


def places_of_phrases(asked: int, answered: int) -> list[int]:
    """Return where the phrases begin by which an item is looked for; none where it is too short.

    asked, answered: how many words its question and its answer have.
    """
    if asked >= WIDTH:
        last = asked - WIDTH
        return [*range(last + 1)] if last < MOST else [i * last // (MOST - 1) for i in range(MOST)]
    return [0] if asked >= LEAST or (asked and answered and asked + answered >= LEAST) else []
