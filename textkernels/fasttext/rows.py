"""Rows of the input matrix of a fastText model: the rows of n-grams, and their sums."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.fasttext.hashing import BASIS, extend_hash
from zyda_flows.textkernels.swar import bits_set, prefetch

MULTIPLIER = np.uint64(116049371)  # of the hash of an n-gram of words
LINE = 64  # bytes of a cache line
ONE = np.float32(1)
BIT, SIX, SIXTY_THREE = np.uint64(1), np.uint64(6), np.uint64(63)


@intrinsic
def unowned(typing_context, array):
    """Return an array without its owner, so that numba counts no references: that took half of the time.

    The caller of the kernel must hold the array until the kernel returns.
    """

    def generate(context, builder, signature, arguments):
        whole = context.make_array(array)(context, builder, arguments[0])
        for owner in ("meminfo", "parent"):
            setattr(whole, owner, cgutils.get_null_value(getattr(whole, owner).type))
        return whole._getvalue()

    return array(array), generate


def sum_of_columns(width):
    """Return a function that adds rows of a matrix to a sum, in `width` columns from a given column on.

    numbers: float32 as bytes, possibly unaligned. rows: the first `count` are added, in this order. total: float32,
    or float64 for an exact sum.
    """

    @intrinsic
    def add(typing_context, numbers, rows, count, column, total):
        def generate(context, builder, signature, arguments):
            numbers, rows, total = (
                context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 1, 4)
            )
            count, column = arguments[2:4]
            vector = ir.VectorType(ir.FloatType(), width)
            wide = ir.VectorType(context.get_data_type(signature.args[4].dtype), width)
            number = ir.FloatType().as_pointer()
            dim = total.nitems
            place = builder.bitcast(builder.gep(total.data, [column]), wide.as_pointer())
            first = builder.load(place, align=4)
            matrix = builder.gep(builder.bitcast(numbers.data, number), [column])
            sums = cgutils.alloca_once_value(builder, first)  # LLVM keeps it in registers
            with cgutils.for_range(builder, count) as loop:
                row = builder.load(builder.gep(rows.data, [loop.index]))
                values = builder.bitcast(builder.gep(matrix, [builder.mul(row, dim)]), vector.as_pointer())
                values = builder.load(values, align=1)
                values = values if wide == vector else builder.fpext(values, wide)
                builder.store(builder.fadd(builder.load(sums), values), sums)
            builder.store(builder.load(sums), place, align=4)
            return context.get_dummy_value()

        return types.void(numbers, rows, types.int64, types.int64, total), generate

    return add


add_16_columns, add_4_columns, add_column = sum_of_columns(16), sum_of_columns(4), sum_of_columns(1)


@njit(cache=True, nogil=True)
def add_quantised(rows, count, matrix, total):
    """Add the first `count` rows of a quantised matrix that was not expanded to a sum."""
    dim = total.size
    for row in rows[:count]:
        norm = matrix.norms[matrix.norm_codes[row]] if matrix.norm_codes.size else ONE
        for piece in range(matrix.pieces):
            first = piece * matrix.width
            size = min(matrix.width, dim - first)
            centroid = 256 * first + size * np.int64(matrix.codes[row * matrix.pieces + piece])
            for column in range(size):
                total[first + column] += norm * matrix.centroids[centroid + column]


@njit(cache=True, nogil=True)
def add_rows(rows, count, matrix, total):
    """Add the first `count` rows of the input matrix to a sum."""
    if not matrix.numbers.size:
        add_quantised(rows, count, matrix, total)
        return
    column = 0
    while column + 16 <= total.size:
        add_16_columns(matrix.numbers, rows, count, column, total)
        column += 16
    while column + 4 <= total.size:
        add_4_columns(matrix.numbers, rows, count, column, total)
        column += 4
    while column < total.size:
        add_column(matrix.numbers, rows, count, column, total)
        column += 1


@njit(cache=True, nogil=True, inline="always")
def row_of(bucket, settings, words):
    """Return the row of an n-gram, and whether it has a row. bucket: uint64, the hash modulo their number."""
    if settings.pruned < 0:
        return settings.words + np.int64(bucket), 1
    if settings.pruned == 0:
        return np.int64(0), 0
    line, place = bucket >> SIX, bucket & SIXTY_THREE
    bits = words.kept[line, 0]
    is_kept = np.int64((bits >> place) & BIT)
    before = np.int64(words.kept[line, 1] + bits_set(bits & ((BIT << place) - BIT)))
    # A pruned bucket has no row: any row will do here, which avoids an unpredictable branch.
    return settings.words + words.kept_rows[before * is_kept], is_kept


@njit(cache=True, nogil=True)
def add_ngrams(word, size, settings, words, matrix, rows, total):
    """Add the rows of the character n-grams of a word, with `<` and `>` around it; return the number of rows.

    rows: scratch.
    """
    added, waiting, buckets = 0, 0, np.uint32(settings.buckets)
    for first in range(size):
        if word[first] & 0xC0 == 0x80:  # not the first byte of a character
            continue
        if waiting > rows.size - settings.longest:
            add_rows(rows, waiting, matrix, total)
            added, waiting = added + waiting, 0
        h, i, length = BASIS, first, 0
        while i < size and length < settings.longest:
            h = extend_hash(h, word[i])
            i += 1
            while i < size and word[i] & 0xC0 == 0x80:
                h = extend_hash(h, word[i])
                i += 1
            length += 1
            if length >= settings.shortest and not (length == 1 and (first == 0 or i == size)):
                row, has_row = row_of(np.uint64(h % buckets), settings, words)
                prefetch(matrix.numbers, np.uint64(4 * settings.dim * row))
                rows[waiting] = row
                waiting += has_row
    add_rows(rows, waiting, matrix, total)
    return added + waiting


@njit(cache=True, nogil=True)
def add_word_ngrams(hashes, settings, words, matrix, rows, total):
    """Add the rows of the n-grams of two or more words; return the number of rows.

    hashes: of the words, int32; fastText's are signed. rows: scratch.
    """
    added, waiting, buckets = 0, 0, np.uint64(settings.buckets)
    row_bytes = 4 * settings.dim
    for first in range(hashes.size):
        h = np.uint64(np.int64(hashes[first]))
        for i in range(first + 1, min(hashes.size, first + settings.word_ngrams)):
            h = h * MULTIPLIER + np.uint64(np.int64(hashes[i]))
            row, has_row = row_of(h % buckets, settings, words)
            if matrix.numbers.size:
                for line in range(row * row_bytes, (row + 1) * row_bytes, LINE):
                    prefetch(matrix.numbers, np.uint64(line))
            rows[waiting] = row
            waiting += has_row
            if waiting == rows.size:
                add_rows(rows, waiting, matrix, total)
                added, waiting = added + waiting, 0
    add_rows(rows, waiting, matrix, total)
    return added + waiting
