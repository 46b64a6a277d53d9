"""Hold documents out of a training by clusters of duplicates: no copy of a tested document is trained on."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import keys_of_texts
from zyda_flows.textkernels.forest import flatten, join


def clusters_of(texts: pa.LargeStringArray, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the cluster of each document, (n,): the place of its first document.

    Two documents are in the same cluster if their texts are equal, or if they share a key of a band of MinHash, as
    in a round of deduplication with its defaults.
    """
    parents = np.arange(len(texts))
    for first, second in equal_pairs(texts, hashes):
        join(parents, first, second)
    flatten(parents)
    return parents


def equal_pairs(
    texts: pa.LargeStringArray, hashes: NDArray[np.uint64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pairs of documents with the same hash or key."""
    keys, has_keys = keys_of_texts(texts, MinHashRound())
    places = np.flatnonzero(has_keys)
    columns = [
        (np.arange(len(texts)), hashes),
        *((places, keys[places, band]) for band in range(keys.shape[1])),
    ]
    for documents, column in columns:
        order = np.argsort(column, kind="stable")
        is_equal = column[order][1:] == column[order][:-1]
        yield documents[order[:-1][is_equal]], documents[order[1:][is_equal]]


def held_out(clusters: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Return the documents to hold out: whole clusters, about `share` of them, drawn by the seed."""
    return np.random.default_rng(seed).random(len(clusters))[clusters] < share
