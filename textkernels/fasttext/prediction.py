"""Predict the labels of texts by a fastText model, with fastText's results, but faster.

The sum of the rows of a word and its n-grams is kept and reused when the word comes again, because most words of a
text came before. So numbers are added in another order than in fastText, and probabilities differ from fastText's
by the rounding of float32.

A text counts as one line, whose end is a word for fastText too. Line breaks within a text count as spaces.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers, text_buffers
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.fasttext.hashing import BASIS, LOW, are_same, extend_hash, find_word, hash_of
from zyda_flows.textkernels.fasttext.model import HIERARCHICAL, FasttextModel, Matrix, Words
from zyda_flows.textkernels.fasttext.rows import add_ngrams, add_rows, add_word_ngrams, unowned
from zyda_flows.textkernels.fasttext.scores import score_all, search_tree
from zyda_flows.textkernels.swar import load_8

END = np.frombuffer(b"</s>", np.uint8)  # fastText's word for the end of a line
LABEL = np.frombuffer(b"__label__", np.uint8)  # an unknown word with this prefix is ignored
NO_WORD = -1  # in place of the number of rows
KEPT_WORDS, KEPT_SIZE = (
    1 << 15,
    1 << 24,
)  # slots for sums, and bytes: larger tables lose more by cache misses than they save
ROWS_AHEAD = 256  # rows of n-grams that are prefetched before they are added together


class WordSums(NamedTuple):
    """Sums of the rows of words, each in the slot of its hash. A word is a range of bytes of the current texts."""

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]  # 0 for an empty slot
    counts: NDArray[np.int64]  # number of added rows, or NO_WORD
    sums: NDArray[np.float32]  # (slots, dim)


class Scratch(NamedTuple):
    """Arrays that are overwritten for each text, and the sum of rows of the end of a line."""

    word: NDArray[np.uint8]  # two bytes more than the longest text has
    hashes: NDArray[np.int32]  # of the words
    rows: NDArray[np.int64]  # (ROWS_AHEAD,): rows to be added
    total: NDArray[np.float32]  # (dim,): the sum of the rows of a text, and then their mean
    end: NDArray[np.float32]  # (dim,): the sum of the rows of END
    scores: NDArray[np.float32]  # (labels,)
    nodes: NDArray[np.int32]  # (labels + 1,): nodes of the tree that remain to be visited
    node_scores: NDArray[np.float32]  # (labels + 1,)


@njit(cache=True, nogil=True, inline="always")
def is_space(byte):
    """Return whether fastText takes a byte for white space between words."""
    return byte <= 32 and (byte == 32 or byte == 0 or np.uint8(byte - 9) <= 4)


@njit(cache=True, nogil=True, inline="always")
def is_end(data, start, end):
    return end - start == END.size and are_same(data, start, END, 0, END.size)


@njit(cache=True, nogil=True, inline="always")
def is_kept(data, start, size, slot, kept):
    """Return whether a slot has the sum of this word, which is not empty."""
    first = kept.starts[slot]
    if kept.sizes[slot] != size:
        return False
    if size <= 8 and max(start, first) + 8 <= data.size:  # most words: one comparison
        return (load_8(data, start) ^ load_8(data, first)) << np.uint64(64 - 8 * size) == 0
    return are_same(data, first, data, start, size)


@njit(cache=True, nogil=True)
def sum_of_word(data, start, end, h, settings, words, matrix, scratch, total):
    """Write the sum of a word's rows to `total`; return the number of rows, or NO_WORD for a label."""
    total[:] = 0
    entry = words.slots[find_word(data, start, end, h, words.data, words.starts, words.ends, words.slots)]
    known = np.int64(entry & LOW) - 1
    may_be_label = end - start >= LABEL.size and are_same(data, start, LABEL, 0, LABEL.size)
    if known >= settings.words or (known < 0 and may_be_label):
        return NO_WORD
    added = 0
    if known >= 0:
        scratch.rows[0] = known
        add_rows(scratch.rows, 1, matrix, total)
        added = 1
    if settings.longest > 0 and not is_end(data, start, end):
        size = end - start + 2
        scratch.word[0] = 60  # <
        scratch.word[1 : size - 1] = data[start:end]
        scratch.word[size - 1] = 62  # >
        added += add_ngrams(scratch.word, size, settings, words, matrix, scratch.rows, total)
    return added


@njit(cache=True, nogil=True)
def add_words(data, start, end, settings, words, matrix, kept, scratch):
    """Add the rows of a text's words; return the numbers of rows and of words, and whether END was reached."""
    i, count, n = start, 0, 0
    while i < end:
        if is_space(data[i]):
            i += 1
            continue
        first, h = i, BASIS
        while i < end and not is_space(data[i]):
            h = extend_hash(h, data[i])
            i += 1
        slot = np.int64((h ^ (h >> np.uint32(15))) & np.uint32(kept.sizes.size - 1))
        sum_ = kept.sums[slot]
        if not is_kept(data, first, i - first, slot, kept):
            kept.starts[slot], kept.sizes[slot] = first, i - first
            kept.counts[slot] = sum_of_word(data, first, i, h, settings, words, matrix, scratch, sum_)
        if kept.counts[slot] == NO_WORD:
            continue
        for column in range(sum_.size):
            scratch.total[column] += sum_[column]
        count += kept.counts[slot]
        scratch.hashes[n] = np.int32(h)
        n += 1
        if is_end(data, first, i):
            return count, n, True
    return count, n, False


@njit(cache=True, nogil=True)
def mean_of_text(data, start, end, settings, words, matrix, kept, scratch, end_count):
    """Write the mean of the rows of a text; return the number of rows."""
    scratch.total[:] = 0
    count, n, has_ended = add_words(data, start, end, settings, words, matrix, kept, scratch)
    if not has_ended and end_count != NO_WORD:
        scratch.total[:] += scratch.end
        count += end_count
        scratch.hashes[n] = np.int32(hash_of(END, 0, END.size))
        n += 1
    if settings.word_ngrams > 1:
        count += add_word_ngrams(scratch.hashes[:n], settings, words, matrix, scratch.rows, scratch.total)
    if count:
        scratch.total[:] *= np.float32(1 / count)
    return count


@njit(cache=True, nogil=True)
def borrow_words(words):
    return Words(
        unowned(words.data), unowned(words.starts), unowned(words.ends), unowned(words.slots), unowned(words.kept),
        unowned(words.kept_rows),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def borrow_matrix(matrix):
    return Matrix(
        unowned(matrix.numbers), unowned(matrix.codes), unowned(matrix.centroids), unowned(matrix.norm_codes),
        unowned(matrix.norms), matrix.width, matrix.pieces,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def borrow_kept(kept):
    return WordSums(
        unowned(kept.starts),
        unowned(kept.sizes),
        unowned(kept.counts),
        unowned(kept.sums),
    )


@njit(cache=True, nogil=True)
def borrow_scratch(scratch):
    return Scratch(
        unowned(scratch.word), unowned(scratch.hashes), unowned(scratch.rows), unowned(scratch.total),
        unowned(scratch.end), unowned(scratch.scores), unowned(scratch.nodes), unowned(scratch.node_scores),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def label_texts(
    data, offsets, settings, words, matrix, output, children, kept, scratch, end_count, labels, scores
):
    """Write the best labels of texts and their probabilities, as many as the arrays have room for."""
    for text in range(offsets.size - 1):
        count = mean_of_text(
            data, offsets[text], offsets[text + 1], settings, words, matrix, kept, scratch, end_count
        )
        if not count:
            continue
        if settings.loss == HIERARCHICAL:
            found = search_tree(
                scratch.total,
                output,
                children,
                scratch.nodes,
                scratch.node_scores,
                labels[text],
                scores[text],
            )
        else:
            found = score_all(
                scratch.total, output, settings.loss, scratch.scores, labels[text], scores[text]
            )
        for place in range(found):
            scores[text, place] = np.exp(scores[text, place])


@njit(cache=True, nogil=True)
def _predict(data, offsets, model, kept, scratch, end_count, labels, probabilities):
    settings, words, matrix, output, children = model
    label_texts(
        unowned(data), unowned(offsets), settings, borrow_words(words), borrow_matrix(matrix), unowned(output),
        unowned(children), borrow_kept(kept), borrow_scratch(scratch), end_count, unowned(labels),
        unowned(probabilities),
    )  # fmt: skip


def predict(
    model: FasttextModel, texts: pa.LargeStringArray, k: int = 1
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the k best labels of texts, the best first, and their probabilities.

    Both are (n, k): indices into `model.labels`, int32, and float32. Where fastText would return fewer labels, they
    are -1 and 0. A null counts as an empty text. Raises ValueError for a k below 1.
    """
    if k < 1:
        raise ValueError(f"k: expected 1 or more labels, got {k}")
    data, offsets = text_buffers(texts)
    check_buffers(data, offsets)
    best_labels = np.full((len(offsets) - 1, k), -1, np.int32)
    probabilities = np.zeros((len(offsets) - 1, k), np.float32)
    longest = int(np.diff(offsets).max(initial=0))
    kept, scratch = _kept_for(model, int(offsets[-1] - offsets[0])), _scratch_for(model, longest)
    end = END, 0, len(END), hash_of(END, 0, len(END))
    end_count = sum_of_word(*end, model.settings, model.words, model.matrix, scratch, scratch.end)
    arrays = model.settings, model.words, model.matrix, model.output, model.children
    _predict(data, offsets, arrays, kept, scratch, end_count, best_labels, probabilities)
    return best_labels, probabilities


def _kept_for(model: FasttextModel, size: int) -> WordSums:
    """Return empty slots for the sums of words. size: bytes of all texts."""
    dim = model.settings.dim
    words = max(1, min(KEPT_WORDS, KEPT_SIZE // (4 * dim), size // 4))
    slots = 1 << (words.bit_length() - 1)
    starts, sizes, counts = (np.zeros(slots, np.int64) for _ in range(3))
    return WordSums(starts, sizes, counts, np.empty((slots, dim), np.float32))


def _scratch_for(model: FasttextModel, longest: int) -> Scratch:
    labels, dim = model.output.shape
    return Scratch(
        np.empty(longest + len(END) + 2, np.uint8),
        np.empty(longest // 2 + 2, np.int32),
        np.empty(ROWS_AHEAD, np.int64),
        np.empty(dim, np.float32),
        np.empty(dim, np.float32),
        np.empty(labels, np.float32),
        np.empty(labels + 1, np.int32),
        np.empty(labels + 1, np.float32),
    )
