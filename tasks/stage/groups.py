"""Divide the sources into groups, one for each task of a stage, if there are many sources.

A task costs Prefect and Dask some tenths of a second in any case. The task of a group returns a receipt for each of
its sources, and each source has its own manifest, so the division into groups does not change any artifact.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from zyda_flows.tasks.stage.verdicts import Trail, trail_of
from zyda_flows.tasks.storage.artifacts import Receipt

Item = TypeVar("Item")

MOST_GROUPS = 12  # maximum of tasks of a stage

# For a group of sources: for each stage so far, the receipts of the sources that the stage processed.
ReceiptsByStage = list[list[Receipt]]


def in_groups(items: Sequence[Item], most: int = MOST_GROUPS) -> list[list[Item]]:
    """Divide items into at most `most` groups of consecutive items; group sizes differ by at most 1."""
    count = min(most, len(items))
    return [list(items[i * len(items) // count : (i + 1) * len(items) // count]) for i in range(count)]


def receipts_of(groups: Iterable[Sequence[Receipt]]) -> list[Receipt]:
    """Return the receipts of all groups."""
    return [receipt for group in groups for receipt in group]


def trails_of(groups: Iterable[ReceiptsByStage]) -> list[Trail]:
    """Return the trail of each source in all groups: its receipts, in the order of the stages that processed it."""
    receipts_by_source = dict[str | None, list[Receipt]]()
    for group in groups:
        for receipt in receipts_of(group):
            receipts_by_source.setdefault(receipt.source, []).append(receipt)
    return [trail_of(receipts) for receipts in receipts_by_source.values()]
