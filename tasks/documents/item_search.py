"""The search for items of evaluation sets in texts.

A shard stores for each text: the hashes of all phrases in it, each with a hash of the words around it, which are
counted over the corpus; and each item of which the text contains two phrases (or the only one) with the answer near
them. A later stage decides which phrases are too frequent to count (`tasks.documents.contamination`).
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
from zyda_flows.tasks.documents.sought_items import Hashes, SearchedItems, SetCounts, collect_items
from zyda_flows.tasks.limits import limits
from zyda_flows.textkernels.phrases import PhraseIndex, hash_around, hashes_of, places_of

# Raised when the results of the search change. Case folding follows Python's Unicode version.
VERSION = f"1, Unicode {unidata_version}"
WORDS_AROUND = 32  # words before and after a passage by which copies of the passage are identified
WORDS_BETWEEN = 8  # highest number of words between the halves of a short item
LEAST_PHRASES = 2  # lowest number of matching phrases of a question with several phrases
SHOWN_CHARACTERS = 300  # characters of a matching passage in the evidence
MARK_FIELD = pa.field("contamination", pa.list_(pa.string()))  # published if documents are marked
PHRASES = pa.list_(pa.uint64())
SURROUNDED = pa.list_(pa.struct([("phrase", pa.uint64()), ("around", pa.uint64())]))
HELD = pa.list_(
    pa.struct(
        [("set", pa.string()), ("row", pa.int64()), ("found", PHRASES), ("phrases", PHRASES), ("at", pa.int64()),
         ("words", pa.string())]
    )
)  # fmt: skip


class PhrasePlace(NamedTuple):
    """A phrase in a document: its first word among all words, its number of words, and its hash."""

    start: int
    length: int
    phrase: int


@dataclass(frozen=True)
class ItemSearch:
    """A search for items. answer_within: the highest distance of an answer to its question, in words."""

    items: SearchedItems
    indexes: tuple[PhraseIndex, ...]
    counts: dict[str, SetCounts]
    answer_within: int

    def run(self, texts: pa.LargeStringArray) -> tuple[pa.ListArray, pa.ListArray]:
        """Return the phrases in each text, SURROUNDED, and its items, HELD: (n,), null for none."""
        words, ends = word_hashes(texts)
        phrases, held = dict[int, list[dict[str, int]]](), dict[int, list[dict[str, Any]]]()
        for document, places in self.phrases_in(words, ends):
            phrases[document] = [*with_surroundings(words, ends[document : document + 2], places)]
            items = [*self.held_items(words, ends[document : document + 2], places, texts[document])]
            if items:
                held[document] = items
        numbers = range(len(texts))
        return pa.array(map(phrases.get, numbers), SURROUNDED), pa.array(map(held.get, numbers), HELD)

    def cut(self, texts: pa.LargeStringArray, share: float) -> pa.LargeStringArray:
        """Return texts without the passages that contain items, and without the answers near them.

        Words on both sides of a cut may form another item, which is cut, too. A text that still contains an item
        after `limits().nested_items` rounds is returned empty.

        share: the lowest share of an item's phrases in a passage.
        """
        for _ in range(limits().nested_items):
            shorter = self.cut_once(texts, share)
            if not shorter:
                return texts
            texts = texts_of(shorter.get(n, text) for n, text in enumerate(texts.to_pylist()))
        still_matching = self.cut_once(texts, share)
        return texts_of("" if n in still_matching else text for n, text in enumerate(texts.to_pylist()))

    def cut_once(self, texts: pa.LargeStringArray, share: float) -> dict[int, str]:
        """Return the texts with items, without these items, by the number of the text."""
        words, ends = word_hashes(texts)
        shorter = dict[int, str]()
        for document, places in self.phrases_in(words, ends):
            document_ends = ends[document : document + 2]
            if ranges := [*self.ranges_held(words, document_ends, places, share)]:
                shorter[document] = without_words(texts[document].as_py(), ranges)
        return shorter

    def ranges_held(
        self, words: Hashes, ends: NDArray[np.int64], places: Iterable[PhrasePlace], share: float
    ) -> Iterator[tuple[int, int]]:
        """Yield ranges of a document's words, (first, stop), that contain questions and answers of items."""
        for number, item_places in self.by_item(places).items():
            phrases = self.items.phrases_of(number)
            least = max(min(LEAST_PHRASES, len(phrases)), share * len(phrases))
            for passage in self.passages(item_places):
                if len(passage.phrases) >= least and self.is_answered(number, words, ends, passage):
                    yield passage.start - int(ends[0]), passage.stop - int(ends[0])
                    length = int(self.items.lengths[number])
                    for start in self.answers(number, words, ends, passage):
                        yield start - int(ends[0]), start + length - int(ends[0])

    def phrases_in(self, words: Hashes, ends: NDArray[np.int64]) -> Iterator[tuple[int, list[PhrasePlace]]]:
        """Yield the number of each document with phrases, and the places of its phrases in order."""
        rows = list[tuple[int, PhrasePlace]]()
        for index in self.indexes:
            documents, places, numbers = index.find(words, ends)
            columns = (documents, places, index.lengths[numbers], index.hashes[numbers])
            for document, *place in zip(*(column.tolist() for column in columns), strict=True):
                document_ends = ends[document : document + 2]
                rows += ((document, phrase) for phrase in self.complete(words, document_ends, *place))
        for document, group in groupby(sorted(rows), key=itemgetter(0)):
            yield document, [place for _, place in group]

    def complete(
        self, words: Hashes, ends: NDArray[np.int64], start: int, length: int, phrase: int
    ) -> Iterator[PhrasePlace]:
        """Yield the phrases of items for a match in a document, which is a phrase or the longer half of one."""
        if phrase not in self.items.halves or self.items.owners(phrase):
            yield PhrasePlace(start, length, phrase)
        for (is_before, size), others in self.items.halves.get(phrase, {}).items():
            low, high = (
                (start - WORDS_BETWEEN - size, start - size)
                if is_before
                else (start + length, start + length + WORDS_BETWEEN)
            )
            places = np.arange(max(low, ends[0]), min(high, ends[1] - size) + 1)
            for place, half in zip(
                places, hashes_of(words, places, np.full(len(places), size)).tolist(), strict=True
            ):
                if half in others:
                    first, end = min(start, int(place)), max(start + length, int(place) + size)
                    yield PhrasePlace(first, end - first, others[half])

    def held_items(
        self,
        words: Hashes,
        ends: NDArray[np.int64],
        places: Iterable[PhrasePlace],
        text: pa.LargeStringScalar,
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of which a passage has phrases and the answer. ends: of a document's words."""
        content, content_words, item_places = "", list[tuple[int, int]](), self.by_item(places)
        for number in sorted(item_places):
            phrases = self.items.phrases_of(number)
            passage = max(self.passages(item_places[number]), key=lambda passage: len(passage.phrases))
            has_phrases = len(passage.phrases) >= min(LEAST_PHRASES, len(phrases))
            if not has_phrases or not self.is_answered(number, words, ends, passage):
                continue
            content = content or text.as_py()
            content_words = content_words or word_places(content)
            first, last = passage.start - int(ends[0]), passage.stop - int(ends[0])
            at, stop = characters(content, content_words, first, last)
            yield {
                "set": self.items.names[self.items.sets[number]], "row": int(self.items.rows[number]),
                "found": sorted(passage.phrases), "phrases": phrases, "at": at,
                "words": shorten_passage(content[at:stop]),
            }  # fmt: skip

    def by_item(self, places: Iterable[PhrasePlace]) -> dict[int, list[PhrasePlace]]:
        """Return the places of phrases by the number of the items that have the phrase."""
        by_item = dict[int, list[PhrasePlace]]()
        for place in places:
            for number in self.items.owners(place.phrase):
                by_item.setdefault(number, []).append(place)
        return by_item

    def passages(self, places: Iterable[PhrasePlace]) -> list["Passage"]:
        """Return passages of an item's phrases whose distance is at most `answer_within` words."""
        passages = list[Passage]()
        for place in places:
            stop = place.start + place.length
            if passages and place.start <= passages[-1].stop + self.answer_within:
                before = passages[-1]
                passages[-1] = Passage(before.start, max(before.stop, stop), before.phrases | {place.phrase})
            else:
                passages.append(Passage(place.start, stop, frozenset({place.phrase})))
        return passages

    def is_answered(self, item: int, words: Hashes, ends: NDArray[np.int64], passage: "Passage") -> bool:
        """Return whether the answer of an item is near a passage, besides its occurrences in the question."""
        answers = self.answers(item, words, ends, passage)
        return not self.items.lengths[item] or len(answers) > self.items.repeated[item]

    def answers(self, item: int, words: Hashes, ends: NDArray[np.int64], passage: "Passage") -> list[int]:
        """Return the first words of an item's answers near a passage of a document."""
        length = int(self.items.lengths[item])
        if not length:
            return []
        low, high = self.near(ends, passage)
        starts: list[int] = places_of(words, low, high, self.items.answers[item], length).tolist()
        return starts

    def near(self, ends: NDArray[np.int64], passage: "Passage") -> tuple[int, int]:
        """Return the range of a document's words that may contain the answer to a passage."""
        low = max(int(ends[0]), passage.start - self.answer_within)
        return low, min(int(ends[1]), passage.stop + self.answer_within)


class Passage(NamedTuple):
    """A range of words with phrases of an item, among all words, and the hashes of these phrases."""

    start: int
    stop: int
    phrases: frozenset[int]


def with_surroundings(
    words: Hashes, ends: NDArray[np.int64], places: Iterable[PhrasePlace]
) -> Iterator[dict[str, int]]:
    """Yield the phrases of a document, each with a hash of the words around its passage."""
    passages, around = list[tuple[int, int, set[int]]](), dict[int, int]()
    for start, length, phrase in places:
        first, stop, phrases = passages.pop() if passages else (start, start, set[int]())
        if start > stop + WORDS_AROUND:
            passages.append((first, stop, phrases))
            first, phrases = start, set()
        phrases.add(phrase)
        passages.append((first, max(stop, start + length), phrases))
    for start, stop, phrases in passages:
        context = int(hash_around(words, ends[0], start, stop, ends[1], WORDS_AROUND))
        for phrase in phrases:
            around[phrase] = min(context, around.get(phrase, context))
    return ({"phrase": phrase, "around": context} for phrase, context in sorted(around.items()))


def without_words(text: str, ranges: Iterable[tuple[int, int]]) -> str:
    """Return a text without ranges of its words, (first, stop), and without the characters between these words."""
    words, kept, at, cut = word_places(text), list[str](), 0, 0
    for first, last in sorted(ranges):
        start, stop = characters(text, words, first, last)
        if first > cut or not kept:
            kept.append(text[at:start])
        at, cut = max(at, stop), max(cut, last)
    return "".join([*kept, text[at:]])


def characters(text: str, words: Sequence[tuple[int, int]], first: int, stop: int) -> tuple[int, int]:
    """Return the begin and end of a range of words in a text, with adjacent punctuation, in characters."""
    low, high = words[first - 1][1] if first else 0, words[stop][0] if stop < len(words) else len(text)
    (begin, _), (_, end) = words[first], words[stop - 1]
    while begin > low and not text[begin - 1].isspace():
        begin -= 1
    while end < high and not text[end].isspace():
        end += 1
    return begin, end


def shorten_passage(passage: str) -> str:
    """Return a passage on one line; of a long passage, its beginning."""
    shown = " ".join(passage.split())
    return shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[:SHOWN_CHARACTERS]}..."


@lru_cache(maxsize=2)
def search_for(planned: tuple[PlannedSet, ...], answer_within: int) -> ItemSearch:
    """Return the search for the items of sets. The sets are read once in a process. Raises BadInput."""
    sets = [(each.name, [*items_of(each)]) for each in planned]
    return ItemSearch(*collect_items(sets), answer_within)
