"""Limit the simultaneous requests of all workers of a cluster to one host."""

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
# By worker, because a test or a notebook can have several clusters in a process, one after another.
SEMAPHORES: "WeakKeyDictionary[distributed.Worker, dict[str, distributed.Semaphore]]" = WeakKeyDictionary()


def most_requests() -> int:
    """Return the maximum of simultaneous requests to a host: the environment variable SETTING, or USUAL."""
    wanted = os.environ.get(SETTING, "")
    return max(1, int(wanted)) if wanted.isascii() and wanted.isdigit() else USUAL


@contextmanager
def place_at(host: str) -> Iterator[None]:
    """Hold one of the host's places for requests of this cluster; outside a worker there is no limit."""
    if (
        "distributed" not in sys.modules
    ):  # then this process is no worker, and importing Dask takes half a second
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

    semaphores = SEMAPHORES.setdefault(distributed.get_worker(), {})
    if host not in semaphores:
        semaphores[host] = distributed.Semaphore(max_leases=most_requests(), name=f"zyda-requests-{host}")
    return semaphores[host]
