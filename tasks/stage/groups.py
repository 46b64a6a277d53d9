"""Groups: the sources that one task of a stage sees to, where there are many.

A task costs Prefect and Dask some tenths of a second, whatever it does. That of a group returns a receipt for each
of its sources, and each has a manifest of its own: who is in which group changes nothing that is made.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from zyda_flows.tasks.stage.verdicts import Trail, trail_of
from zyda_flows.tasks.storage.artifacts import Receipt

Item = TypeVar("Item")

MOST_GROUPS = 12  # tasks of a stage, at the most

# Of a group of sources: of each stage so far, the receipts of those that it looked at.
ReceiptsByStage = list[list[Receipt]]


def in_groups(items: Sequence[Item], most: int = MOST_GROUPS) -> list[list[Item]]:
    """Cut items into so many groups of one size, give or take one, neighbours together."""
    count = min(most, len(items))
    return [list(items[i * len(items) // count : (i + 1) * len(items) // count]) for i in range(count)]


def receipts_of(groups: Iterable[Sequence[Receipt]]) -> list[Receipt]:
    """Return the receipts of a stage, of all groups."""
    return [receipt for of_group in groups for receipt in of_group]


def trails_of(groups: Iterable[ReceiptsByStage]) -> list[Trail]:
    """Return the trail of each source in all groups: its receipts, in the order of the stages that looked at it."""
    of_sources = dict[str | None, list[Receipt]]()
    for of_group in groups:
        for receipt in receipts_of(of_group):
            of_sources.setdefault(receipt.source, []).append(receipt)
    return [trail_of(receipts) for receipts in of_sources.values()]
