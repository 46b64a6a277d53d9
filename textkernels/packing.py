"""Best-fit decreasing packing in linear time, compiled by numba.

Each piece goes into the sequence that it fills best: the one with the least room among those with room enough.
Pieces are taken from the longest to the shortest, as Ding et al. 2024 (arXiv 2404.10830) pack documents. Sequences
are found by their room, in lists with bits that say which are not empty, so that a piece costs a few steps however
many there are.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

WORD = 64


def pack(lengths: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], int]:
    """Pack pieces, (n,) with 1 to `size` tokens each: the sequence of each, (n,), and how many of `size` there are.

    Raises ValueError for a piece of nothing, or of more than `size`.
    """
    if len(lengths) and not 1 <= lengths.min() <= lengths.max() <= size:
        raise ValueError(f"pieces have 1 to {size} tokens")
    order = np.argsort(-lengths, kind="stable")
    placed, count = pack_in_order(lengths[order], size)
    sequences = np.empty(len(lengths), np.int64)
    sequences[order] = placed
    return sequences, int(count)


@njit(cache=True, nogil=True)
def pack_in_order(lengths, size):
    """Pack pieces that descend in length: the sequence of each, and how many there are."""
    words = size // WORD + 1
    has_room = np.zeros(words, np.uint64)  # a bit for each room that a sequence has
    is_some = np.zeros(words // WORD + 1, np.uint64)  # a bit for each word that is not 0
    first = np.full(size + 1, -1, np.int64)  # the sequence with this room that came last
    after = np.full(len(lengths), -1, np.int64)  # the next with the same room
    placed = np.empty(len(lengths), np.int64)
    count = 0
    for i in range(len(lengths)):
        length = lengths[i]
        room = least_room(has_room, is_some, length)
        if room < 0:
            sequence, room = count, size
            count += 1
        else:
            sequence = first[room]
            first[room] = after[sequence]
            if first[room] < 0:
                clear_bit(has_room, is_some, room)
        placed[i] = sequence
        left = room - length
        if left > 0:
            after[sequence] = first[left]
            first[left] = sequence
            has_room[left // WORD] |= np.uint64(1) << np.uint64(left % WORD)
            is_some[left // WORD // WORD] |= np.uint64(1) << np.uint64(left // WORD % WORD)
    return placed, count


@njit(cache=True, nogil=True)
def clear_bit(has_room, is_some, room):
    word = room // WORD
    has_room[word] &= ~(np.uint64(1) << np.uint64(room % WORD))
    if has_room[word] == 0:
        is_some[word // WORD] &= ~(np.uint64(1) << np.uint64(word % WORD))


@njit(cache=True, nogil=True)
def least_room(has_room, is_some, length):
    """Return the least room of a sequence that is `length` or more, -1 where there is none."""
    word = length // WORD
    bits = has_room[word] >> np.uint64(length % WORD)
    if bits:
        return length + trailing_zeros(bits)
    above = word + 1
    group = above // WORD
    if group >= len(is_some):
        return -1
    bits = is_some[group] >> np.uint64(above % WORD)
    if bits:
        word = above + trailing_zeros(bits)
    else:
        group += 1
        while group < len(is_some) and is_some[group] == 0:
            group += 1
        if group == len(is_some):
            return -1
        word = group * WORD + trailing_zeros(is_some[group])
    return word * WORD + trailing_zeros(has_room[word])


@njit(cache=True, nogil=True)
def trailing_zeros(bits):
    count = 0
    while not bits & np.uint64(1):
        bits >>= np.uint64(1)
        count += 1
    return count
