"""Warn the user of a build if its Dask cluster has no workers, has silent workers, or has ended."""

import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from prefect.context import FlowRunContext
from prefect.logging import get_run_logger

from zyda_flows.tasks.workers.dask_cluster import GPU, no_workers_timeout
from zyda_flows.tasks.workers.engine import ENGINE, Engine, requested_engine
from zyda_flows.tasks.workers.trouble import cluster_explained

Workers = Mapping[str, Mapping[str, Any]]

LOOK_SECONDS = 5
ON_GPUS = (
    "workers of the cluster offer GPUs: stages that begin from now on compute signatures, edges, clusters "
    f"and quality models there ({ENGINE}=cpu: on CPUs)"
)
SILENT_SECONDS = 60  # without a heartbeat of a worker, after which it is reported
FIRST_WARNING_SECONDS, NEXT_WARNING_SECONDS = 10, 60  # without a worker; between warnings


@contextmanager
def watch_cluster() -> Iterator[None]:
    """Warn while the cluster of this flow run has no workers, and explain errors that end the cluster."""
    context = FlowRunContext.get()
    client = getattr(context and context.task_runner, "client", None)
    is_over = threading.Event()
    if client is not None:
        threading.Thread(
            target=copy_context().run, args=(watch_workers, client, is_over), daemon=True
        ).start()
    with cluster_explained():
        try:
            yield
        finally:
            is_over.set()


def watch_workers(client: Any, is_over: threading.Event) -> None:
    """Check every few seconds that the cluster has a worker and each worker answers, and look for GPUs."""
    missing_since, said_at, engine = None, 0.0, requested_engine()
    offered, has_gpus = {GPU} if engine is Engine.GPU else set[str](), False
    silence = SilentWorkers()
    while not is_over.wait(LOOK_SECONDS):
        now = time.monotonic()
        workers = workers_of(client)
        for silent in silence.begun(workers or {}, now):
            warn_user(silent)
        offer = None if workers is None else offered_by(workers)
        if offer and engine is Engine.CPU:
            offer.discard(GPU)
        if offer is None or (offer and offered <= offer):
            missing_since = None
            offered |= offer or set()
            if offer and GPU in offer and not has_gpus:
                has_gpus = True
                get_run_logger().info(ON_GPUS)
            continue
        missing_since = missing_since or now
        if now - missing_since >= FIRST_WARNING_SECONDS and (
            now - said_at >= NEXT_WARNING_SECONDS or said_at < missing_since
        ):
            said_at = now
            needed, where_needed = ("a worker with a GPU", ", if it needs one") if offer else ("a worker", "")
            warn_user(
                f"waiting for {needed} of the Dask cluster at {client.scheduler.address}: there has been none "
                f"for {now - missing_since:.0f} s; the build ends after {no_workers_timeout()} of that, unless the "
                f"scheduler waits longer{where_needed}"
            )


class SilentWorkers:
    """The time since the last heartbeat of each worker, by the clock of this process."""

    def __init__(self) -> None:
        self.heard = dict[str, tuple[float, float]]()  # by the scheduler's clock, and by this process's clock

    def begun(self, workers: Workers, now: float) -> Iterator[str]:
        """Yield a sentence about each worker that has just been silent for SILENT_SECONDS."""
        before, self.heard = self.heard, {}
        for address, worker in workers.items():
            seen, at = before.get(address, (None, now))
            is_silent = seen == worker["last_seen"]
            self.heard[address] = (worker["last_seen"], at if is_silent else now)
            if is_silent and now - at >= SILENT_SECONDS:
                self.heard[address] = (worker["last_seen"], math.inf)  # warn only once
                yield (
                    f"the worker {address} has not answered for {now - at:.0f} s: it is stopped, or its machine "
                    "is overloaded. Dask will restart it, and repeat its unfinished tasks"
                )


def workers_of(client: Any) -> Workers | None:
    """Return the scheduler's information about each worker; None if the scheduler is unreachable."""
    try:
        return client.scheduler_info(n_workers=-1)["workers"] if client.status == "running" else None
    except (OSError, TimeoutError):
        return None


def offered_by(workers: Workers) -> set[str]:
    """Return the resources of all workers: a thread, and a GPU if a worker offers it; empty without workers."""
    return {"thread" for _ in workers} | {GPU for worker in workers.values() if GPU in worker["resources"]}


def warn_user(sentence: str) -> None:
    """Write a warning to the log of the run and to standard error."""
    get_run_logger().warning(sentence)
    print(f"zyda: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
