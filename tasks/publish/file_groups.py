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
PIECE_BITS, SHARD_BITS = 20, 20  # of a place; the number of the input file has 24


def place_of(name: str) -> int:
    """Return the place of a shard by its name: the numbers of its file, its piece and the shard, in 64 bits."""
    file, piece, shard = map(int, name.split("-"))
    return file << PIECE_BITS + SHARD_BITS | piece << SHARD_BITS | shard


def input_file_of(name: str) -> int:
    """Return the number of the input file of a shard or of a published file, by its name."""
    return int(name.partition("-")[0])


def file_groups(
    names: Sequence[str], texts: Sequence[float], documents: Sequence[float], most_text: float
) -> list[NDArray[np.int64]]:
    """Return the shards of each published file, as positions in `names`, (k,) ascending by their places.

    names, texts, documents: of the shards of a source, (n,) each; texts in bytes. most_text: bytes of text in a
    file of several shards.
    """
    if not names:
        return []
    places = np.array([place_of(name) for name in names], np.uint64)
    order = np.argsort(places)
    places = places[order]
    sizes = np.stack([texts, documents, np.ones(len(names))], axis=1).astype(np.float64)[order]
    before = np.concatenate([np.zeros((1, 3)), np.cumsum(sizes, axis=0)])
    most, groups, subtrees = (most_text, MOST_DOCUMENTS, MOST_SHARDS), [], [(0, len(names))]
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
