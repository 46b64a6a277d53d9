"""Work that takes its workers with it, as it looks to whoever waits for it.

Dask counts the deaths of workers for each of its tasks, but forgets them with the task that waits, which may have
been on the same worker. So a job leaves a mark where it was begun and did not end, and looks for those of before.
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from zyda_flows.tasks.spent import METER, Spent

# How many workers the work that is done here may have taken with it; 0 where nobody asks.
ALLOWED_DEATHS: ContextVar[int] = ContextVar("allowed_deaths", default=0)


class SetApart(NamedTuple):
    """What comes of work that has taken as many workers with it as it may. what: it is, in words."""

    what: str
    deaths: int

    def __str__(self) -> str:
        return f"{self.what} took {self.deaths} workers with it, one after another"


class TooManyDeaths(Exception):
    """Raised before work is begun that has taken as many workers with it as it may."""

    def __init__(self, found: SetApart) -> None:
        super().__init__(found)
        self.found = found


class Outcome(NamedTuple):
    """What a call returned, or a SetApart, the seconds that it took, and what its process spent."""

    result: Any
    seconds: float
    spent: Spent


@dataclass(frozen=True)
class Attempt:
    """A function as it is called on a worker, which may have taken so many workers with it before."""

    function: Callable[[Any], Any]
    deaths: int

    def __call__(self, item: Any) -> Outcome:
        METER.begin()
        began, token = time.monotonic(), ALLOWED_DEATHS.set(self.deaths)
        try:
            result = self.function(item)
        except TooManyDeaths as error:
            result = error.found
        finally:
            ALLOWED_DEATHS.reset(token)
        return Outcome(result, time.monotonic() - began, METER.take())
