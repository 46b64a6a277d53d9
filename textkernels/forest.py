"""Trees of documents on the CPU: components of graphs with too many edges for memory. Compiled by numba.

The trees are disjoint sets (union-find). A document is named by its position in the ascending order of ids, which
takes four bytes instead of eight. `parents` (n,), int32 or int64, holds the position of each document's parent,
which is never after the document's own: so following parents ends at the smallest id of a component, its root.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit


@njit(cache=True, nogil=True)
def merge(a, b, merged, at_a, at_b):
    """Merge two ascending arrays of ids, each without repeats; return how many different ids there are.

    merged: has room for all ids. at_a, at_b: get the position in `merged` of each id of `a` and of `b`.
    """
    i, j, n = 0, 0, 0
    while i < len(a) or j < len(b):
        # Both are true for an id in both arrays, so that it is written once.
        from_a = j == len(b) or (i < len(a) and a[i] <= b[j])
        from_b = i == len(a) or (j < len(b) and b[j] <= a[i])
        if from_a:
            merged[n] = a[i]
            at_a[i] = n
            i += 1
        if from_b:
            merged[n] = b[j]
            at_b[j] = n
            j += 1
        n += 1
    return n


@njit(cache=True, nogil=True, inline="always")
def root_of(parents, place):
    """Return the root of a position, and let every second position on the way skip its parent (path halving)."""
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place


@njit(cache=True, nogil=True)
def join(parents, a, b):
    """Join the trees of positions a[i] and b[i], for each i; the smaller root becomes the root of both."""
    for i in range(len(a)):
        x, y = root_of(parents, a[i]), root_of(parents, b[i])
        if x < y:
            parents[y] = x
        elif y < x:
            parents[x] = y


@njit(cache=True, nogil=True)
def flatten(parents):
    """Make every parent a root. A parent is never after its child, so one pass is enough."""
    for place in range(len(parents)):
        parents[place] = parents[parents[place]]


@njit(cache=True, nogil=True)
def _sizes(roots, sources, members, source_counts, last_sources):
    for place in range(len(roots)):
        root = roots[place]
        members[root] += 1
        if last_sources[root] != sources[place]:
            last_sources[root] = sources[place]
            source_counts[root] += 1


@njit(cache=True, nogil=True)
def keep_smallest(smallest, holders, places, values, names):
    """Where values[i] is less than smallest[places[i]], replace it, and set holders[places[i]] to names[i]."""
    for i in range(len(places)):
        place = places[i]
        if values[i] < smallest[place]:
            smallest[place] = values[i]
            holders[place] = names[i]


def places_type(count: int) -> type[np.int32] | type[np.int64]:
    """Return the smallest integer type that can number `count` positions."""
    return np.int32 if count <= np.iinfo(np.int32).max else np.int64


def sizes(
    roots: NDArray[np.signedinteger[Any]], sources: NDArray[np.uint16]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Count the members of each tree, and their sources: (n,) twice to (n,) twice, at the positions of roots.

    sources: ascending, because ids ascend.
    """
    members, source_counts = np.zeros(len(roots), np.uint32), np.zeros(len(roots), np.uint16)
    _sizes(roots, sources, members, source_counts, np.full(len(roots), -1, np.int16))
    return members, source_counts
