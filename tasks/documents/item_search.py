"""The search for items of evaluation sets: which of them a text holds, and what of it says so.

What a shard keeps of a text: the hashes of all phrases in it, each with a hash of the words around, which are
counted over the corpus, and each item of which it has two phrases (or the only one) with the answer near. What is
evidence is decided of these later, when it is known which phrases are frequent (`tasks.documents.contamination`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from unicodedata import unidata_version

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.documents.evaluation_sets import PlannedSet, items_of
from zyda_flows.tasks.documents.item_words import texts_of, word_hashes, word_places
from zyda_flows.tasks.documents.sought_items import Hashes, Sought, Tally, sought_items
from zyda_flows.tasks.limits import limits
from zyda_flows.textkernels.phrases import PhraseIndex, hash_around, hashes_of, places_of

# Of what a search finds: raised when it finds something else. Folding follows Python's Unicode.
VERSION = f"1, Unicode {unidata_version}"
AROUND = 32  # words before a passage and as many behind it, by which copies of it are known
BETWEEN = 8  # words between the halves of a short item, at the most
TWO = 2  # phrases, without which nothing is said of a question that has more than one
SHOWN = 300  # characters of what was found
MARK = pa.field("contamination", pa.list_(pa.string()))  # published where documents are marked
PHRASES = pa.list_(pa.uint64())
SURROUNDED = pa.list_(pa.struct([("phrase", pa.uint64()), ("around", pa.uint64())]))
HELD = pa.list_(
    pa.struct(
        [("set", pa.string()), ("row", pa.int64()), ("found", PHRASES), ("phrases", PHRASES), ("at", pa.int64()),
         ("words", pa.string())]
    )
)  # fmt: skip


class Place(NamedTuple):
    """Where a phrase stands among all words, how many it has, and its hash."""

    start: int
    length: int
    phrase: int


@dataclass(frozen=True)
class ItemSearch:
    """What looks for items. answer_within: how many words before or after a question its answer may stand."""

    items: Sought
    indexes: tuple[PhraseIndex, ...]
    tallies: dict[str, Tally]
    answer_within: int

    def found(self, texts: pa.LargeStringArray) -> tuple[pa.ListArray, pa.ListArray]:
        """Look for items in texts: the phrases of each, and what it holds, null where it has none."""
        words, ends = word_hashes(texts)
        phrases, held = dict[int, list[dict[str, int]]](), dict[int, list[dict[str, Any]]]()
        for document, places in self.phrases_in(words, ends):
            phrases[document] = [*surrounded(words, ends[document : document + 2], places)]
            items = [*self.held(words, ends[document : document + 2], places, texts[document])]
            if items:
                held[document] = items
        numbers = range(len(texts))
        return pa.array(map(phrases.get, numbers), SURROUNDED), pa.array(map(held.get, numbers), HELD)

    def cut(self, texts: pa.LargeStringArray, share: float) -> pa.LargeStringArray:
        """Return texts without the passages that hold items, with the answers that stand near them.

        What stood on both sides of a passage may be another one then, and is cut, too. A text that still holds an
        item after `limits().nested_items` rounds is returned empty. share: the part of an item's phrases that has
        to be there.
        """
        for _ in range(limits().nested_items):
            shorter = self.cut_once(texts, share)
            if not shorter:
                return texts
            texts = texts_of(shorter.get(n, text) for n, text in enumerate(texts.to_pylist()))
        still = self.cut_once(texts, share)
        return texts_of("" if n in still else text for n, text in enumerate(texts.to_pylist()))

    def cut_once(self, texts: pa.LargeStringArray, share: float) -> dict[int, str]:
        """Return the texts that hold items without them, by their numbers."""
        words, ends = word_hashes(texts)
        shorter = dict[int, str]()
        for document, places in self.phrases_in(words, ends):
            of_document = ends[document : document + 2]
            if ranges := [*self.ranges_held(words, of_document, places, share)]:
                shorter[document] = without_words(texts[document].as_py(), ranges)
        return shorter

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
                    for start in self.answers(number, words, ends, passage):
                        yield start - int(ends[0]), start + length - int(ends[0])

    def phrases_in(self, words: Hashes, ends: NDArray[np.int64]) -> Iterator[tuple[int, list[Place]]]:
        """Yield each document with phrases, and the places of these in their order."""
        rows = list[tuple[int, Place]]()
        for index in self.indexes:
            documents, places, numbers = index.find(words, ends)
            columns = (documents, places, index.lengths[numbers], index.hashes[numbers])
            for document, *place in zip(*(column.tolist() for column in columns), strict=True):
                rows += (
                    (document, one) for one in self.complete(words, ends[document : document + 2], *place)
                )
        for document, group in groupby(sorted(rows), key=itemgetter(0)):
            yield document, [place for _, place in group]

    def complete(
        self, words: Hashes, ends: NDArray[np.int64], start: int, length: int, found: int
    ) -> Iterator[Place]:
        """Yield the phrases of items that what was found in a document is, or is the longer half of."""
        if found not in self.items.halves or self.items.owners(found):
            yield Place(start, length, found)
        for (is_before, size), others in self.items.halves.get(found, {}).items():
            low, high = (
                (start - BETWEEN - size, start - size)
                if is_before
                else (start + length, start + length + BETWEEN)
            )
            places = np.arange(max(low, ends[0]), min(high, ends[1] - size) + 1)
            for place, half in zip(
                places, hashes_of(words, places, np.full(len(places), size)).tolist(), strict=True
            ):
                if half in others:
                    begun, end = min(start, int(place)), max(start + length, int(place) + size)
                    yield Place(begun, end - begun, others[half])

    def held(
        self, words: Hashes, ends: NDArray[np.int64], places: Iterable[Place], text: pa.LargeStringScalar
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of which a passage has phrases and the answer. ends: of a document's words."""
        content, of_words, of_items = "", list[tuple[int, int]](), self.by_item(places)
        for number in sorted(of_items):
            phrases = self.items.phrases_of(number)
            passage = max(self.passages(of_items[number]), key=lambda one: len(one.found))
            if len(passage.found) < min(TWO, len(phrases)) or not self.is_answered(
                number, words, ends, passage
            ):
                continue
            content = content or text.as_py()
            of_words = of_words or word_places(content)
            first, last = passage.start - int(ends[0]), passage.stop - int(ends[0])
            at, stop = characters(content, of_words, first, last)
            yield {
                "set": self.items.names[self.items.sets[number]], "row": int(self.items.rows[number]),
                "found": sorted(passage.found), "phrases": phrases, "at": at,
                "words": shortened(content[at:stop]),
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
        """Say whether the answer of an item stands near a passage of a document, besides being in the question."""
        found = self.answers(item, words, ends, passage)
        return not self.items.lengths[item] or len(found) > self.items.repeated[item]

    def answers(self, item: int, words: Hashes, ends: NDArray[np.int64], passage: "Passage") -> list[int]:
        """Return where the answer of an item stands near a passage of a document."""
        length = int(self.items.lengths[item])
        low, high = self.near(ends, passage)
        found: list[int] = (
            places_of(words, low, high, self.items.answers[item], length).tolist() if length else []
        )
        return found

    def near(self, ends: NDArray[np.int64], passage: "Passage") -> tuple[int, int]:
        """Return the words of a document among which the answer to a passage may stand."""
        low = max(int(ends[0]), passage.start - self.answer_within)
        return low, min(int(ends[1]), passage.stop + self.answer_within)


class Passage(NamedTuple):
    """Where phrases of an item stand together, among all words, and the hashes of these."""

    start: int
    stop: int
    found: frozenset[int]


def surrounded(words: Hashes, ends: NDArray[np.int64], places: Iterable[Place]) -> Iterator[dict[str, int]]:
    """Yield the phrases of a document, each with a hash of the words around the passage in which it stands."""
    passages, around = list[tuple[int, int, set[int]]](), dict[int, int]()
    for start, length, phrase in places:
        begun, stop, phrases = passages.pop() if passages else (start, start, set[int]())
        if start > stop + AROUND:
            passages.append((begun, stop, phrases))
            begun, phrases = start, set()
        phrases.add(phrase)
        passages.append((begun, max(stop, start + length), phrases))
    for start, stop, phrases in passages:
        found = int(hash_around(words, ends[0], start, stop, ends[1], AROUND))
        for phrase in phrases:
            around[phrase] = min(found, around.get(phrase, found))
    return ({"phrase": phrase, "around": found} for phrase, found in sorted(around.items()))


def without_words(text: str, ranges: Iterable[tuple[int, int]]) -> str:
    """Return a text without some of its words, ranges of their numbers, and what stands between these."""
    words, kept, at, cut = word_places(text), list[str](), 0, 0
    for first, last in sorted(ranges):
        start, stop = characters(text, words, first, last)
        if first > cut or not kept:
            kept.append(text[at:start])
        at, cut = max(at, stop), max(cut, last)
    return "".join([*kept, text[at:]])


def characters(text: str, words: Sequence[tuple[int, int]], first: int, stop: int) -> tuple[int, int]:
    """Return where some words of a text begin and end, with the punctuation at them. stop: after the last word."""
    low, high = words[first - 1][1] if first else 0, words[stop][0] if stop < len(words) else len(text)
    (begun, _), (_, end) = words[first], words[stop - 1]
    while begun > low and not text[begun - 1].isspace():
        begun -= 1
    while end < high and not text[end].isspace():
        end += 1
    return begun, end


def shortened(passage: str) -> str:
    """Return a passage on one line, its beginning where it is long."""
    shown = " ".join(passage.split())
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


@lru_cache(maxsize=2)
def search_for(planned: tuple[PlannedSet, ...], answer_within: int) -> ItemSearch:
    """Read sets, once in a process, and make what looks for their items. Raises BadInput."""
    return ItemSearch(*sought_items([(one.name, [*items_of(one)]) for one in planned]), answer_within)
