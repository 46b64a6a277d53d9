"""Best-fit decreasing packing in linear time, compiled by numba.

Each piece is put into the sequence that it fills best: the sequence with the least sufficient room. Pieces are
taken from the longest to the shortest, as Ding et al. 2024 (arXiv 2404.10830) pack documents. Sequences are kept in
a list for each room, and a bit for each list tells whether it is empty: so a piece takes a few steps, however many
sequences there are.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.swar import trailing_zeros

WORD = 64


def pack(lengths: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], int]:
    """Pack pieces, (n,), of 1 to `size` tokens; return the sequence of each, (n,), and the number of sequences.

    Raises ValueError for an empty piece, or a piece of more than `size` tokens.
    """
    if len(lengths) and not 1 <= lengths.min() <= lengths.max() <= size:
        raise ValueError(f"expected pieces of 1 to {size} tokens, got {lengths.min()} to {lengths.max()}")
    order = np.argsort(-lengths, kind="stable")
    placed, count = pack_in_order(lengths[order], size)
    sequences = np.empty(len(lengths), np.int64)
    sequences[order] = placed
    return sequences, int(count)


@njit(cache=True, nogil=True)
def pack_in_order(lengths, size):
    """Pack pieces of descending length; return the sequence of each, and the number of sequences."""
    words = size // WORD + 1
    has_room = np.zeros(words, np.uint64)  # a bit for each room, set if a sequence has this room
    is_some = np.zeros(words // WORD + 1, np.uint64)  # a bit for each word of has_room, set if it is not 0
    first = np.full(size + 1, -1, np.int64)  # for each room, the sequence that got it last
    after = np.full(len(lengths), -1, np.int64)  # for each sequence, the next one with the same room
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
    """Return the least room of a sequence that is `length` or more, or -1 if no sequence has enough."""
    word = length // WORD
    bits = has_room[word] >> np.uint64(length % WORD)
    if bits:
        return length + np.int64(trailing_zeros(bits))
    above = word + 1
    group = above // WORD
    if group >= len(is_some):
        return -1
    bits = is_some[group] >> np.uint64(above % WORD)
    if bits:
        word = above + np.int64(trailing_zeros(bits))
    else:
        group += 1
        while group < len(is_some) and is_some[group] == 0:
            group += 1
        if group == len(is_some):
            return -1
        word = group * WORD + np.int64(trailing_zeros(is_some[group]))
    return word * WORD + np.int64(trailing_zeros(has_room[word]))
