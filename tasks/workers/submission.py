"""Choose the workers of a cluster to which a function is sent, by the resources that they offer."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import distributed
from dask.utils import parse_timedelta

from zyda_flows.tasks.errors import LostWorkers
from zyda_flows.tasks.workers.dask_cluster import CPU, GPU, no_workers_timeout
from zyda_flows.tasks.workers.engine import ENGINE, Engine, GpuCall

LOOK_SECONDS = 1


@dataclass
class WaitingTask:
    """A task that waits for its cluster. client: submits work to the cluster.

    leaves_work: whether submitted work whose result is no longer needed may still run on this task's worker.
    """

    client: Any
    leaves_work: bool = False


WAITING: ContextVar[WaitingTask | None] = ContextVar("waiting", default=None)
OUTSIDE = threading.local()  # has `has_left_pool` in a thread that has left its worker's pool permanently


@contextmanager
def waiting_task() -> Iterator[WaitingTask]:
    """Yield the waiting task of this thread, which leaves its worker's pool meanwhile.

    A nested call yields the same task.
    """
    if (known := WAITING.get()) is not None:
        yield known
        return
    task = WaitingTask(distributed.get_client())
    is_in_pool = not hasattr(OUTSIDE, "has_left_pool")
    if is_in_pool:
        distributed.secede()
    token = WAITING.set(task)
    try:
        yield task
    finally:
        WAITING.reset(token)
        if task.leaves_work:  # the remaining work occupies the thread for which this thread would wait
            OUTSIDE.has_left_pool = True
        elif is_in_pool:
            distributed.rejoin()


def waits_for_cluster() -> bool:
    """Return whether this thread belongs to a task that waits for its cluster."""
    return WAITING.get() is not None


class Submission(NamedTuple):
    """A function, and the keyword arguments with which Dask selects its workers."""

    function: Callable[[Any], Any]
    where: dict[str, Any]


def submission_to(client: Any, engine: Engine, function: Callable[[Any], Any], gpus: float = 1) -> Submission:
    """Return a function and the resources with which to submit it to workers of an engine.

    If some workers offer a GPU, CPU work is sent to workers that offer a CPU, so that GPUs do not wait for it.
    """
    offered = offered_by_workers(client)
    if engine is Engine.GPU and GPU not in offered:
        offered = offered_after_waiting(client)
    if GPU not in offered:
        return Submission(function, {})
    if engine is not Engine.CPU:
        return Submission(GpuCall(function, engine), {"resources": {GPU: gpus}})
    return Submission(function, {"resources": {CPU: 1}} if CPU in offered else {})


def offered_after_waiting(client: Any) -> set[str]:
    """Wait until a worker, possibly a restarted worker, offers a GPU; return the resources of all workers.

    Waits as long as Dask waits for workers. Raises LostWorkers if no worker has offered a GPU by then.
    """
    deadline = time.monotonic() + parse_timedelta(no_workers_timeout())
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        if GPU in (offered := offered_by_workers(client)):
            return offered
    raise LostWorkers(
        f"{ENGINE}=gpu, and for {no_workers_timeout()} no worker of the cluster has offered a GPU: start some "
        f"(dask cuda worker --resources {GPU}=1), or unset {ENGINE}"
    )


def is_sent_to_gpu(engine: Engine) -> bool:
    """Return whether work for an engine would reach GPUs, within a waiting task or on a worker."""
    with waiting_task() as task:
        return isinstance(submission_to(task.client, engine, is_sent_to_gpu).function, GpuCall)


def offered_by_workers(client: Any) -> set[str]:
    """Return the names of the resources of all workers."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return {name for worker in workers for name in worker["resources"]}
