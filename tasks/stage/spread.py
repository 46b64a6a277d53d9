"""How a stage spreads the work on its shards over Dask's workers, and how they report to the flow."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, TypeVar
from uuid import uuid4

import distributed
from distributed.worker import thread_state
from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging import get_run_logger

from tasks.errors import LostWorkers
from tasks.log import LOG
from tasks.stage.progress import TOPIC, Progress
from tasks.stage.workers import GPU, LIVES

Item = TypeVar("Item")
Result = TypeVar("Result")

IN_FLIGHT = 8  # shards submitted ahead, for each thread of the cluster
WARNINGS = "zyda-warnings"  # the topic of Dask's event log by which a worker's warnings reach the flow


def is_on_worker() -> bool:
    """Say whether this thread runs a task of a Dask worker."""
    return hasattr(thread_state, "execution_state")


def fan_out(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    stage: str,
    source: str | None,
    on_gpu: bool = False,
) -> list[Result]:
    """Call a function on every item, over the cluster, and return the results in order.

    on_gpu: call it only on workers that offer a GPU, where the cluster has some besides others.

    Progress goes to the dashboard and to whoever follows the build. Without a cluster, as in a
    test of one stage, the items are done here, one after another. Raises what the first failing
    item raised, and LostWorkers where an item took one worker after another with it.
    """
    todo = list(items)
    progress = Progress(stage, source, len(todo))
    if not is_on_worker():
        return [progress.count(function(item)) for item in todo]
    return context_without_prefect().run(spread, function, todo, progress, copy_context(), on_gpu)


def context_without_prefect() -> Context:
    """Copy this context without what Prefect keeps in it.

    What a worker starts next inherits the context of the thread that gives it room. A Prefect task
    that finds another's transaction there leaves the saving of its result to that one, which is over.
    """
    clean = Context()
    for variable, value in copy_context().items():
        if not type(value).__module__.startswith("prefect."):
            clean.run(variable.set, value)
    return clean


def spread(
    function: Callable[[Item], Result],
    items: list[Item],
    progress: Progress,
    context: Context,
    on_gpu: bool,
) -> list[Result]:
    """Call a function on items over the cluster; report progress in the context of the stage's task.

    The calling task gives its thread back while it waits, or a cluster whose every thread runs such a
    task would wait for itself.
    """
    count = lambda result: context.run(progress.count, result)  # noqa: E731
    with distributed.worker_client() as client:
        where = {"resources": {GPU: 1}} if on_gpu and offers_gpu(client) else {}
        return in_window(client, function, items, count, progress, where)


def offers_gpu(client: Any) -> bool:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return any(GPU in worker["resources"] for worker in workers)


def in_window(
    client: Any,
    function: Callable[[Item], Result],
    items: list[Item],
    count: Callable[[Result], Result],
    progress: Progress,
    where: dict[str, Any],
) -> list[Result]:
    """Keep some items in flight, so that a million shards do not swamp the scheduler."""
    window = max(16, IN_FLIGHT * sum(client.nthreads().values()))
    waiting, call = deque(enumerate(items)), uuid4().hex
    results: dict[int, Result] = {}
    place: dict[Any, int] = {}
    running = distributed.as_completed(loop=client.loop, with_results=True)

    def submit() -> None:
        i, item = waiting.popleft()
        # The first part groups the shards of a stage: Dask moves tasks from a busy worker to an idle one
        # only where it knows from others of their group how long they take.
        key = (f"{progress.stage} shard", f"{progress.name}-{i}-{call}")
        future = client.submit(function, item, pure=False, key=key, **where)
        place[future.key] = i
        running.add(future)

    while waiting and len(place) < window:
        submit()
    try:
        for future, result in running:
            results[place[future.key]] = count(result)
            if waiting:
                submit()
    except distributed.scheduler.KilledWorker as error:
        raise LostWorkers(
            f"{progress.name}: {LIVES} workers died one after another on the same shard; the usual "
            "cause is memory: make shard_mib smaller in the recipe, or start fewer workers"
        ) from error
    return [results[i] for i in range(len(items))]


class ToTheRun(logging.Handler):
    """Leads our log to that of the run that is here.

    A shard's work on a worker has none of its own; what it says goes to the flow, as an event of Dask's.
    """

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if TaskRunContext.get() or FlowRunContext.get():
            get_run_logger().log(record.levelno, "%s", text)
        elif is_on_worker():
            distributed.get_worker().log_event(WARNINGS, text)
        elif logging.lastResort and not logging.root.handlers:
            logging.lastResort.handle(record)


LOG.handlers = [ToTheRun()]


def follow(handle: Callable[[Any], None], runner: Any, topic: str = TOPIC) -> None:
    """Call `handle` with every report of a running build's workers, in the flow's own process."""
    runner.client.subscribe_topic(topic, lambda event: handle(event[1]))
