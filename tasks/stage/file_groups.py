"""Choose the shards of a source that share a published file, so that a changed input changes few published files.

The shards are the leaves of a binary tree over their places: the number of the input file, the piece of the file,
and the shard of the piece. The largest subtrees within the limits are published files. The bounds of a subtree do
not depend on any shard, so a changed size moves only the cuts above its own leaf, and other published files stay
equal.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_DOCUMENTS = 1 << 21  # in a published file of several shards: some tasks hold a row for each document
MOST_SHARDS = 1 << 10  # of a published file: its task holds their records
# Of text in a file, and files of a source that are enough for its workers, if the recipe has no `published_mib`.
LEAST_TEXT, MOST_TEXT, ENOUGH_FILES = 1 << 28, 1 << 32, 256
PIECE_BITS, SHARD_BITS = 20, 20  # of a place; the number of the input file has 24


def place_of(name: str) -> int:
    """Return the place of a shard by its name: the numbers of its file, its piece and the shard, in 64 bits."""
    file, piece, shard = map(int, name.split("-"))
    return file << PIECE_BITS + SHARD_BITS | piece << SHARD_BITS | shard


def input_file_of(name: str) -> int:
    """Return the number of the input file of a shard or of a published file, by its name."""
    return int(name.partition("-")[0])


def most_text(published_mib: float | None, text: float) -> float:
    """Return the most bytes of text in a published file of several shards.

    published_mib: of the recipe. Without it, the limit is a power of two, which changes when the text of a source
    doubles. text: bytes of the source, as ingested.
    """
    if published_mib is not None:
        return published_mib * 2**20
    return min(max(LEAST_TEXT, 1 << (round(text) // ENOUGH_FILES).bit_length()), MOST_TEXT)


def file_groups(
    names: Sequence[str],
    texts: Sequence[float],
    documents: Sequence[float],
    published_mib: float | None,
) -> list[NDArray[np.int64]]:
    """Return the shards of each published file, as positions in `names`, (k,) ascending by their places.

    names, texts, documents: of the shards of a source, (n,) each; texts in bytes. published_mib: see `most_text`.
    """
    if not names:
        return []
    places = np.array([place_of(name) for name in names], np.uint64)
    order = np.argsort(places)
    places = places[order]
    sizes = np.stack([texts, documents, np.ones(len(names))], axis=1).astype(np.float64)[order]
    before = np.concatenate([np.zeros((1, 3)), np.cumsum(sizes, axis=0)])
    text = most_text(published_mib, sum(texts))
    most, groups, subtrees = (text, MOST_DOCUMENTS, MOST_SHARDS), [], [(0, len(names))]
    while subtrees:
        start, end = subtrees.pop()
        if end - start == 1 or np.all(before[end] - before[start] <= most):
            groups.append(order[start:end])
            continue
        first, last = int(places[start]), int(places[end - 1])
        highest = (first ^ last).bit_length() - 1  # the bit in which the places of the two halves differ
        middle = int(np.searchsorted(places, np.uint64(last >> highest << highest)))
        subtrees += [(middle, end), (start, middle)]
    return groups
