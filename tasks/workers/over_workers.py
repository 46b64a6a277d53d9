"""Run many items on the workers of a cluster."""

from collections.abc import Callable
from typing import TypeVar

import distributed

from zyda_flows.tasks.errors import LostWorkers
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.workers.dask_cluster import ALLOWED_DEATHS, GPU
from zyda_flows.tasks.workers.engine import ENGINE, Engine, FollowUp
from zyda_flows.tasks.workers.item_calls import RemoteFunction
from zyda_flows.tasks.workers.submission import waiting_task
from zyda_flows.tasks.workers.window import Window

Item = TypeVar("Item")
Result = TypeVar("Result")


def over_workers(
    function: Callable[[Item], Result],
    items: list[Item],
    count: Callable[[Result, Spent], Result],
    *,
    group: str,
    name: str,
    engine: Engine,
    gpus: float = 1,
    follow_up: FollowUp | None = None,
) -> list[Result]:
    """Call a function on items on the cluster of this thread's worker; return results in the order of the items.

    Args:
        function: Called on a worker with each item.
        items: Arguments of the calls.
        count: Called in this process with each result and the resources that it used; returns the result to keep.
        group: Name for tasks of about equal duration, by which Dask estimates durations.
        name: Name of these items, for messages.
        engine: Engine of the workers.
        gpus: Fraction of a GPU that a call uses if it is sent to a GPU.
        follow_up: Work that follows each result.

    The calling task returns its thread to its worker while it waits. Otherwise a cluster whose threads all run
    such tasks would wait for itself.

    Raises:
        PoisonShards: Several workers died during an item; raised after all other items are done.
        LostWorkers: No worker offers the required GPU, or ALLOWED_DEATHS workers died on the same item.
    """
    with waiting_task() as task:
        window = Window(task, RemoteFunction(function, engine, gpus, group), follow_up, count, name)
        try:
            return window.results(items)
        except distributed.scheduler.KilledWorker as error:
            raise LostWorkers(
                f"{name}: {ALLOWED_DEATHS} workers died one after another on the same shard; the usual "
                "cause is memory: start fewer workers, or, in a stage of a source, make shard_mib smaller "
                "in the recipe"
            ) from error
        except distributed.scheduler.NoValidWorkerError as error:
            wanted = "".join(error.resource_restrictions)
            raise LostWorkers(
                f"{name}: for {error.timeout:.0f} s, no worker of the cluster has offered a {wanted}; start some"
                + (f", or start the build again with {ENGINE}=cpu" if wanted == GPU else "")
            ) from error
