"""Count the workers that died while they ran an item, and the time and resources of a call.

Dask counts the deaths of workers for each of its tasks. It loses the count if the waiting task was on the worker
that died. So a job writes a mark when it begins, removes it when it ends, and looks for marks of earlier attempts.
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    """A function to call on a worker. deaths: number of workers that may die during an item."""

    function: Callable[[Any], Any]
    deaths: int

    def __call__(self, item: Any) -> CallOutcome:
        METER.begin()
        began, token = time.monotonic(), ALLOWED_DEATHS.set(self.deaths)
        try:
            result = self.function(item)
        except TooManyDeaths as error:
            result = error.poison_item
        finally:
            ALLOWED_DEATHS.reset(token)
        return CallOutcome(result, time.monotonic() - began, METER.take())
