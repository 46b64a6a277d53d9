"""What a person is told when a build's Dask cluster has no workers, or is gone."""

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
    "workers of the cluster offer GPUs: stages that begin from now on have signatures, edges, clusters and "
    f"quality models made there ({ENGINE}=cpu has them made by CPUs)"
)
SILENT_SECONDS = 60  # in which a worker was not heard of
FIRST_WORD, NEXT_WORD = 10, 60  # seconds without a worker before it is said, and said again


@contextmanager
def watch_cluster() -> Iterator[None]:
    """Say so while the cluster of this flow run has no workers, and explain what ends it."""
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
    """Look every few seconds whether there is a worker, whether each answers, and whether GPUs are offered."""
    missing_since, said_at, engine = None, 0.0, requested_engine()
    offered, has_gpus = {GPU} if engine is Engine.GPU else set[str](), False
    silence = Silence()
    while not is_over.wait(LOOK_SECONDS):
        now = time.monotonic()
        workers = workers_of(client)
        for silent in silence.begun(workers or {}, now):
            warn_aloud(silent)
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
        if now - missing_since >= FIRST_WORD and (now - said_at >= NEXT_WORD or said_at < missing_since):
            said_at = now
            needed, where_needed = ("a worker with a GPU", ", if it needs one") if offer else ("a worker", "")
            warn_aloud(
                f"waiting for {needed} of the Dask cluster at {client.scheduler.address}: there has been none "
                f"for {now - missing_since:.0f} s; the build ends after {no_workers_timeout()} of that, unless the "
                f"scheduler waits longer{where_needed}"
            )


class Silence:
    """How long nobody has heard of each worker, by the clock of this process."""

    def __init__(self) -> None:
        self.heard = dict[str, tuple[float, float]]()  # when by the scheduler's clock, and by ours

    def begun(self, workers: Workers, now: float) -> Iterator[str]:
        """Yield a sentence on each worker that has just been silent for a minute."""
        before, self.heard = self.heard, {}
        for address, worker in workers.items():
            seen, at = before.get(address, (None, now))
            is_silent = seen == worker["last_seen"]
            self.heard[address] = (worker["last_seen"], at if is_silent else now)
            if is_silent and now - at >= SILENT_SECONDS:
                self.heard[address] = (worker["last_seen"], math.inf)  # said once
                yield (
                    f"the worker {address} has not answered for {now - at:.0f} s: it is stopped, or its machine "
                    "has no time for it. Dask starts it again after a while, and what it was at is done again"
                )


def workers_of(client: Any) -> Workers | None:
    """Return what a cluster says of each of its workers; None where it cannot be asked, of which others speak."""
    try:
        return client.scheduler_info(n_workers=-1)["workers"] if client.status == "running" else None
    except (OSError, TimeoutError):
        return None


def offered_by(workers: Workers) -> set[str]:
    """Return what workers offer: a thread, and perhaps a GPU; nothing where there is no worker."""
    return {"thread" for _ in workers} | {GPU for worker in workers.values() if GPU in worker["resources"]}


def warn_aloud(sentence: str) -> None:
    """Say it in the run's log, and to whoever sits before the terminal."""
    get_run_logger().warning(sentence)
    print(f"zyda: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
