"""How many workers died over an item: known to the scheduler, which outlives whoever sent the item."""

from collections import Counter
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from tasks.workers.dask_cluster import ALLOWED_DEATHS

ITEMS = " shard"  # how the groups of such tasks end
FEW = 3  # deaths over one item, after which it is given up
WEIGHT = ALLOWED_DEATHS // FEW


class Deaths(SchedulerPlugin):
    """Gives an item up after FEW deaths, where Dask waits for ALLOWED_DEATHS of a task.

    A task that sends items and waits for them dies with its worker, and is begun again: so it may die more often
    than its items, and what it knew of these is kept here. A name that is used again begins as it ended, until it
    has been done.
    """

    name = "deaths over items"
    idempotent = True

    def __init__(self) -> None:
        self.deaths = Counter[tuple[str, str]]()
        self.scheduler: Any = None

    async def start(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Weigh the deaths of an item, and those of its name before it."""
        task = self.scheduler.tasks.get(key)
        if task is None or not isinstance(key, tuple) or not str(key[0]).endswith(ITEMS):
            return
        item = (str(key[0]), str(key[1]).rpartition("-")[0])
        if finish == "memory":
            self.deaths.pop(item, None)
        elif start == "processing" and task.suspicious > WEIGHT * self.deaths[item]:
            self.deaths[item] += 1
        task.suspicious = max(task.suspicious, WEIGHT * self.deaths[item])
