"""How many requests one host gets at once, from all workers of a cluster together."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import distributed

SETTING = "ZYDA_REQUESTS_PER_HOST"
USUAL = 32
# By worker: a test, or a notebook, has several clusters in one process, one after another.
SEMAPHORES: "WeakKeyDictionary[distributed.Worker, dict[str, distributed.Semaphore]]" = WeakKeyDictionary()


def most_requests() -> int:
    """Return how many requests a host gets at once: what the environment of the worker says, or USUAL."""
    wanted = os.environ.get(SETTING, "")
    return max(1, int(wanted)) if wanted.isascii() and wanted.isdigit() else USUAL


@contextmanager
def place_at(host: str) -> Iterator[None]:
    """Hold one of the places that a host has for requests of this cluster; off a worker there is no limit."""
    if (
        "distributed" not in sys.modules
    ):  # then this is no worker, and Dask would take half a second to import
        yield
        return
    from zyda_flows.tasks.workers.events import is_on_worker

    if not is_on_worker():
        yield
        return
    with semaphore_of(host):
        yield


def semaphore_of(host: str) -> "distributed.Semaphore":
    """Return the cluster's semaphore for a host."""
    import distributed

    of_worker = SEMAPHORES.setdefault(distributed.get_worker(), {})
    if host not in of_worker:
        of_worker[host] = distributed.Semaphore(max_leases=most_requests(), name=f"zyda-requests-{host}")
    return of_worker[host]
