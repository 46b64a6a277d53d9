"""Choose the removed rows among ranked rows with partners."""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

KEPT = -1


def choose_removed(
    ends: NDArray[np.int64],
    partners: NDArray[np.int64],
    scores: NDArray[np.float32],
    groups: NDArray[np.int64],
    is_removable: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return the index in `partners` of the kept row for which each row is removed, or KEPT: (n,).

    The rows are tested in their order. A removable row is removed if it has a partner that is kept and in a smaller
    group: the partner with the highest score, and of equal scores the first row.

    Args:
        ends: The partners of row i are from ends[i] to ends[i + 1], (n + 1,).
        partners: Rows, (m,).
        scores: Of the pairs, (m,).
        groups: Of the rows, (n,).
        is_removable: (n,).
    """
    chosen: NDArray[np.int64] = choose(ends, partners, scores, groups, is_removable)
    return chosen


@njit(cache=True, nogil=True)
def choose(ends, partners, scores, groups, is_removable):
    chosen = np.full(len(groups), KEPT, np.int64)
    for row in range(len(groups)):
        if not is_removable[row]:
            continue
        for at in range(ends[row], ends[row + 1]):
            other = partners[at]
            if chosen[other] != KEPT or groups[other] >= groups[row]:
                continue
            best = chosen[row]
            if (
                best == KEPT
                or scores[at] > scores[best]
                or (scores[at] == scores[best] and other < partners[best])
            ):
                chosen[row] = at
    return chosen
