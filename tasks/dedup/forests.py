"""Forests: trees of connected documents, as disjoint sets (union-find).

A forest takes 12 bytes for each document if there are fewer than 2**31 of them; a step that joins forests takes 40.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids, sources_of
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import tables_of
from zyda_flows.textkernels import forest

GROUP_ROWS = 1 << 17
# Most documents of a step, and of the last step: 0.8 and 1.1 GiB if no two edges share a document.
STEP_DOCUMENTS = 16 << 20
LAST_DOCUMENTS = 32 << 20
FOREST = pa.schema([("doc_id", pa.uint64()), ("root", pa.int64())])
SIZES = pa.schema([("cluster_size", pa.uint32()), ("cluster_sources", pa.uint16())])
CLUSTERS = pa.schema([("doc_id", pa.uint64()), ("cluster_id", pa.uint64()), *SIZES])

Places = NDArray[np.signedinteger[Any]]  # int32 or int64


@dataclass(frozen=True)
class Forest:
    """Trees of documents: `ids` (n,), ascending, and the index of each document's root in ids, (n,)."""

    ids: Ids
    roots: Places

    def rows(self) -> Iterator[pa.Table]:
        """Yield the documents as FOREST, in batches."""
        for start in range(0, len(self.ids), GROUP_ROWS):
            some = slice(start, start + GROUP_ROWS)
            yield pa.table([self.ids[some], self.roots[some].astype(np.int64)], schema=FOREST)

    def clusters(self, some: slice) -> pa.Table:
        """Return a slice of the documents as CLUSTERS."""
        roots = self.roots[some]
        tree_columns = (self.ids, *self.sizes)
        return pa.table([self.ids[some], *(column[roots] for column in tree_columns)], schema=CLUSTERS)

    @cached_property
    def sizes(self) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
        """The documents and the sources of each tree, at the index of its root: both (n,)."""
        return forest.sizes(self.roots, sources_of(self.ids))


def forest_of_edges(a: Ids, b: Ids) -> Forest:
    """Return the components of edges (n,)."""
    ids, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    places = places.astype(forest.places_type(len(ids)))
    roots = np.arange(len(ids), dtype=places.dtype)
    forest.join(roots, places[: len(a)], places[len(a) :])
    forest.flatten(roots)
    return Forest(ids, roots)


def join_forests(first: Forest, second: Forest) -> Forest:
    """Return the components of two forests together."""
    room = len(first.ids) + len(second.ids)
    kind = forest.places_type(room)
    ids = np.empty(room, np.uint64)
    at_first, at_second = np.empty(len(first.ids), kind), np.empty(len(second.ids), kind)
    count = forest.merge(first.ids, second.ids, ids, at_first, at_second)
    roots = np.arange(count, dtype=kind)
    # Start with the trees of `first`; then join each document of `second` to its root there.
    roots[at_first] = at_first[first.roots]
    forest.join(roots, at_second[second.roots], at_second)
    forest.flatten(roots)
    return Forest(ids[:count], roots)


def join_all(forests: Iterable[Forest]) -> Forest:
    """Join forests, each with a forest of similar size, which minimises how often a forest is joined."""
    waiting = list[Forest]()  # of decreasing size
    for added in forests:
        grown = added
        while waiting and len(waiting[-1].ids) <= len(grown.ids):
            grown = join_forests(waiting.pop(), grown)
        waiting.append(grown)
    while len(waiting) > 1:
        smallest = waiting.pop()
        waiting.append(join_forests(waiting.pop(), smallest))
    return waiting[0]


def read_forest(folder: Folder, artifact: Artifact) -> Forest:
    """Read a file of FOREST."""
    ids = np.empty(artifact.rows, np.uint64)
    roots = np.empty(artifact.rows, forest.places_type(artifact.rows))
    start = 0
    for table in tables_of(folder, artifact):
        stop = start + len(table)
        ids[start:stop], roots[start:stop] = (column.to_numpy() for column in table.columns)
        start = stop
    return Forest(ids, roots)
