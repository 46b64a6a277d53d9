"""Find the words of a text, and add up the rows of words and of their n-grams of characters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.fasttext.hashing import (
    BASIS,
    HEAD,
    LOW,
    MOST_BYTES,
    NUMBER,
    START,
    TAIL,
    are_same,
    ends_of,
    extend_hash,
    find_word,
    first_slot,
    has_word,
)
from zyda_flows.textkernels.fasttext.rows import add_ngrams, add_rows
from zyda_flows.textkernels.swar import prefetch

END = np.frombuffer(b"</s>", np.uint8)  # fastText's word for the end of a line
LABEL = np.frombuffer(b"__label__", np.uint8)  # an unknown word with this prefix is ignored
NO_WORD = -2  # in place of the number of rows


class WordSums(NamedTuple):
    """Sums of the rows of words, each in the slot of its hash. A word is a range of bytes of the current texts."""

    slots: NDArray[np.int64]  # (slots, 4), as in `hashing`; without numbers
    counts: NDArray[np.int64]  # number of added rows, or NO_WORD
    sums: NDArray[np.float32 | np.float64]  # (slots, dim)


class Scratch(NamedTuple):
    """Arrays that are overwritten for each text, and the sum of rows of the end of a line."""

    word: NDArray[np.uint8]  # two bytes more than the longest text has
    found: NDArray[np.int64]  # (WORDS_AHEAD, 3): the next words
    hashes: NDArray[np.int32]  # of the words
    rows: NDArray[np.int64]  # (ROWS_AHEAD,): rows to be added
    total: NDArray[np.float32 | np.float64]  # (dim,): the sum of the rows of a text, and then their mean
    end: NDArray[np.float32 | np.float64]  # (dim,): the sum of the rows of END
    scores: NDArray[np.float32]  # (labels,)
    nodes: NDArray[np.int32]  # (labels + 1,): nodes of the tree that remain to be visited
    node_scores: NDArray[np.float32]  # (labels + 1,)


@njit(cache=True, nogil=True, inline="always")
def is_space(byte):
    """Return whether fastText takes a byte for white space between words."""
    return byte <= 32 and (byte == 32 or byte == 0 or np.uint8(byte - 9) <= 4)


@njit(cache=True, nogil=True, inline="always")
def is_end(data, start, size):
    return size == END.size and are_same(data, start, END, 0, END.size)


@njit(cache=True, nogil=True, inline="always")
def row_of_word(data, start, size, h, settings, words):
    """Return the row of a word, -1 for an unknown word, or NO_WORD for a label."""
    row = (words.slots[find_word(data, start, size, h, words.data, words.slots), NUMBER] & LOW) - 1
    if row >= settings.words:
        return NO_WORD
    if row < 0 and size >= LABEL.size and are_same(data, start, LABEL, 0, LABEL.size):
        return NO_WORD
    return row


@njit(cache=True, nogil=True)
def sum_of_word(data, start, size, h, settings, words, matrix, scratch, total):
    """Write the sum of a word's rows to `total`; return the number of rows, or NO_WORD for a label."""
    total[:] = 0
    row = row_of_word(data, start, size, h, settings, words)
    if row == NO_WORD:
        return NO_WORD
    added = 0
    if row >= 0:
        scratch.rows[0] = row
        add_rows(scratch.rows, 1, matrix, total)
        added = 1
    if settings.longest > 0 and not is_end(data, start, size):
        scratch.word[0] = 60  # <
        scratch.word[1 : size + 1] = data[start : start + size]
        scratch.word[size + 1] = 62  # >
        added += add_ngrams(scratch.word, size + 2, settings, words, matrix, scratch.rows, total)
    return added


@njit(cache=True, nogil=True)
def find_words(data, i, end, words, kept, found):
    """Find the next words from byte i on, as many as `found` has room for; return the next byte and their number.

    found: the first byte, size and hash of each. The slots in which the words are searched are prefetched.
    """
    n = 0
    while i < end and n < found.shape[0]:
        if is_space(data[i]):
            i += 1
            continue
        first, h = i, BASIS
        while i < end and not is_space(data[i]):
            h = extend_hash(h, data[i])
            i += 1
        found[n, 0], found[n, 1], found[n, 2] = first, i - first, h
        prefetch(words.slots, np.uint64(4 * first_slot(h, words.slots)))
        prefetch(kept.slots, np.uint64(4 * kept_slot(h, kept)))
        n += 1
    return i, n


@njit(cache=True, nogil=True, inline="always")
def kept_slot(h, kept):
    return np.int64((h ^ (h >> np.uint32(15))) & np.uint32(kept.counts.size - 1))


@njit(cache=True, nogil=True)
def add_sum(data, start, size, h, settings, words, matrix, kept, scratch):
    """Add the sum of a word's rows to that of the text; return the number of rows, or NO_WORD. The sum is kept."""
    place, (head, tail) = kept_slot(h, kept), ends_of(data, start, size)
    slot, total = kept.slots[place], kept.sums[place]
    if not has_word(slot, data, head, tail, data, start, size):
        slot[HEAD], slot[TAIL], slot[START] = head, tail, start
        slot[NUMBER] = size << 32 if size <= MOST_BYTES else 0
        kept.counts[place] = sum_of_word(data, start, size, h, settings, words, matrix, scratch, total)
    if kept.counts[place] != NO_WORD:
        for column in range(total.size):
            scratch.total[column] += total[column]
    return kept.counts[place]


@njit(cache=True, nogil=True)
def add_words(data, start, end, settings, words, matrix, kept, scratch):
    """Add the rows of a text's words; return the numbers of rows and of words, and whether END was reached."""
    i, count, n, waiting, has_ended = start, 0, 0, 0, False
    while i < end and not has_ended:
        i, found = find_words(data, i, end, words, kept, scratch.found)
        for word in range(found):
            first, size, h = scratch.found[word, 0], scratch.found[word, 1], np.uint32(scratch.found[word, 2])
            if settings.longest > 0:
                added = add_sum(data, first, size, h, settings, words, matrix, kept, scratch)
            else:  # a word has a single row, which is read with the rows of other words
                row = row_of_word(data, first, size, h, settings, words)
                scratch.rows[waiting] = row
                added = row if row == NO_WORD else np.int64(row >= 0)
                waiting += added > 0
            if added == NO_WORD:
                continue
            count += added
            scratch.hashes[n] = np.int32(h)
            n += 1
            if is_end(data, first, size):
                has_ended = True
                break
        add_rows(scratch.rows, waiting, matrix, scratch.total)
        waiting = 0
    return count, n, has_ended
