"""Find connected components of documents on this worker's GPU."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from zyda_flows.tasks.gpu.memory import make_room, no_room_as_memory_error
from zyda_flows.tasks.ids import Ids
from zyda_flows.textkernels.forest import places_type

MOST_EDGES = (1 << 30) - 1  # of a call: cuGraph stores each in both directions, and counts in 32 bits


def forest_of(edges: Iterable[tuple[Ids, Ids]]) -> tuple[Ids, Any]:
    """Find the components of edges between documents: pairs of (m,) ids.

    Returns the ids, (n,) ascending, and the index of each document's root in them, which is the first of its
    component, (n,) int32 or int64. Raises MemoryError if the GPU has not enough memory.
    """
    from zyda_flows.tasks.gpu import rapids

    try:
        with no_room_as_memory_error():
            return on_device(rapids, *(np.concatenate(side) for side in zip(*edges, strict=True)))
    finally:
        make_room(rapids)


def on_device(rapids: Any, a: Ids, b: Ids) -> tuple[Ids, Any]:
    xp = rapids.xp
    is_edge = a != b  # in a forest, a root has an edge to itself
    ends = rapids.to_device(np.concatenate([a[is_edge], b[is_edge]]))
    ids, places = xp.unique(ends, return_inverse=True)
    count, kind = len(ids), places_type(len(ids))
    if not count:
        return rapids.to_host(ids), np.empty(0, kind)
    places = places.astype(kind)
    labels = rapids.components(count, places[: len(ends) // 2], places[len(ends) // 2 :])
    # Sort by label, and within a label by index, so that the first index of a label is its root.
    order = xp.argsort(labels, kind="stable")
    in_order = labels[order]
    is_first = xp.concatenate([xp.ones(1, np.bool_), in_order[1:] != in_order[:-1]])
    roots = xp.empty(count, kind)
    roots[order] = order[xp.flatnonzero(is_first)[xp.cumsum(is_first) - 1]]
    return rapids.to_host(ids), rapids.to_host(roots)
