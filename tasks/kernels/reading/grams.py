"""Which n-grams of tokens come again in a document, of 2 to 10 tokens. Compiled by numba.

An n-gram is a sequence of tokens: two with the same characters that are cut at other places are not the same. It
is known by the numbers of its first n - 1 and of its last n - 1 tokens, and can stand twice only where both of
them do.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

CHARACTERS = 2  # the column of `tokens`, as in tokens.py
Tokens = NDArray[np.uint32]
Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]
TOP_GRAMS, DUPLICATE_GRAMS = (2, 3, 4), (5, 6, 7, 8, 9, 10)
FIRST_DUPLICATES, LONGEST = 5, 10
SPREAD = np.uint64(0x9E3779B97F4A7C15)
ONE, HALF, BITS = np.uint64(1), np.uint64(32), np.uint64(64)
LOW = np.uint64(0xFFFFFFFF)
AGES = (1 << 32) - 16


class GramTable:
    """A hash table that is used again and again, without being cleared: its entries have an age.

    An entry is a key, and the age and the number that the key was given.
    """

    def __init__(self) -> None:
        self.age = 0
        self.entries = np.zeros((0, 2), np.uint64)

    def make_room(self, n: int) -> None:
        """Make the table as large as so many entries need, a third more."""
        size = 16
        while 3 * size < 4 * n:
            size *= 2
        if size > len(self.entries):
            self.entries = np.zeros((size, 2), np.uint64)


@njit(cache=True, nogil=True, inline="always")
def shift_for(n):
    """Return by how much a hash is shifted, so that what is left is a slot of a table for n entries."""
    size, shift = 16, 60
    while 3 * size < 4 * n:
        size *= 2
        shift -= 1
    return np.uint64(shift)


@njit(cache=True, nogil=True, inline="always")
def number_of(key, table, shift, age, fresh):
    """Return the number of a key; if it is new in this round, that is `fresh`."""
    slot, mask = (key * SPREAD) >> shift, (ONE << (BITS - shift)) - ONE
    while (table[slot, 1] >> HALF == age) & (table[slot, 0] != key):
        slot = (slot + ONE) & mask
    entry = table[slot, 1]
    if entry >> HALF == age:
        return entry & LOW
    table[slot, 0], table[slot, 1] = key, age << HALF | fresh
    return fresh


@njit(cache=True, nogil=True)
def number_tokens(tokens, hashes, first, last, table, age, numbers, places, comes_again, sums):
    """Give the tokens of a document numbers and sum up their characters; say which come again."""
    shift, fresh, characters = shift_for(last - first), np.uint64(0), np.uint32(0)
    k = np.uint64(0)
    for t in range(np.uint64(first), np.uint64(last)):
        number = number_of(hashes[t], table, shift, age, fresh)
        comes_again[number] = number != fresh
        fresh += np.uint64(number == fresh)
        numbers[k], places[k], sums[k] = number, k, characters
        characters += tokens[t, CHARACTERS]
        k += ONE
    sums[k] = characters


@njit(cache=True, nogil=True)
def pair_up(count, numbers, places, comes_again, keys):
    """Make the keys of places where two grams stand one after the other that each come again; return how many."""
    n = np.uint64(0)
    if count < 2:
        return 0
    for k in range(np.uint64(count - 1)):
        a, b, place = numbers[k], numbers[k + ONE], places[k]
        is_next = places[k + ONE] == place + np.uint32(1)
        keys[n], places[n] = np.uint64(a) << HALF | np.uint64(b), place
        n += np.uint64(is_next & comes_again[a] & comes_again[b])
    return np.int64(n)


@njit(cache=True, nogil=True)
def top_of(count, keys, places, table, age, numbers, comes_again, times, firsts):
    """Give grams numbers; return how often the most frequent one stands, and where first."""
    shift, fresh = shift_for(count), np.uint64(0)
    for k in range(np.uint64(count)):
        number = number_of(keys[k], table, shift, age, fresh)
        is_new = number == fresh
        comes_again[number] = not is_new
        times[fresh], firsts[fresh] = 0, places[k]
        times[number] += np.uint32(1)
        fresh += np.uint64(is_new)
        numbers[k] = number
    best, place = np.uint32(1), np.uint32(0)
    for number in range(fresh):
        if times[number] > best:
            best, place = times[number], firsts[number]
    return np.int64(best), np.int64(place)


@njit(cache=True, nogil=True)
def duplicates_of(n, count, keys, places, table, age, numbers, comes_again, is_seen, sums):
    """Give n-grams numbers; return the characters of those that stood before, as datatrove counts them.

    It walks over the text; after an n-gram that stood where it walked, the next begins behind it.
    """
    shift, fresh, size = shift_for(count), np.uint64(0), np.uint32(n)
    characters, following = 0, np.uint32(0)
    for k in range(np.uint64(count)):
        number, place = number_of(keys[k], table, shift, age, fresh), places[k]
        is_new = number == fresh
        comes_again[number] = not is_new
        numbers[k] = number
        fresh += np.uint64(is_new)
        if place < following:
            if is_new:
                is_seen[number] = False
        elif is_new or not is_seen[number]:
            is_seen[number] = True
        else:
            characters += np.int64(sums[place + size]) - np.int64(sums[place])
            following = place + size
    return characters


@njit(cache=True, nogil=True)
def _count_grams(tokens, hashes, ends, table, age, counts):
    """Count; return the age of the table."""
    most = 0
    for d in range(ends.size - 1):
        most = max(most, ends[d + 1] - ends[d])
    numbers, places, times = (
        np.empty(most, np.uint32),
        np.empty(most, np.uint32),
        np.empty(most + 1, np.uint32),
    )
    sums, keys, firsts = (
        np.empty(most + 1, np.uint32),
        np.empty(most, np.uint64),
        np.empty(most + 1, np.uint32),
    )
    is_seen, comes_again = np.empty(most + 1, np.bool_), np.empty(most + 1, np.bool_)
    for d in range(ends.size - 1):
        first, last = ends[d], ends[d + 1]
        if age > AGES:
            table[:] = 0
            age = 0
        age += 1
        count = last - first
        number_tokens(tokens, hashes, first, last, table, np.uint64(age), numbers, places, comes_again, sums)
        for n in range(2, LONGEST + 1):
            count = pair_up(count, numbers, places, comes_again, keys)
            age += 1
            if n >= FIRST_DUPLICATES:
                counts[d, n - 2] = duplicates_of(
                    n, count, keys, places, table, np.uint64(age), numbers, comes_again, is_seen, sums
                )
            elif last - first >= n:
                best, place = top_of(
                    count, keys, places, table, np.uint64(age), numbers, comes_again, times, firsts
                )
                counts[d, n - 2] = best * (np.int64(sums[place + n]) - np.int64(sums[place]) + n - 1)
    return age


def count_grams(tokens: Tokens, hashes: Hashes, ends: Places, table: GramTable) -> Places:
    """Count the characters of the most frequent 2-, 3- and 4-grams and of duplicate 5- to 10-grams: (n, 9) int64.

    The most frequent counts all times that it stands, with spaces between its tokens; of ties the first.
    table: is kept for the next documents.
    """
    counts = np.zeros((len(ends) - 1, len(TOP_GRAMS) + len(DUPLICATE_GRAMS)), np.int64)
    table.make_room(int(np.diff(ends).max(initial=0)))
    table.age = _count_grams(tokens, hashes, ends, table.entries, table.age, counts)
    return counts
