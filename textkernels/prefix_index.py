"""An index of bounded size of the shingles of documents, for clusters whose shingles exceed memory.

For a shingle that several documents have, the index returns its members: by a column of bits if it is frequent
(`textkernels.bit_columns`), by a list if it is not (`textkernels.shingle_lists`). A probe looks up the rarest
shingles of a document, or all of them, and returns the members that may contain enough of it. These are candidates:
the texts decide.

A document that contains n shingles of a set A contains at least 1 of any |A| - n + 1 of them (see
`textkernels.set_similarity`). A document that contains m of p shingles that were looked up contains at most
m + |A| - p of A.

The answer is complete if no list is full and all shingles find room. If not, the members that share most are
returned, and a probe counts the other members that can contain enough.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.bit_columns import NO_COLUMN, column_of, make_columns, shared_bits, words_of
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.set_similarity import RARITIES, fewest, rarity, shingles_needed
from zyda_flows.textkernels.sets import SPREAD
from zyda_flows.textkernels.shingle_lists import (
    ShingleLists,
    add_member,
    choice_of,
    choose_hashes,
    counter_of,
    frequencies_of,
    look_up,
)

LEAST_SHINGLES = 64  # shingles of each document in an index without room for all
# A probe with at most this many candidates stops; an incomplete index returns at most this many.
CANDIDATES = 64
CHEAP = 5  # classes of shingles that are always looked up: shingles of fewer than 32 documents
IN_COLUMN = RARITIES - 1  # the class of shingles that have a column
FEWEST = 4  # least documents of a shingle with a column
CHEAPER = 16  # a column costs less than a list of 1/16 of all members


class Bounds(NamedTuple):
    """Bounds of the size of an index.

    entries: of all lists, 9 bytes each; also the bound of the number of lists, 10 bytes each. longest: most members
    in a list. column_bytes: of all rows of bits. words: of rows, which all probes together compare.
    """

    entries: int
    longest: int
    column_bytes: int
    words: int


class Members(NamedTuple):
    """The group of each member, ascending, its number of shingles, and two arrays that probes use."""

    groups: NDArray[np.int64]
    sizes: NDArray[np.int64]
    matches: NDArray[np.int32]
    touched: NDArray[np.int32]


@njit(cache=True, nogil=True)
def prefix_of(hashes, classes, sizes, count):
    """Return the class of the last of the `count` rarest hashes, and the greatest `choice_of` among them in it."""
    last = 0
    while last < RARITIES - 1 and count > sizes[last]:
        count -= sizes[last]
        last += 1
    if CHEAP < last < IN_COLUMN and count < sizes[last]:
        return last, np.sort(choice_of(hashes[classes == last]))[count - 1]
    return max(last, CHEAP), np.uint64(2**64 - 1)


@njit(cache=True, nogil=True)
def classes_of(hashes, counters, columns):
    """Return the class of each hash, by `rarity` or IN_COLUMN, and the size of each class."""
    classes, sizes = np.empty(hashes.size, np.uint8), np.zeros(RARITIES, np.int64)
    for j in range(hashes.size):
        frequency = counters[counter_of(counters, hashes[j])]
        has_column = frequency > columns.above and column_of(columns, hashes[j]) != NO_COLUMN
        classes[j] = IN_COLUMN if has_column else rarity(frequency)
        sizes[classes[j]] += 1
    return classes, sizes


@njit(cache=True, nogil=True)
def best_members(viable, matches, most):
    """Return the `most` members with most matches, in ascending order; of equal members, the first added.

    viable: (n,), ascending.
    """
    if viable.size <= most:
        return viable
    counts = np.zeros(matches[viable].max() + 1, np.int64)
    for member in viable:
        counts[matches[member]] += 1
    least, above = counts.size - 1, 0  # above: number of members with more than `least` matches
    while above + counts[least] < most:
        above += counts[least]
        least -= 1
    best_candidates, count, equal = np.empty(most, viable.dtype), 0, most - above
    for member in viable:
        if matches[member] > least or (matches[member] == least and equal > 0):
            equal -= matches[member] == least
            best_candidates[count] = member
            count += 1
    return best_candidates


@njit(cache=True, nogil=True)
def _viable(touched, members, size, share, is_jaccard, unknown, full, reach):
    """Return the members that can contain enough, ascending.

    unknown: number of shingles that any member may have. full: number of shingles that members after `reach` may
    have.
    """
    viable, count = np.empty(touched.size, touched.dtype), 0
    for member in touched:
        most = members.matches[member] + unknown + (full if member > reach else 0)
        if min(most, members.sizes[member]) >= shingles_needed(
            share, is_jaccard, size, members.sizes[member]
        ):
            viable[count] = member
            count += 1
    return np.sort(viable[:count])


@njit(cache=True, nogil=True)
def _count_columns(touched, members, hashes, columns, size, share, is_jaccard, unknown):
    """Count the shared hashes in columns for each of some members that can contain enough."""
    words, places = words_of(columns, hashes)
    for member in touched:
        most = members.matches[member] + hashes.size + unknown
        if min(most, members.sizes[member]) >= shingles_needed(
            share, is_jaccard, size, members.sizes[member]
        ):
            members.matches[member] += shared_bits(columns, member, words, places)


@njit(cache=True, nogil=True)
def _probe(hashes, earlier, counters, columns, lists, members, share, is_jaccard, is_whole):
    """Return candidates for some hashes among the first `earlier` members, and the number of other candidates."""
    size = hashes.size
    classes, sizes = classes_of(hashes, counters, columns)
    last, limit = prefix_of(hashes, classes, sizes, size - fewest(share, size) + 1)
    found = skipped = full = 0
    reach = earlier
    touched = members.touched
    for is_second in (False, True):
        for j in range(size):
            is_late = classes[j] > last or (classes[j] == last and choice_of(hashes[j]) > limit)
            skipped += is_late and not is_second
            if classes[j] == 0 or classes[j] == IN_COLUMN or is_late != is_second:
                continue
            found = look_up(hashes[j], lists, members, earlier, found)
            place = (hashes[j] * SPREAD) >> lists.shift
            if lists.lengths[place] == lists.longest:
                full += 1
                reach = min(reach, lists.members[lists.tails[place]])
        if not is_second and last < IN_COLUMN and is_whole and full == 0:
            viable = _viable(touched[:found], members, size, share, is_jaccard, skipped, 0, 0)
            if viable.size <= CANDIDATES:
                members.matches[touched[:found]] = 0
                return viable, 0
    # If the first look-ups were in columns, or the index is incomplete, members without a match can contain enough.
    is_complete = is_whole and full == 0
    if last == IN_COLUMN or not is_complete:
        found = earlier
        touched[:found] = np.arange(found)
    unknown = 0 if is_whole else size
    in_columns = hashes[classes == IN_COLUMN]
    _count_columns(touched[:found], members, in_columns, columns, size, share, is_jaccard, unknown + full)
    viable = _viable(touched[:found], members, size, share, is_jaccard, unknown, full, reach)
    best_candidates = viable if is_complete else best_members(viable, members.matches, CANDIDATES)
    members.matches[touched[:found]] = 0
    return best_candidates, viable.size - best_candidates.size


@dataclass
class RareIndex:
    """An index of members, which are numbered from 0 as they are added.

    counters: (2**COUNTER_BITS,) uint16 or a smaller power of two, filled by `count_shingles`. documents: the number
    of documents that will be probed. most: members at most. It takes 128 MiB of counters, and the sizes in
    `bounds`.
    """

    counters: NDArray[np.uint16]
    documents: int
    most: int
    bounds: Bounds

    def __post_init__(self) -> None:
        bounds, frequencies = self.bounds, frequencies_of(self.counters)
        above, words = self.columns_for(frequencies)
        self.columns = make_columns(above, self.most, words)
        lengths = np.minimum(np.arange(len(frequencies)), bounds.longest)
        wanted = int((lengths * frequencies)[2 : above + 1].sum())
        self.part = min(
            1.0, bounds.entries / max(1, wanted)
        )  # share of a document's shingles that are indexed
        # Two shingles that share a counter may need more entries than counted.
        room = min(wanted + wanted // 8 + LEAST_SHINGLES, bounds.entries + LEAST_SHINGLES * self.most)
        bits = max(4, min(room, bounds.entries).bit_length())
        heads, tails = np.empty(1 << bits, np.int32), np.empty(1 << bits, np.int32)
        self.lists = ShingleLists(
            np.uint64(64 - bits), bounds.longest, heads, tails, np.zeros(1 << bits, np.uint16),
            np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.uint8), np.zeros(1, np.int64),
        )  # fmt: skip
        most = self.most
        self.members = Members(
            np.empty(most, np.int64),
            np.empty(most, np.int64),
            np.zeros(most, np.int32),
            np.empty(most, np.int32),
        )
        self.count = 0

    def columns_for(self, frequencies: NDArray[np.int64]) -> tuple[int, int]:
        """Return the frequency above which shingles get columns, and the number of words in a row."""
        bounds = self.bounds
        pairs = max(1, self.documents * self.most // 2)
        most = min(bounds.column_bytes // (8 * self.most), bounds.words // pairs)
        above = max(FEWEST, min(self.documents // CHEAPER, bounds.longest // 2))
        # rarer[f]: number of shingles that more than f documents have
        rarer = np.append(np.cumsum(frequencies[::-1])[::-1][1:], 0)
        fits = np.flatnonzero(rarer[above:] <= 64 * most)
        above += int(fits[0]) if len(fits) else 0
        wanted = int(rarer[above]) if above < len(rarer) else 0
        # Two shingles that share a counter need two columns.
        return above, min(most, (wanted + wanted // 8 + 63) // 64)

    def add(self, hashes: NDArray[np.uint64], group: int) -> None:
        """Add a member by its distinct hashes, (m,). group: not less than the groups of members before."""
        indexed_hashes = choose_hashes(
            hashes,
            self.counters,
            max(LEAST_SHINGLES, int(self.part * hashes.size)) if self.part < 1 else hashes.size,
        )
        self.members.groups[self.count], self.members.sizes[self.count] = group, hashes.size
        add_member(self.count, indexed_hashes, self.counters, self.columns, self.lists)
        self.count += 1

    def probe(
        self, hashes: NDArray[np.uint64], group: int, share: float, is_jaccard: bool
    ) -> tuple[NDArray[np.int32], int]:
        """Return candidates of smaller groups, (k,), that may contain enough of hashes, and how many others can."""
        earlier = int(np.searchsorted(self.members.groups[: self.count], group))
        is_whole = self.part == 1 and self.lists.used[0] < len(self.lists.members)
        best_candidates, others = _probe(
            hashes,
            earlier,
            self.counters,
            self.columns,
            self.lists,
            self.members,
            share,
            is_jaccard,
            is_whole,
        )
        return best_candidates, int(others)
