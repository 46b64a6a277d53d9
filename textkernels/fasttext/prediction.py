"""Predict the labels of texts by a fastText model, with fastText's results, but faster.

The sum of the rows of a word and its n-grams of characters is kept and reused when the word comes again, because
most words of a text came before. So numbers are added in another order than in fastText, and probabilities differ
from fastText's by the rounding of float32.

A text counts as one line, whose end is a word for fastText too. Line breaks within a text count as spaces.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers, text_buffers
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.fasttext.hashing import empty_slots, hash_of
from zyda_flows.textkernels.fasttext.model import HIERARCHICAL, FasttextModel, Matrix, Words
from zyda_flows.textkernels.fasttext.rows import add_word_ngrams, unowned
from zyda_flows.textkernels.fasttext.scores import score_all, search_tree
from zyda_flows.textkernels.fasttext.words import END, NO_WORD, Scratch, WordSums, add_words, sum_of_word

# Slots for sums, and their bytes: larger tables lose more by cache misses than they save.
KEPT_WORDS, KEPT_SIZE = 1 << 15, 1 << 24
WORDS_AHEAD = 64  # words that are found before their sums are read
ROWS_AHEAD = 256  # rows of n-grams that are prefetched before they are added together


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
        scratch.total[:] *= scratch.total.dtype.type(1 / count)
    return count


@njit(cache=True, nogil=True)
def borrow_words(words):
    return Words(
        unowned(words.data), unowned(words.slots), unowned(words.kept), unowned(words.kept_rows),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def borrow_matrix(matrix):
    return Matrix(
        unowned(matrix.numbers), unowned(matrix.codes), unowned(matrix.centroids), unowned(matrix.norm_codes),
        unowned(matrix.norms), matrix.width, matrix.pieces,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def borrow_kept(kept):
    return WordSums(unowned(kept.slots), unowned(kept.counts), unowned(kept.sums))


@njit(cache=True, nogil=True)
def borrow_scratch(scratch):
    return Scratch(
        unowned(scratch.word), unowned(scratch.found), unowned(scratch.hashes), unowned(scratch.rows),
        unowned(scratch.total), unowned(scratch.end), unowned(scratch.scores), unowned(scratch.nodes),
        unowned(scratch.node_scores),
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
    end = END, 0, len(END), np.uint32(hash_of(END, 0, len(END)))  # the type of hashes within kernels
    end_count = sum_of_word(*end, model.settings, model.words, model.matrix, scratch, scratch.end)
    arrays = model.settings, model.words, model.matrix, model.output, model.children
    _predict(data, offsets, arrays, kept, scratch, end_count, best_labels, probabilities)
    return best_labels, probabilities


def probabilities_of(model: FasttextModel, texts: pa.LargeStringArray) -> NDArray[np.float32]:
    """Return fastText's probability of each label, in their order: (n, labels), 0 where fastText returns none.

    As in fastText, 1e-5 is added to each.
    """
    labels, best = predict(model, texts, len(model.labels))
    probabilities = np.zeros((len(texts), len(model.labels) + 1), np.float32)
    np.put_along_axis(probabilities, labels, best, axis=1)  # the column -1 is for labels that are missing
    return probabilities[:, :-1]


def _kept_for(model: FasttextModel, size: int) -> WordSums:
    """Return empty slots for the sums of words. size: bytes of all texts."""
    dim = model.settings.dim
    words = max(1, min(KEPT_WORDS, KEPT_SIZE // (4 * dim), size // 4))
    slots = 1 << (words.bit_length() - 1)
    return WordSums(empty_slots(slots), np.empty(slots, np.int64), np.empty((slots, dim), model.type_of_sums))


def _scratch_for(model: FasttextModel, longest: int) -> Scratch:
    labels, dim = len(model.labels), model.settings.dim
    return Scratch(
        np.empty(longest + len(END) + 2, np.uint8),
        np.empty((WORDS_AHEAD, 3), np.int64),
        np.empty(longest // 2 + 2, np.int32),
        np.empty(ROWS_AHEAD, np.int64),
        np.empty(dim, model.type_of_sums),
        np.empty(dim, model.type_of_sums),
        np.empty(labels, np.float32),
        np.empty(labels + 1, np.int32),
        np.empty(labels + 1, np.float32),
    )
