"""To which workers of a cluster something is sent, by what they offer."""

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
from zyda_flows.tasks.workers.engine import ENGINE, Engine, SentToGpu

LOOK_SECONDS = 1


@dataclass
class WaitingTask:
    """A task that waits for its cluster. client: by which it submits to it.

    leaves_work: whether something that it has submitted, and wants no more, may still run where it runs itself.
    """

    client: Any
    leaves_work: bool = False


WAITING: ContextVar[WaitingTask | None] = ContextVar("waiting", default=None)
OUTSIDE = threading.local()  # has `of_pool` in a thread that stays outside of its worker's pool


@contextmanager
def waiting_task() -> Iterator[WaitingTask]:
    """Give this task, whose thread goes back to its worker while it waits; where it waits already, the same."""
    if (known := WAITING.get()) is not None:
        yield known
        return
    task = WaitingTask(distributed.get_client())
    is_in_pool = not hasattr(OUTSIDE, "of_pool")
    if is_in_pool:
        distributed.secede()
    token = WAITING.set(task)
    try:
        yield task
    finally:
        WAITING.reset(token)
        if task.leaves_work:  # which has the thread that this one would wait for
            OUTSIDE.of_pool = True
        elif is_in_pool:
            distributed.rejoin()


def waits_for_cluster() -> bool:
    """Say whether this thread belongs to a task that waits for its cluster."""
    return WAITING.get() is not None


class Submission(NamedTuple):
    """A function, and the keywords by which Dask knows on which workers to call it."""

    function: Callable[[Any], Any]
    where: dict[str, Any]


def submission_to(client: Any, engine: Engine, function: Callable[[Any], Any], gpus: float = 1) -> Submission:
    """Return how a function is sent to the workers of an engine.

    Where some offer a GPU, work for CPUs goes to those that offer one, so that GPUs do not wait for it.
    """
    offered = offered_by_workers(client)
    if engine is Engine.GPU and GPU not in offered:
        offered = offered_after_waiting(client)
    if GPU not in offered:
        return Submission(function, {})
    if engine is not Engine.CPU:
        return Submission(SentToGpu(function, engine), {"resources": {GPU: gpus}})
    return Submission(function, {"resources": {CPU: 1}} if CPU in offered else {})


def offered_after_waiting(client: Any) -> set[str]:
    """Wait for a worker that offers a GPU, as Dask does, one that starts again too; return what workers offer.

    Raises LostWorkers where none has come.
    """
    deadline = time.monotonic() + parse_timedelta(no_workers_timeout())
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        if GPU in (offered := offered_by_workers(client)):
            return offered
    raise LostWorkers(
        f"{ENGINE}=gpu, and for {no_workers_timeout()} no worker of the cluster has offered a GPU: start some "
        f"(dask cuda worker --resources {GPU}=1), or leave {ENGINE} away"
    )


def is_sent_to_gpu(engine: Engine) -> bool:
    """Say whether what a task sends out for an engine would reach GPUs, in a task that waits or on a worker."""
    with waiting_task() as task:
        return isinstance(submission_to(task.client, engine, is_sent_to_gpu).function, SentToGpu)


def offered_by_workers(client: Any) -> set[str]:
    """Return the names of all resources that workers offer."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return {name for worker in workers for name in worker["resources"]}
