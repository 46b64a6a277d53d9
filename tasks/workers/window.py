"""Many items over the workers of a cluster, some in flight at a time (a window, for back-pressure)."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar
from itertools import count as count_up
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import distributed
from dask.utils import parse_timedelta

from tasks.errors import LostWorkers
from tasks.workers.dask_cluster import ALLOWED_DEATHS, CPU, GPU, no_workers_timeout
from tasks.workers.engine import ENGINE, Engine, FollowUp, SentToGpu

Item = TypeVar("Item")
Result = TypeVar("Result")

CLIENT: ContextVar[Any] = ContextVar("client", default=None)
AT_ONCE = 8  # items of one task that wait for the cluster side by side
LOOK_SECONDS = 1
IN_FLIGHT = 8  # items submitted ahead, for each thread of the cluster


def over_workers(
    function: Callable[[Item], Result],
    items: list[Item],
    count: Callable[[Result], Result],
    *,
    group: str,
    name: str,
    engine: Engine,
    gpus: float = 1,
    then: FollowUp | None = None,
) -> list[Result]:
    """Call a function on items over the cluster of which this thread is a worker's; return results in order.

    count: called with every result as it comes, here. group: of tasks that take about as long, by which Dask
    knows them. name: of these items. engine: on which workers. gpus: how much of one GPU a call takes, where it
    is sent to one. then: what follows each result.

    The calling task gives its thread back while it waits, or a cluster whose every thread runs such a
    task would wait for itself. Raises LostWorkers where an item took one worker after another with it, or
    no worker offers the GPU that is asked for.
    """
    with client_of_task() as client:
        try:
            return submit_bounded(
                client, submission_to(client, engine, function, gpus), items, count, (group, name), then
            )
        except distributed.scheduler.KilledWorker as error:
            raise LostWorkers(
                f"{name}: {ALLOWED_DEATHS} workers died one after another on the same shard; the usual "
                "cause is memory: make shard_mib smaller in the recipe, or start fewer workers"
            ) from error
        except distributed.scheduler.NoValidWorkerError as error:
            wanted = "".join(error.resource_restrictions)
            raise LostWorkers(
                f"{name}: for {error.timeout:.0f} s, no worker of the cluster has offered a {wanted}; start some"
                + (f", or the build again, with {ENGINE}=cpu if none is to come" if wanted == GPU else "")
            ) from error


@contextmanager
def client_of_task() -> Iterator[Any]:
    """Give the client by which a task submits to its cluster; where it has one already, the same."""
    if (known := CLIENT.get()) is not None:
        yield known
        return
    with distributed.worker_client() as client:
        token = CLIENT.set(client)
        try:
            yield client
        finally:
            CLIENT.reset(token)


def waits_for_cluster() -> bool:
    """Say whether this thread belongs to a task that waits for its cluster."""
    return CLIENT.get() is not None


def side_by_side(function: Callable[[Item], Result], items: list[Item], context: Context) -> list[Result]:
    """Call a function that waits for the cluster on items, some at a time; return results in order.

    context: of each call. Raises what the first failing item raised, when none is under way any more.
    """

    def call(item: Item) -> Result:
        of_call = context.copy()
        of_call.run(CLIENT.set, client)
        return of_call.run(function, item)

    with client_of_task() as client, ThreadPoolExecutor(AT_ONCE) as threads:
        calls = [threads.submit(call, item) for item in items]
    return [called.result() for called in calls]


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
    with client_of_task() as client:
        return isinstance(submission_to(client, engine, is_sent_to_gpu).function, SentToGpu)


def offered_by_workers(client: Any) -> set[str]:
    """Return the names of all resources that workers offer."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return {name for worker in workers for name in worker["resources"]}


def submit_bounded(
    client: Any,
    sent: Submission,
    items: list[Item],
    count: Callable[[Result], Result],
    known_as: tuple[str, str],
    then: FollowUp | None,
) -> list[Result]:
    """Keep some items in flight, and some of what follows, so that a million shards do not swamp the scheduler."""
    window = max(16, IN_FLIGHT * sum(client.nthreads().values()))
    waiting, call = deque(enumerate(items)), uuid4().hex
    group, name = known_as
    results: dict[int, Result] = {}
    places: dict[Any, int] = {}
    running = distributed.as_completed(loop=client.loop, with_results=True)
    following = submission_to(client, then.engine, then.function, then.gpus) if then else None
    followers, followed = count_up(), set[Any]()

    def submit() -> None:
        i, item = waiting.popleft()
        # The first part is the group of the task: Dask moves tasks from a busy worker to an idle one only
        # where it knows from others of their group how long they take. The last part is of this call alone:
        # of two tasks with one key Dask would run the first only.
        key = (group, f"{name}-{i}-{call}")
        future = client.submit(sent.function, item, pure=False, key=key, **sent.where)
        places[future.key] = i
        running.add(future)

    def follow(result: Result) -> None:
        if then and following:
            for item in then.items(result):
                key = (f"{group} on a GPU", f"{name}-{next(followers)}-{call}")
                future = client.submit(following.function, item, pure=False, key=key, **following.where)
                followed.add(future.key)
                running.add(future)

    def refill() -> None:
        while waiting and len(places) < window and len(followed) < window:
            submit()

    refill()
    for future, result in running:
        if future.key in followed:
            followed.discard(future.key)
        else:
            results[places.pop(future.key)] = count(result)
            follow(result)
        refill()
    return [results[i] for i in range(len(items))]
