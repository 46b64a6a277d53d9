"""What a person is told when a build's Dask cluster has no workers, or is gone."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from prefect.context import FlowRunContext
from prefect.logging import get_run_logger

from tasks.workers.dask_cluster import GPU, patience
from tasks.workers.engine import ENGINE, Engine, engine_asked
from tasks.workers.trouble import cluster_explained

LOOK_SECONDS = 5
ON_GPUS = (
    "workers of the cluster offer GPUs: stages that begin from now on have signatures, edges, clusters and "
    f"quality models made there ({ENGINE}=cpu has them made by CPUs)"
)
FIRST_WORD, NEXT_WORD = 10, 60  # seconds without a worker before it is said, and said again


@contextmanager
def on_a_cluster() -> Iterator[None]:
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
    """Look every few seconds whether there is a worker, and whether GPUs that were offered still are."""
    missing_since, said_at, engine = None, 0.0, engine_asked()
    offered, has_gpus = {GPU} if engine is Engine.GPU else set[str](), False
    while not is_over.wait(LOOK_SECONDS):
        now = time.monotonic()
        found = offered_now(client)
        if found and engine is Engine.CPU:
            found.discard(GPU)
        if found is None or (found and offered <= found):
            missing_since = None
            offered |= found or set()
            if found and GPU in found and not has_gpus:
                has_gpus = True
                get_run_logger().info(ON_GPUS)
            continue
        missing_since = missing_since or now
        if now - missing_since >= FIRST_WORD and (now - said_at >= NEXT_WORD or said_at < missing_since):
            said_at = now
            what, where_needed = ("a worker with a GPU", ", if it needs one") if found else ("a worker", "")
            warn_aloud(
                f"waiting for {what} of the Dask cluster at {client.scheduler.address}: there has been none "
                f"for {now - missing_since:.0f} s; the build ends after {patience()} of that, unless the scheduler "
                f"waits longer{where_needed}"
            )


def offered_now(client: Any) -> set[str] | None:
    """Return what the workers of a cluster offer: a thread, and perhaps a GPU; nothing where there is no worker.

    None where the cluster cannot be asked, of which others speak.
    """
    try:
        if client.status != "running":
            return None
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    except (OSError, TimeoutError):
        return None
    return {"thread" for _ in workers} | {GPU for worker in workers if GPU in worker["resources"]}


def warn_aloud(sentence: str) -> None:
    """Say it in the run's log, and to whoever sits before the terminal."""
    get_run_logger().warning(sentence)
    print(f"zyda: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
