"""Read the files of fastText's supervised models: .bin, and .ftz, which are quantised.

After a magic number and a version come the training's arguments, the dictionary, the input and the output matrix,
all in little-endian numbers (fastText's own reader is its only specification). All numbers that kernels use as
positions are checked here: a damaged file raises ValueError or gives wrong predictions, but never crashes.
"""

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.fasttext.matrices import expanded, fastest
from zyda_flows.textkernels.fasttext.model import (
    HIERARCHICAL,
    NEGATIVE,
    NO_BYTES,
    NO_NUMBERS,
    NOT_PRUNED,
    ONE_VS_ALL,
    SOFTMAX,
    FasttextModel,
    Matrix,
    Settings,
    Words,
)
from zyda_flows.textkernels.fasttext.tables import (
    place_entries,
    table_of_buckets,
    table_of_words,
    tree_of,
)

MAGIC, VERSIONS = 793712314, (11, 12)
SUPERVISED = 3
PREFIX = "__label__"
ENTRY_SIZE = 10  # bytes of an entry with an empty word
CENTROIDS = 256
LONGEST = 100  # n-grams, of characters or words: the work for a text is proportional to it
MOST_BUCKETS = 1 << 27  # for hashes of n-grams in a pruned model, which has a bit for each bucket


class _Reader:
    """The bytes of a file, read from the beginning."""

    def __init__(self, content: Any) -> None:
        self.data = np.frombuffer(content, np.uint8)
        self.data.flags.writeable = False  # for writable arrays numba would compile all kernels once more
        self.at = 0

    def numbers(self, layout: str, part_name: str) -> tuple[Any, ...]:
        """Read numbers in a `struct` layout. part_name: the part of the file, for errors."""
        return struct.unpack(f"<{layout}", self.take(struct.calcsize(f"<{layout}"), part_name).tobytes())

    def take(self, size: int, part_name: str) -> NDArray[np.uint8]:
        """Return the next `size` bytes, without a copy."""
        if size < 0:
            raise ValueError(f"{part_name}: expected a size of 0 or more, got {size} bytes")
        if size > len(self.data) - self.at:
            raise ValueError(
                f"{part_name}: expected {size} bytes from byte {self.at} on, but the file ends at byte "
                f"{len(self.data)}: it is cut short"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def floats(self, count: int, part_name: str) -> NDArray[np.float32]:
        """Return numbers as a new, aligned array."""
        read = np.frombuffer(self.take(4 * count, part_name), "<f4").astype(np.float32)
        read.flags.writeable = False
        return read


class _Dictionary(NamedTuple):
    """The dictionary: its words and labels, and the n-grams that have a row."""

    words: Words
    word_count: int
    labels: tuple[str, ...]
    counts: NDArray[np.int64]  # of the labels
    pruned: int  # as in `Settings`
    kept_rows: int  # number of rows that the kept n-grams need, beside the rows of the words


def read_model(content: Any) -> FasttextModel:
    """Read a model from the bytes of its file: `bytes` or another buffer, such as a memory-mapped file.

    The input matrix of a .bin with many labels is a view of this buffer. Raises ValueError for anything but a
    supervised model of fastText, for a file that is cut short, and for numbers that contradict each other or point
    outside of the file.
    """
    reader = _Reader(content)
    arguments = _read_arguments(reader)
    dictionary = _read_dictionary(reader, arguments["buckets"])
    settings = Settings(words=dictionary.word_count, pruned=dictionary.pruned, **arguments)
    is_quantised = _read_flag(reader, "the input matrix")
    read = _read_quantised if is_quantised else _read_dense
    rows, matrix = read(reader, settings.dim, "the input matrix")
    _check_rows(settings, dictionary.kept_rows, rows, is_quantised=is_quantised)
    output = _read_output(reader, (len(dictionary.labels), settings.dim), may_be_quantised=is_quantised)
    if reader.at != len(reader.data):
        raise ValueError(f"the model ends at byte {reader.at}, but the file at {len(reader.data)}")
    children = tree_of(dictionary.counts) if settings.loss == HIERARCHICAL else np.empty((0, 2), np.int32)
    model = FasttextModel(dictionary.labels, settings, dictionary.words, matrix, output, children)
    return fastest(model, rows, len(reader.data))


def _read_arguments(reader: _Reader) -> dict[str, int]:
    magic, version = reader.numbers("2i", "the file's beginning")
    if magic != MAGIC:
        raise ValueError("not a model of fastText: its magic number is missing")
    if version not in VERSIONS:
        raise ValueError(
            f"fastText's format: expected version {' or '.join(map(str, VERSIONS))}, got {version}"
        )
    read = reader.numbers("12id", "the arguments")
    dim, _, _, _, _, word_ngrams, loss, model, buckets, shortest, longest = read[:11]
    if model != SUPERVISED:
        raise ValueError("the model was trained without labels, so it cannot predict any")
    if loss not in (HIERARCHICAL, NEGATIVE, SOFTMAX, ONE_VS_ALL):
        raise ValueError(f"the loss: expected a number from 1 to 4, got {loss}")
    longest = max(0, longest) if version > VERSIONS[0] else 0  # as fastText reads files of version 11
    if dim < 1 or buckets < 0 or longest > LONGEST or word_ngrams > LONGEST:
        raise ValueError(
            f"expected 1 or more columns, 0 or more buckets and n-grams of at most {LONGEST}, got "
            f"{dim} columns, {buckets} buckets, n-grams of {longest} characters and {word_ngrams} words"
        )
    if not buckets and (longest or word_ngrams > 1):
        raise ValueError("the model has n-grams, but no buckets for them")
    return {
        "dim": dim, "word_ngrams": word_ngrams, "loss": loss, "buckets": buckets,
        "shortest": shortest, "longest": longest,
    }  # fmt: skip


def _read_dictionary(reader: _Reader, buckets: int) -> _Dictionary:
    size, words, labels, _, pruned = reader.numbers("3i2q", "the dictionary")
    if words < 0 or labels < 1 or size != words + labels:
        raise ValueError(
            f"the dictionary: expected {size} entries with at least 1 label, got {words} words and {labels} labels"
        )
    if pruned < NOT_PRUNED:
        raise ValueError(
            f"the dictionary: expected 0 or more n-grams, or {NOT_PRUNED} if not pruned, got {pruned}"
        )
    starts, ends, counts = _read_entries(reader, size, words)
    names = tuple(_label(reader.data[starts[i] : ends[i]].tobytes()) for i in range(words, size))
    slots = table_of_words(reader.data, starts, ends)
    kept, kept_rows = _read_kept(reader, max(0, pruned), buckets)
    needed = int(kept_rows.max(initial=-1)) + 1
    return _Dictionary(
        Words(reader.data, slots, kept, kept_rows), words, names, counts[words:], pruned, needed
    )


def _read_kept(reader: _Reader, count: int, buckets: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return the buckets that have a row, and their rows, in the form of `Words`."""
    pairs = np.frombuffer(reader.take(8 * count, "the n-grams that are kept"), "<i4").reshape(-1, 2)
    if not count:
        return table_of_buckets(np.empty(0, np.int32), np.empty(0, np.int32), 0)
    if pairs.min() < 0 or pairs[:, 0].max() >= buckets or buckets > MOST_BUCKETS:
        raise ValueError(
            f"kept n-grams: expected numbers from 0 to less than {buckets} and at most {MOST_BUCKETS} buckets, "
            f"got n-grams from {pairs.min(axis=0)} to {pairs.max(axis=0)}"
        )
    return table_of_buckets(pairs[:, 0], pairs[:, 1], buckets)


def _read_entries(
    reader: _Reader, size: int, words: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts and ends of the entries, and their counts: all words, then all labels."""
    if size > (len(reader.data) - reader.at) // ENTRY_SIZE:
        raise ValueError(f"a dictionary of {size} entries: the file is cut short")
    starts, ends, counts = (np.empty(size, np.int64) for _ in range(3))
    kinds = np.empty(size, np.uint8)
    end = place_entries(reader.data, reader.at, starts, ends, counts, kinds)
    if end < 0:
        raise ValueError(f"a dictionary of {size} entries: the file is cut short")
    if np.any(kinds[:words] != 0) or np.any(kinds[words:] != 1):
        raise ValueError("the dictionary: expected all words before all labels")
    reader.at = end
    return starts, ends, counts


def _label(name: bytes) -> str:
    try:
        return name.decode().removeprefix(PREFIX)
    except UnicodeDecodeError as e:
        raise ValueError(f"the label {name!r} is not UTF-8") from e


def _read_flag(reader: _Reader, part_name: str) -> bool:
    (flag,) = reader.numbers("B", part_name)
    if flag > 1:
        raise ValueError(f"{part_name}: expected 0 or 1, got {flag}")
    return bool(flag)


def _check_rows(settings: Settings, kept_rows: int, rows: int, *, is_quantised: bool) -> None:
    """Check that the matrix has every row that a text can refer to."""
    if settings.pruned != NOT_PRUNED and not is_quantised:
        raise ValueError("the dictionary is pruned, but the input matrix is not quantised")
    if settings.pruned == NOT_PRUNED and (settings.longest or settings.word_ngrams > 1):
        kept_rows = settings.buckets
    if rows < settings.words + kept_rows:
        raise ValueError(
            f"the input matrix has {rows} rows, but there are {settings.words} words and {kept_rows} n-grams"
        )


def _read_dense(reader: _Reader, dim: int, part_name: str) -> tuple[int, Matrix]:
    rows, columns = reader.numbers("2q", part_name)
    if rows < 0 or columns != dim:
        raise ValueError(f"{part_name}: expected rows of {dim} numbers, got {rows} rows of {columns}")
    numbers = reader.take(4 * rows * columns, part_name)
    return rows, Matrix(numbers, NO_BYTES, NO_NUMBERS, NO_BYTES, NO_NUMBERS, dim, 1)


def _read_quantised(reader: _Reader, dim: int, part_name: str) -> tuple[int, Matrix]:
    """Return the number of rows and the matrix."""
    (has_norms,) = (_read_flag(reader, part_name),)
    rows, columns, size = reader.numbers("2qi", part_name)
    if rows < 0 or columns != dim or size < 0:
        raise ValueError(
            f"{part_name}: expected rows of {dim} numbers, got {rows} rows of {columns} in {size} bytes"
        )
    codes = reader.take(size, part_name)
    width, pieces, centroids = _read_centroids(reader, dim, part_name)
    if size != rows * pieces:
        raise ValueError(f"{part_name} has {rows} rows of {pieces} codes, but {size} bytes of codes")
    norm_codes, norms = NO_BYTES, NO_NUMBERS
    if has_norms:
        norm_codes = reader.take(rows, part_name)
        _, _, norms = _read_centroids(reader, 1, f"{part_name}'s norms")
    return rows, Matrix(NO_BYTES, codes, centroids, norm_codes, norms, width, pieces)


def _read_centroids(reader: _Reader, dim: int, part_name: str) -> tuple[int, int, NDArray[np.float32]]:
    """Return the width of pieces, their number, and the centroids of all pieces."""
    columns, pieces, width, last = reader.numbers("4i", part_name)
    if columns != dim or width < 1 or pieces != -(-dim // width) or last != dim - (pieces - 1) * width:
        raise ValueError(
            f"{part_name} has {columns} columns in {pieces} pieces of {width}, the last of {last}"
        )
    return width, pieces, reader.floats(CENTROIDS * dim, part_name)


def _read_output(reader: _Reader, shape: tuple[int, int], *, may_be_quantised: bool) -> NDArray[np.float32]:
    """Return the output matrix, (labels, dim), expanded to numbers."""
    part_name = "the output matrix"
    # If the input is not quantised, fastText ignores this flag and reads plain numbers.
    is_quantised = _read_flag(reader, part_name) and may_be_quantised
    rows, matrix = (_read_quantised if is_quantised else _read_dense)(reader, shape[1], part_name)
    if rows != shape[0]:
        raise ValueError(f"{part_name} has {rows} rows for {shape[0]} labels")
    matrix = expanded(matrix, *shape, len(reader.data)) if is_quantised else matrix
    if not len(matrix.numbers):
        raise ValueError(
            f"{part_name}: its pieces have {matrix.width} columns, far more than fastText writes"
        )
    output = matrix.numbers.view(np.float32) if is_quantised else np.frombuffer(matrix.numbers, "<f4")
    output = output.astype(np.float32).reshape(shape)  # an aligned copy
    output.flags.writeable = False
    return output
