"""Columns of bits for frequent shingles: a row of bits for each member of an index. Compiled by numba.

A list of the members that have a frequent shingle is long, and each probe reads it. A bit for each member costs
less: 64 shingles of two documents are compared at once. A shingle gets a column when the first member with it is
added.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.sets import FREE, slot_of, table_for
from zyda_flows.textkernels.swar import bits_set

NO_COLUMN = -1


class Columns(NamedTuple):
    """The columns, with a row of bits for each member.

    above: shingles of more documents than this get a column, while a column is free. keys, shift: a hash table of
    the shingles. numbers: the column of each key. used: (1,), the number of columns in use. rows: (members, words)
    uint64.
    """

    above: int
    keys: NDArray[np.uint64]
    shift: np.uint64
    numbers: NDArray[np.int32]
    used: NDArray[np.int64]
    rows: NDArray[np.uint64]


def make_columns(above: int, members: int, words: int) -> Columns:
    """Return empty columns, 64 for each of `words` words of a row."""
    keys, shift = table_for(64 * words)
    rows = np.zeros((members, words), np.uint64)
    return Columns(above, keys, shift, np.empty(keys.size, np.int32), np.zeros(1, np.int64), rows)


@njit(cache=True, nogil=True, inline="always")
def column_of(columns, value):
    """Return the column of a shingle, or NO_COLUMN."""
    slot = slot_of(columns.keys, columns.shift, value)
    return columns.numbers[slot] if columns.keys[slot] == value else NO_COLUMN


@njit(cache=True, nogil=True)
def set_bit(columns, member, value):
    """Set a member's bit of a shingle, in a new column if one is free. Return False without a column."""
    slot = slot_of(columns.keys, columns.shift, value)
    if columns.keys[slot] == FREE:
        if columns.used[0] == 64 * columns.rows.shape[1]:
            return False
        columns.keys[slot], columns.numbers[slot] = value, columns.used[0]
        columns.used[0] += 1
    number = columns.numbers[slot]
    columns.rows[member, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    return True


@njit(cache=True, nogil=True)
def words_of(columns, hashes):
    """Return the words of a document's row that are not zero, and their positions in the row: (w,) each."""
    row = np.zeros(columns.rows.shape[1], np.uint64)
    for value in hashes:
        number = column_of(columns, value)
        if number != NO_COLUMN:
            row[number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    places = np.flatnonzero(row)
    return row[places], places


@njit(cache=True, nogil=True)
def shared_bits(columns, member, words, places):
    """Count the columns in which a member's row and the given words both have a bit."""
    count = np.int64(0)
    for j in range(places.size):
        count += np.int64(bits_set(columns.rows[member, places[j]] & words[j]))
    return count
