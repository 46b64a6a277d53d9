"""Decide which documents of a cluster are duplicates of more preferred documents.

Documents come as sets of shingles (see `textkernels.sets`), cluster after cluster, and the most preferred first in
each. They are tested in this order. A document is removed if a kept document of an earlier group contains the
required share of it: the most preferred of these is its holder. So the result depends on the order of preference
alone.

In a cluster of more than FEW_DOCUMENTS not all pairs are compared, and yet no pair that could decide is missed
(prefix filtering: Chaudhuri et al., "A Primitive Operator for Similarity Joins", ICDE 2006): a document that
contains n shingles of a set A contains at least 1 of any |A| - n + 1 of them. The rarest shingles in the cluster
are chosen, and an inverted index returns the documents that have any of them.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.sets import FREE, in_common, slot_of, table_for, table_of

FEW_DOCUMENTS = 8  # documents of a cluster in which all pairs are compared
MISSING = -1
RARITIES = 32  # classes of shingles, by the binary logarithm of the number of documents that have them
ROUNDING = 1e-9  # 0.7 * 10 is a little more than 7


@njit(cache=True, nogil=True)
def shingles_needed(share, is_jaccard, size, other):
    """Return the number of shingles that a document of `size` must share with a holder of `other`, to be removed.

    |A & K| >= c |A|, or with |A | K| = |A| + |K| - |A & K|, |A & K| >= j (|A| + |K|) / (1 + j).
    """
    share_of_size = share * (size + other) / (1 + share) if is_jaccard else share * size
    return max(1, int(np.ceil(share_of_size - ROUNDING)))


@njit(cache=True, nogil=True)
def fewest(share, size):
    """Return the least number of shingles that a holder of any size must share with a document."""
    return max(1, int(np.ceil(share * size - ROUNDING)))


@njit(cache=True, nogil=True)
def can_share(share, is_jaccard, size, other):
    """Return whether two sets of these sizes can share enough shingles."""
    return min(size, other) >= shingles_needed(share, is_jaccard, size, other)


@njit(cache=True, nogil=True)
def all_pairs(hashes, ends, groups, is_removable, first, last, share, is_jaccard, holders, shared):
    """Decide about the documents from `first` to `last`: compare each with all kept documents before it."""
    for i in range(first, last):
        if not is_removable[i]:
            continue
        document_hashes = hashes[ends[i] : ends[i + 1]]
        has_table = False
        table, shift = hashes[:0], np.uint64(0)
        for k in range(first, i):
            if groups[k] >= groups[i]:
                break
            other = ends[k + 1] - ends[k]
            if holders[k] != MISSING or not can_share(share, is_jaccard, document_hashes.size, other):
                continue
            if not has_table:
                table, shift = table_of(document_hashes)
                has_table = True
            count = in_common(table, shift, hashes[ends[k] : ends[k + 1]])
            if count >= shingles_needed(share, is_jaccard, document_hashes.size, other):
                holders[i], shared[i] = k, count
                break


@njit(cache=True, nogil=True)
def number_hashes(hashes):
    """Assign numbers from 0 to distinct hashes in order of occurrence; return them, and the frequency of each."""
    table, shift = table_for(hashes.size)
    numbers_of_places = np.empty(table.size, np.int32)
    numbers, frequencies = np.empty(hashes.size, np.int32), np.zeros(hashes.size, np.int32)
    count = 0
    for j in range(hashes.size):
        place = slot_of(table, shift, hashes[j])
        if table[place] == FREE:
            table[place] = hashes[j]
            numbers_of_places[place] = count
            count += 1
        numbers[j] = numbers_of_places[place]
        frequencies[numbers[j]] += 1
    return numbers, frequencies[:count]


@njit(cache=True, nogil=True)
def rarity(frequency):
    """Return the class of a shingle by the number of documents that have it: 0 for a single document."""
    bits = 0
    while frequency > 1:
        frequency >>= 1
        bits += 1
    return bits


@njit(cache=True, nogil=True)
def take_rarest(numbers, frequencies, count, taken):
    """Write the `count` rarest numbers to `taken`, by their classes, without numbers of a single document.

    The omitted numbers count towards `count`, because no other document can share them. Returns the count of
    written numbers.
    """
    sizes = np.zeros(RARITIES, np.int64)
    for number in numbers:
        sizes[rarity(frequencies[number])] += 1
    room = np.zeros(RARITIES, np.int64)  # how many of each class are taken
    for bits in range(RARITIES):
        room[bits] = min(sizes[bits], count)
        count -= room[bits]
    room[0] = 0
    written = 0
    for number in numbers:
        bits = rarity(frequencies[number])
        if room[bits] > 0:
            room[bits] -= 1
            taken[written] = number
            written += 1
    return written


@njit(cache=True, nogil=True)
def count_marked(marks, mark, numbers):
    count = 0
    for number in numbers:
        count += marks[number] == mark
    return count


@njit(cache=True, nogil=True)
def prefix_filtered(hashes, ends, groups, is_removable, first, last, share, is_jaccard, holders, shared):
    """Decide as `all_pairs` does, by an index that lists the kept documents of each shingle, as added."""
    start = ends[first]
    numbers, frequencies = number_hashes(hashes[start : ends[last]])
    marks = np.full(frequencies.size, MISSING, np.int32)
    heads, tails = np.full(frequencies.size, MISSING, np.int32), np.empty(frequencies.size, np.int32)
    members, following = np.empty(numbers.size, np.int32), np.empty(numbers.size, np.int32)
    entries = 0
    indexed = first  # kept documents before this one are in the index
    rarest = np.empty(numbers.size, np.int32)
    was_seen = np.full(last - first, MISSING, np.int32)
    candidates = np.empty(last - first, np.int32)
    for i in range(first, last):
        while groups[indexed] < groups[i]:
            if holders[indexed] == MISSING:
                for number in numbers[ends[indexed] - start : ends[indexed + 1] - start]:
                    if frequencies[number] > 1:
                        members[entries], following[entries] = indexed, MISSING
                        if heads[number] == MISSING:
                            heads[number] = entries
                        else:
                            following[tails[number]] = entries
                        tails[number] = entries
                        entries += 1
            indexed += 1
        if not is_removable[i]:
            continue
        document_numbers = numbers[ends[i] - start : ends[i + 1] - start]
        for number in document_numbers:
            marks[number] = i
        least = fewest(share, document_numbers.size)
        count = take_rarest(document_numbers, frequencies, document_numbers.size - least + 1, rarest)
        found = 0
        for number in rarest[:count]:
            entry = heads[number]
            while entry != MISSING:
                k = members[entry]
                if was_seen[k - first] != i:
                    was_seen[k - first] = i
                    candidates[found] = k
                    found += 1
                entry = following[entry]
        for k in np.sort(candidates[:found]):
            other = ends[k + 1] - ends[k]
            if not can_share(share, is_jaccard, document_numbers.size, other):
                continue
            count = count_marked(marks, i, numbers[ends[k] - start : ends[k + 1] - start])
            if count >= shingles_needed(share, is_jaccard, document_numbers.size, other):
                holders[i], shared[i] = k, count
                break


@njit(cache=True, nogil=True)
def _find_duplicates(hashes, ends, groups, is_removable, clusters, share, is_jaccard, holders, shared):
    for c in range(clusters.size - 1):
        first, last = clusters[c], clusters[c + 1]
        if last - first <= FEW_DOCUMENTS:
            all_pairs(hashes, ends, groups, is_removable, first, last, share, is_jaccard, holders, shared)
        else:
            prefix_filtered(
                hashes, ends, groups, is_removable, first, last, share, is_jaccard, holders, shared
            )


def find_duplicates(
    hashes: NDArray[np.uint64],
    ends: NDArray[np.int64],
    groups: NDArray[np.int64],
    is_removable: NDArray[np.bool_],
    clusters: NDArray[np.int64],
    *,
    share: float,
    is_jaccard: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each document, the kept document that makes it a duplicate.

    hashes, ends: the sets of n documents. groups: (n,), ascending in each cluster: a holder has a smaller group
    than its duplicates. is_removable: (n,), the documents that may be removed. clusters: (c + 1,), the position of
    each cluster's first document, then n. share: from 0 to 1, the required Jaccard similarity or, without
    is_jaccard, the required share of a document's shingles.

    Returns (n,) twice: the position of the holder, or MISSING for a kept document, and the number of shared
    shingles.
    """
    holders = np.full(len(groups), MISSING, np.int64)
    shared = np.zeros(len(groups), np.int64)
    _find_duplicates(hashes, ends, groups, is_removable, clusters, share, is_jaccard, holders, shared)
    return holders, shared
