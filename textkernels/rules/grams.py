"""Count the n-grams of tokens that are repeated in a document, for n from 2 to 10. Compiled by numba.

An n-gram is a sequence of tokens; equal characters with other cuts are another n-gram. An n-gram is identified by
the numbers of its first n - 1 and of its last n - 1 tokens, and can be repeated only if both of these are.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.counts import Counts, named_counts

CHARACTERS = 2  # the column of `tokens`, as in tokens.py
Tokens = NDArray[np.uint32]
Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]
TOP_GRAMS, DUPLICATE_GRAMS = (2, 3, 4), (5, 6, 7, 8, 9, 10)
FIRST_DUPLICATES, LONGEST = 5, 10
GRAMS = named_counts(
    *(f"top_{n}_grams" for n in TOP_GRAMS), *(f"duplicate_{n}_grams" for n in DUPLICATE_GRAMS)
)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
ZERO, ONE, HALF, BITS = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(64)
FEWEST_SLOTS = 16
# Least slots for each key: with 2, counting takes 4 % longer, with 4/3, 8 %.
SLOTS_A_KEY = 4


@njit(cache=True, nogil=True, inline="always")
def shift_for(n):
    """Return the shift that maps a hash to a slot of a table for n keys."""
    size, shift = FEWEST_SLOTS, 60
    while size < SLOTS_A_KEY * n:
        size *= 2
        shift -= 1
    return np.uint64(shift)


@njit(cache=True, nogil=True, inline="always")
def cleared(slots, shift):
    """Return an empty table of the size that belongs to a shift."""
    table = slots[: ONE << (BITS - shift)]
    table[:] = 0
    return table


@njit(cache=True, nogil=True, inline="always")
def number_of(key, table, shift, keys, fresh):
    """Return the number of a key, which is `fresh` if it is new. An entry of the table is a number plus 1."""
    slot, mask = (key * SPREAD) >> shift, np.uint64(table.size) - ONE
    entry = np.uint64(table[slot])
    while entry != ZERO and keys[entry - ONE] != key:
        slot = (slot + ONE) & mask
        entry = np.uint64(table[slot])
    number = fresh if entry == ZERO else entry - ONE
    table[slot], keys[number] = np.uint32(number + ONE), key  # also if it is not new: faster than a branch
    return number


@njit(cache=True, nogil=True)
def number_tokens(tokens, hashes, first, last, table, shift, known, numbers, places, comes_again, sums):
    """Assign numbers to a document's tokens, sum up their characters, and mark the tokens that are repeated."""
    fresh, characters, k = ZERO, np.uint32(0), ZERO
    for t in range(np.uint64(first), np.uint64(last)):
        number = number_of(hashes[t], table, shift, known, fresh)
        comes_again[number] = number != fresh
        fresh += np.uint64(number == fresh)
        numbers[k], places[k], sums[k] = number, k, characters
        characters += tokens[t, CHARACTERS]
        k += ONE
    sums[k] = characters


@njit(cache=True, nogil=True)
def pair_up(count, numbers, places, comes_again, keys):
    """Write the keys of positions of two consecutive grams that are both repeated; return the number of keys."""
    n = ZERO
    if count < 2:
        return 0
    for k in range(np.uint64(count - 1)):
        a, b, place = numbers[k], numbers[k + ONE], places[k]
        is_next = places[k + ONE] == place + np.uint32(1)
        keys[n], places[n] = np.uint64(a) << HALF | np.uint64(b), place
        n += np.uint64(is_next & comes_again[a] & comes_again[b])
    return np.int64(n)


@njit(cache=True, nogil=True)
def number_pairs(count, keys, places, table, shift, known, numbers, comes_again, times, firsts):
    """Assign numbers to the grams; return the number of distinct grams.

    For each it writes whether it is repeated, how many times it occurs, and its first position.
    """
    fresh = ZERO
    for k in range(np.uint64(count)):
        number = number_of(keys[k], table, shift, known, fresh)
        is_new = number == fresh
        comes_again[number] = not is_new
        times[fresh], firsts[fresh] = 0, places[k]
        times[number] += np.uint32(1)
        fresh += np.uint64(is_new)
        numbers[k] = number
    return fresh


@njit(cache=True, nogil=True)
def top_of(grams, times, firsts):
    """Return how many times the most frequent gram occurs, and its first position."""
    best, place = np.uint32(1), np.uint32(0)
    for number in range(grams):
        if times[number] > best:
            best, place = times[number], firsts[number]
    return np.int64(best), np.int64(place)


@njit(cache=True, nogil=True)
def duplicates_of(n, count, grams, numbers, places, is_seen, sums):
    """Return the characters of repeated n-grams, as datatrove counts them.

    The text is read once. After a repeated n-gram, the next may begin only behind it.
    """
    is_seen[:grams] = False
    size, characters, following = np.uint32(n), 0, np.uint32(0)
    for k in range(np.uint64(count)):
        number, place = numbers[k], places[k]
        if place >= following:
            if is_seen[number]:
                characters += np.int64(sums[place + size]) - np.int64(sums[place])
                following = place + size
            is_seen[number] = True
    return characters


@njit(cache=True, nogil=True)
def _count_grams(tokens, hashes, ends, counts):
    most = 1
    for d in range(ends.size - 1):
        most = max(most, ends[d + 1] - ends[d])
    slots = np.empty(ONE << (BITS - shift_for(most)), np.uint32)
    keys, known = np.empty(most, np.uint64), np.empty(most, np.uint64)
    numbers, places = np.empty(most, np.uint32), np.empty(most, np.uint32)
    times, firsts = np.empty(most + 1, np.uint32), np.empty(most + 1, np.uint32)
    comes_again, is_seen = np.empty(most, np.bool_), np.empty(most, np.bool_)
    sums = np.empty(most + 1, np.uint32)
    for d in range(ends.size - 1):
        first, last = ends[d], ends[d + 1]
        count = last - first
        shift = shift_for(count)
        table = cleared(slots, shift)
        number_tokens(tokens, hashes, first, last, table, shift, known, numbers, places, comes_again, sums)
        for n in range(2, LONGEST + 1):
            count = pair_up(count, numbers, places, comes_again, keys)
            shift = shift_for(count)
            table = cleared(slots, shift)
            grams = number_pairs(
                count, keys, places, table, shift, known, numbers, comes_again, times, firsts
            )
            if n >= FIRST_DUPLICATES:
                counts[d, n - 2] = duplicates_of(n, count, grams, numbers, places, is_seen, sums)
            elif last - first >= n:
                best, place = top_of(grams, times, firsts)
                counts[d, n - 2] = best * (np.int64(sums[place + n]) - np.int64(sums[place]) + n - 1)


def count_grams(tokens: Tokens, hashes: Hashes, ends: Places) -> Counts:
    """Count GRAMS of each document, (n,): characters of the most frequent n-gram, and of repeated n-grams.

    The most frequent n-gram counts for each occurrence, with spaces between its tokens; of ties the first.
    """
    counts = np.zeros((len(ends) - 1, LONGEST - 1), np.int64)  # column n - 2: of n-grams
    _count_grams(tokens, hashes, ends, counts)
    return counts.view(GRAMS)[:, 0]
