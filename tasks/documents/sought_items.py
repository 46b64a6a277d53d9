"""The items of evaluation sets that are looked for, and the phrases by which each is found.

An item is a question with its answer. A question of WIDTH words or more is looked for by MOST of its phrases of
WIDTH words at the most, evenly spaced; one of LEAST or more as a whole. A shorter question is looked for together
with its answer: where both have WIDTH words, each half in its place with at most BETWEEN words between them; where
both have LEAST, one behind the other. Items with fewer words are not looked for.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.documents.evaluation_sets import Item
from zyda_flows.tasks.documents.item_words import texts_of, word_hashes
from zyda_flows.tasks.errors import BadInput
from zyda_flows.textkernels.phrases import PhraseIndex, hashes_of, places_of

WIDTH, LEAST, MOST = 8, 6, 16
HALF = WIDTH // 2  # words that the longer half of a short item has at the least
BEGINNING = 8  # words of an answer that are looked for

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Tally:
    """How many items a set has, and how many of them are not looked for: too short, or without an answer."""

    items: int = 0
    short: int = 0
    unanswered: int = 0


class Other(NamedTuple):
    """Where the shorter half of an item stands beside the longer one, and of how many words it is."""

    is_before: bool
    length: int


class Words(NamedTuple):
    """The words of questions with answers. ends: of each item, (n + 1,). asked, answered: how many words, (n,)."""

    hashes: Hashes
    ends: NDArray[np.int64]
    asked: NDArray[np.int64]
    answered: NDArray[np.int64]


Halves = dict[int, dict[Other, dict[int, int]]]


@dataclass(frozen=True)
class Sought:
    """Items that are looked for, as arrays.

    names: of the sets. sets, rows: of each item, its set and its row there, (k,). phrases: the hashes of all their
    phrases, (p,) uint64, those of an item up to its `ends`, (k + 1,). answers: their hashes, (k,) uint64. lengths:
    of the answers in words, 0 where none is to be found, (k,). repeated: how often the question itself has the
    answer, (k,). halves: by the hash of the longer half of a short item, by place and hash of the other half, the
    hash of both: the item's phrase.
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
        """Return the items that have a phrase."""
        first, last = (
            int(np.searchsorted(self.ascending, np.uint64(phrase), side)) for side in ("left", "right")
        )
        places = self.order[first:last]
        return sorted({*(np.searchsorted(self.ends, places, side="right") - 1).tolist()})

    def phrases_of(self, item: int) -> list[int]:
        found: list[int] = self.phrases[self.ends[item] : self.ends[item + 1]].tolist()
        return found


def sought_items(
    read: Sequence[tuple[str, Sequence[Item]]],
) -> tuple[Sought, tuple[PhraseIndex, ...], dict[str, Tally]]:
    """Return the items of sets that are looked for, indexes of their phrases, and a tally of each set.

    read: the sets with their items. Raises BadInput where no item of a set is looked for.
    """
    items = [item for _, its_items in read for item in its_items]
    names = [name for name, its_items in read for _ in its_items]
    words = words_of(items)
    chosen, places, tallies = phrases_in_sets(names, items, words)
    asked, answered, ends = words.asked[chosen], words.answered[chosen], words.ends[:-1][chosen]
    counts = [*map(len, places)]
    starts = np.array([*chain(*places)], np.int64) + np.repeat(ends, counts)
    of_both = asked + np.minimum(answered, BEGINNING)
    lengths = np.repeat(np.where(asked < LEAST, of_both, np.minimum(asked, WIDTH)), counts)
    hashes = hashes_of(words.hashes, starts, lengths)
    near = np.where(asked >= LEAST, np.minimum(answered, BEGINNING), 0)
    answers = hashes_of(words.hashes, ends + asked, near)
    is_split = (asked < LEAST) & (asked + answered >= WIDTH)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    keys, key_lengths, halves = halved(words.hashes, ends[is_split], asked[is_split], of_both[is_split])
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
    return (
        Sought(
            names=[name for name, _ in read],
            sets=np.array([number for number, (_, its_items) in enumerate(read) for _ in its_items])[chosen],
            rows=np.array([item.row for item in items])[chosen],
            phrases=hashes,
            ends=first,
            answers=answers,
            lengths=near,
            repeated=np.array(
                [
                    len(places_of(words.hashes, start, start + size, answer, length)) if length else 0
                    for start, size, answer, length in zip(ends, asked, answers, near, strict=True)
                ]
            ),
            halves=halves,
        ),
        indexes,
        tallies,
    )


def words_of(items: Iterable[Item]) -> Words:
    """Return the words of questions and answers."""
    texts = texts_of(chain.from_iterable((item.question, item.answer or "") for item in items))
    hashes, ends = word_hashes(texts)
    return Words(hashes, ends[::2], np.diff(ends)[::2], np.diff(ends)[1::2])


def halved(
    words: Hashes, starts: NDArray[np.int64], asked: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Halves]:
    """Split short items into question and answer.

    starts, lengths: of question with answer. Returns the places and lengths of the longer halves, and the others.
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
        halves.setdefault(key, {}).setdefault(Other(is_before, length), {})[half] = both
    return *longer, halves


def phrases_in_sets(
    names: Sequence[str], items: Sequence[Item], words: Words
) -> tuple[list[int], list[list[int]], dict[str, Tally]]:
    """Choose the items that are looked for; return them, where their phrases begin, and a tally of each set.

    names: of the set of each item. Raises BadInput where no item of a set is looked for.
    """
    chosen, places, lacking = list[int](), list[list[int]](), Counter[tuple[str, str]]()
    for number, (name, item) in enumerate(zip(names, items, strict=True)):
        its_places = places_of_phrases(int(words.asked[number]), int(words.answered[number]))
        if item.answer is not None and not words.answered[number]:
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


def places_of_phrases(asked: int, answered: int) -> list[int]:
    """Return where the phrases begin by which an item is looked for; none where it is too short.

    asked, answered: how many words its question and its answer have.
    """
    if asked >= WIDTH:
        last = asked - WIDTH
        return [*range(last + 1)] if last < MOST else [i * last // (MOST - 1) for i in range(MOST)]
    return [0] if asked >= LEAST or (asked and answered and asked + answered >= LEAST) else []
