"""Call a function on the items of a batch; measure each call, and count the workers that died during an item.

Dask counts the deaths of workers for each of its tasks. It loses the count if the waiting task was on the worker
that died. So a job writes a mark when it begins, removes it when it ends, and looks for marks of earlier attempts.
"""

import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from distributed.protocol import pickle

from zyda_flows.tasks.spent import METER, Spent

# Number of workers that may die while they run the current work; 0 means that marks are not checked.
ALLOWED_DEATHS: ContextVar[int] = ContextVar("allowed_deaths", default=0)


class PoisonItem(NamedTuple):
    """The result of an item during which the allowed number of workers died. work: the description of the work."""

    work: str
    deaths: int

    def __str__(self) -> str:
        return f"{self.deaths} workers died one after another during {self.work}"


class TooManyDeaths(Exception):
    """Raised before work begins if the allowed number of workers has already died during it."""

    def __init__(self, poison_item: PoisonItem) -> None:
        super().__init__(poison_item)
        self.poison_item = poison_item


class CallOutcome(NamedTuple):
    """The result of a call or a PoisonItem, the seconds of the call, and the resources that its process used."""

    result: Any
    seconds: float
    spent: Spent


@dataclass(frozen=True)
class Attempt:
    """A function to call on a worker for the items of a batch, one after another.

    deaths: number of workers that may die during an item. seconds: no item but the first begins after this time.
    """

    function: Callable[[Any], Any]
    deaths: int
    seconds: float

    def __call__(self, batch: bytes) -> list[CallOutcome]:
        """Return the outcomes of the items that were begun, in order. batch: the pickled list of items.

        No item begins after a PoisonItem: its deaths were deaths of this task, too. After an item that fails, the
        others are still called, because finished jobs need not be repeated; then the first error is raised.
        """
        METER.begin()
        outcomes, errors = list[CallOutcome](), list[Exception]()
        until, token = time.monotonic() + self.seconds, ALLOWED_DEATHS.set(self.deaths)
        try:
            for number, item in enumerate(pickle.loads(batch)):
                if number and time.monotonic() > until:
                    break
                try:
                    outcomes.append(self.outcome(item))
                except Exception as error:  # noqa: BLE001 (raised after the other items)
                    traceback.clear_frames(error.__traceback__)  # which refer to the data of the item
                    errors.append(error)
                    continue
                if isinstance(outcomes[-1].result, PoisonItem):
                    break
        finally:
            ALLOWED_DEATHS.reset(token)
        if errors:
            raise errors[0]
        return outcomes

    def outcome(self, item: Any) -> CallOutcome:
        began = time.monotonic()
        try:
            result = self.function(item)
        except TooManyDeaths as error:
            result = error.poison_item
        return CallOutcome(result, time.monotonic() - began, METER.take())
