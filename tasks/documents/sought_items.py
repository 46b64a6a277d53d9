"""The items of evaluation sets to search for, and the phrases that identify each.

An item is a question with its answer. A question of WIDTH words or more is identified by at most MOST of its
phrases of WIDTH words, evenly spaced; a question of LEAST words or more by the whole question. A shorter question
is identified together with its answer: if both have WIDTH words in total, by each half, in order, with at most
BETWEEN words between them; if both have LEAST words in total, by the answer directly after the question. Items with
fewer words are not searched for.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.documents.evaluation_sets import EvaluationItem
from zyda_flows.tasks.documents.item_words import texts_of, word_hashes
from zyda_flows.tasks.errors import BadInput
from zyda_flows.textkernels.phrases import PhraseIndex, hashes_of, places_of

WIDTH, LEAST, MOST = 8, 6, 16
HALF = WIDTH // 2  # lowest number of words of the longer half of a short item
BEGINNING = 8  # words of an answer that are compared

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class SetCounts:
    """The number of items of a set, and the numbers of items that are too short or have no answer."""

    items: int = 0
    short: int = 0
    unanswered: int = 0


class OtherHalf(NamedTuple):
    """The shorter half of an item: whether it is before the longer half, and its number of words."""

    is_before: bool
    length: int


class ItemWords(NamedTuple):
    """The words of questions with answers. ends: of each item, (n + 1,). asked, answered: word counts, (n,)."""

    hashes: Hashes
    ends: NDArray[np.int64]
    asked: NDArray[np.int64]
    answered: NDArray[np.int64]


Halves = dict[int, dict[OtherHalf, dict[int, int]]]


@dataclass(frozen=True)
class SearchedItems:
    """The items to search for, as arrays.

    names: of the sets. sets, rows: the set of each item and its row in the set, (k,). phrases: the hashes of all
    phrases, (p,) uint64, in the order of items, whose `ends` are (k + 1,). answers: the hashes of answers, (k,)
    uint64. lengths: of the answers in words, 0 for items without an answer to compare, (k,). repeated: the number
    of occurrences of the answer in the question, (k,). halves: by the hash of the longer half of a short item, by
    the position and the hash of the other half, the hash of both: the item's phrase.
    """

    names: Sequence[str]
    sets: NDArray[np.int64]
    rows: NDArray[np.int64]
    phrases: Hashes
    ends: NDArray[np.int64]
    answers: Hashes
    lengths: NDArray[np.int64]
    repeated: NDArray[np.int64]
    halves: Halves

    @cached_property
    def order(self) -> NDArray[np.int64]:
        return np.argsort(self.phrases, kind="stable")

    @cached_property
    def ascending(self) -> Hashes:
        return self.phrases[self.order]

    def owners(self, phrase: int) -> list[int]:
        """Return the numbers of the items with a phrase."""
        first, last = (
            int(np.searchsorted(self.ascending, np.uint64(phrase), side)) for side in ("left", "right")
        )
        places = self.order[first:last]
        return sorted({*(np.searchsorted(self.ends, places, side="right") - 1).tolist()})

    def phrases_of(self, item: int) -> list[int]:
        phrases: list[int] = self.phrases[self.ends[item] : self.ends[item + 1]].tolist()
        return phrases


def collect_items(
    sets: Sequence[tuple[str, Sequence[EvaluationItem]]],
) -> tuple[SearchedItems, tuple[PhraseIndex, ...], dict[str, SetCounts]]:
    """Return the items to search for, the indexes of their phrases, and counts by set.

    sets: the names of sets with their items. Raises BadInput if no item of a set can be searched for.
    """
    items = [item for _, set_items in sets for item in set_items]
    names = [name for name, set_items in sets for _ in set_items]
    words = words_of(items)
    chosen, places, set_counts = phrases_in_sets(names, items, words)
    asked, answered, begins = words.asked[chosen], words.answered[chosen], words.ends[:-1][chosen]
    counts = [*map(len, places)]
    starts = np.array([*chain(*places)], np.int64) + np.repeat(begins, counts)
    both = asked + np.minimum(answered, BEGINNING)
    lengths = np.repeat(np.where(asked < LEAST, both, np.minimum(asked, WIDTH)), counts)
    answer_lengths = np.where(asked >= LEAST, np.minimum(answered, BEGINNING), 0)
    answers = hashes_of(words.hashes, begins + asked, answer_lengths)
    is_split = (asked < LEAST) & (asked + answered >= WIDTH)
    keys, key_lengths, halves = halve_phrases(words.hashes, begins[is_split], asked[is_split], both[is_split])
    is_long, is_short = (np.repeat(which, counts) for which in (asked >= WIDTH, (asked < WIDTH) & ~is_split))
    indexes = (
        PhraseIndex.of(words.hashes, starts[is_long], lengths[is_long], WIDTH),
        PhraseIndex.of(
            words.hashes,
            np.concatenate([starts[is_short], keys]),
            np.concatenate([lengths[is_short], key_lengths]),
            HALF,
        ),
    )
    searched = SearchedItems(
        names=[name for name, _ in sets],
        sets=np.array([number for number, (_, set_items) in enumerate(sets) for _ in set_items])[chosen],
        rows=np.array([item.row for item in items])[chosen],
        phrases=hashes_of(words.hashes, starts, lengths),
        ends=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        answers=answers,
        lengths=answer_lengths,
        repeated=np.array(
            [
                len(places_of(words.hashes, start, start + size, answer, length)) if length else 0
                for start, size, answer, length in zip(begins, asked, answers, answer_lengths, strict=True)
            ]
        ),
        halves=halves,
    )
    return searched, indexes, set_counts


def words_of(items: Iterable[EvaluationItem]) -> ItemWords:
    """Return the words of questions and answers."""
    texts = texts_of(chain.from_iterable((item.question, item.answer or "") for item in items))
    hashes, ends = word_hashes(texts)
    return ItemWords(hashes, ends[::2], np.diff(ends)[::2], np.diff(ends)[1::2])


def halve_phrases(
    words: Hashes, starts: NDArray[np.int64], asked: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Halves]:
    """Split short items into question and answer.

    starts, lengths: of question with answer. Returns the starts and lengths of the longer halves, and `halves`.
    """
    answered, answers = lengths - asked, starts + asked
    is_answer = answered >= asked
    longer = np.where(is_answer, answers, starts), np.where(is_answer, answered, asked)
    shorter = np.where(is_answer, starts, answers), np.where(is_answer, asked, answered)
    halves: Halves = {}
    hashes = (hashes_of(words, *which).tolist() for which in (longer, shorter, (starts, lengths)))
    for key, half, both, length, is_before in zip(
        *hashes, shorter[1].tolist(), is_answer.tolist(), strict=True
    ):
        halves.setdefault(key, {}).setdefault(OtherHalf(is_before, length), {})[half] = both
    return *longer, halves


def phrases_in_sets(
    names: Sequence[str], items: Sequence[EvaluationItem], words: ItemWords
) -> tuple[list[int], list[list[int]], dict[str, SetCounts]]:
    """Return the numbers of the items to search for, the starts of their phrases, and counts by set.

    names: the set of each item. Raises BadInput if no item of a set can be searched for.
    """
    chosen, places, skipped = list[int](), list[list[int]](), Counter[tuple[str, str]]()
    for number, (name, item) in enumerate(zip(names, items, strict=True)):
        starts = starts_of_phrases(int(words.asked[number]), int(words.answered[number]))
        if item.answer is not None and not words.answered[number]:
            skipped[name, "unanswered"] += 1
        elif not starts:
            skipped[name, "short"] += 1
        else:
            chosen.append(number)
            places.append(starts)
    set_counts = {
        name: SetCounts(count, skipped[name, "short"], skipped[name, "unanswered"])
        for name, count in Counter(names).items()
    }
    for name, counts in set_counts.items():
        if counts.items == counts.short + counts.unanswered:
            raise BadInput(
                f"set {name}: none of its {counts.items:,} items has an answer and at least {LEAST} words, which "
                "the search needs"
            )
    return chosen, places, set_counts


def starts_of_phrases(asked: int, answered: int) -> list[int]:
    """Return the first words of the phrases that identify an item; an empty list for an item that is too short.

    asked, answered: the number of words of the question and of the answer.
    """
    if asked >= WIDTH:
        last = asked - WIDTH
        return [*range(last + 1)] if last < MOST else [i * last // (MOST - 1) for i in range(MOST)]
    return [0] if asked >= LEAST or (asked and answered and asked + answered >= LEAST) else []
