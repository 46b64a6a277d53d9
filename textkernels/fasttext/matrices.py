"""The input matrix in the form that is fastest: multiplied by the output matrix, or expanded to numbers.

The score of a label is a product with the mean of rows, and so the mean of the products of the rows. If a model has
few labels, a row of products is short: for two labels, a word or an n-gram costs 8 bytes of memory, not 400.
Products are computed and added in float64, in the same order on each machine.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.fasttext.hashing import NUMBER, START
from zyda_flows.textkernels.fasttext.model import NO_BYTES, NO_NUMBERS, FasttextModel, Matrix
from zyda_flows.textkernels.fasttext.rows import add_rows

LINE = 64  # bytes of a cache line
EXPANDED_SIZE = 1 << 28  # bytes: a smaller quantised matrix is expanded to float32, which is far faster
# An expanded matrix is at most this multiple of its file: fastText's pieces of two columns expand eight times.
EXPANDED_TIMES = 64


@njit(cache=True, nogil=True)
def _expand(codes, centroids, norm_codes, norms, width, rows):
    """Write the rows of a quantised matrix as numbers. rows: (n, dim) float32."""
    dim = rows.shape[1]
    pieces = (dim + width - 1) // width
    for row in range(rows.shape[0]):
        norm = norms[norm_codes[row]] if norm_codes.size else np.float32(1)
        for piece in range(pieces):
            first = piece * width
            size = min(width, dim - first)
            centroid = 256 * first + size * codes[row * pieces + piece]
            for column in range(size):
                rows[row, first + column] = norm * centroids[centroid + column]


@njit(cache=True, nogil=True)
def _multiply(matrix, columns, products):
    """Write the products of all rows. columns: the output matrix, transposed, float64. products: (rows, labels)."""
    row, values = np.zeros(1, np.int64), np.empty(columns.shape[0], np.float32)
    totals = np.empty(columns.shape[1], np.float64)
    for i in range(products.shape[0]):
        row[0], values[:], totals[:] = i, 0, 0
        add_rows(row, 1, matrix, values)
        for column in range(values.size):
            value = np.float64(values[column])
            for label in range(totals.size):
                totals[label] += value * columns[column, label]
        products[i, :] = totals


def fastest(model: FasttextModel, rows: int, size: int) -> FasttextModel:
    """Return a model as it was read with its matrix multiplied or expanded, if that is faster.

    rows: of the input matrix. size: bytes of the file. Multiplied matrices do not exceed it.
    """
    labels, dim = model.output.shape
    if 2 * labels > dim or 4 * rows * labels > size:
        return replace(model, matrix=expanded(model.matrix, rows, dim, size))
    products = np.empty((rows, labels), np.float32)
    _multiply(model.matrix, np.ascontiguousarray(model.output.T, np.float64), products)
    end = (model.words.slots[:, START] + (model.words.slots[:, NUMBER] >> 32)).max()
    entries = model.words.data[:end].copy()  # so that the file can be freed
    output = np.empty((0, 0), np.float32)
    for array in (products, entries, output):
        array.flags.writeable = False
    numbers = products.reshape(-1).view(np.uint8)
    return replace(
        model,
        settings=model.settings._replace(dim=labels),
        words=model.words._replace(data=entries),
        matrix=Matrix(numbers, NO_BYTES, NO_NUMBERS, NO_BYTES, NO_NUMBERS, labels, 1),
        output=output,
    )


def expanded(matrix: Matrix, rows: int, dim: int, size: int) -> Matrix:
    """Return a matrix with its rows as numbers, unless they are too large. size: bytes of the file."""
    if len(matrix.numbers) or 4 * rows * dim > min(EXPANDED_SIZE, EXPANDED_TIMES * size):
        return matrix
    room = np.empty(4 * rows * dim + LINE, np.uint8)
    first = -room.ctypes.data % LINE  # aligned, so that a row of the size of a cache line lies in one line
    written: NDArray[np.float32] = room[first : first + 4 * rows * dim].view(np.float32).reshape(rows, dim)
    _expand(matrix.codes, matrix.centroids, matrix.norm_codes, matrix.norms, matrix.width, written)
    written.flags.writeable = False
    return matrix._replace(numbers=written.reshape(-1).view(np.uint8))
