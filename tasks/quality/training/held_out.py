"""Hold documents out of a training by clusters of duplicates: no copy of a tested document is trained on."""

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
    return clusters_by_keys(hashes, *keys_of_texts(texts, MinHashRound()))


def clusters_by_keys(
    hashes: NDArray[np.uint64], keys: NDArray[np.uint64], has_keys: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the clusters of documents by hashes, (n,), and by band keys, (n, bands), of documents with keys."""
    parents, places = np.arange(len(hashes)), np.flatnonzero(has_keys)
    columns = [(parents.copy(), hashes), *((places, keys[places, band]) for band in range(keys.shape[1]))]
    for documents, column in columns:
        join(parents, *equal_pairs(documents, column))
    flatten(parents)
    return parents


def equal_pairs(
    documents: NDArray[np.int64], column: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of documents with the same value in a column."""
    order = np.argsort(column, kind="stable")
    is_equal = column[order][1:] == column[order][:-1]
    return documents[order[:-1][is_equal]], documents[order[1:][is_equal]]


def held_out(clusters: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Return the documents to hold out: whole clusters, about `share` of them, drawn by the seed."""
    return np.random.default_rng(seed).random(len(clusters))[clusters] < share
