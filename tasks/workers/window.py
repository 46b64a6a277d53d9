"""Many items over the workers of a cluster, some in flight at a time (a window, for back-pressure)."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar
from itertools import count as count_up
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

import distributed
from dask.utils import parse_timedelta

from tasks.errors import LostWorkers
from tasks.workers.dask_cluster import ALLOWED_DEATHS, CPU, GPU, no_workers_timeout
from tasks.workers.deaths import FEW, Deaths
from tasks.workers.engine import ENGINE, Engine, FollowUp, SentToGpu

Item = TypeVar("Item")
Result = TypeVar("Result")

CLIENT: ContextVar[Any] = ContextVar("client", default=None)
AT_ONCE = 8  # items of one task that wait for the cluster side by side
LOOK_SECONDS = 1
MOST_LOST = 3  # items that take workers with them, before it is taken for the cluster that fails
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
            client.register_plugin(Deaths())
            sent = submission_to(client, engine, function, gpus)
            return Window(client, sent, items, count, (group, name), then).results_of_all()
        except distributed.scheduler.KilledWorker as error:  # on what follows a result
            raise LostWorkers(
                f"{name}: {ALLOWED_DEATHS} workers died one after another on the same work for GPUs"
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


class Window(Generic[Item, Result]):
    """Items of which some are in flight, and some of what follows, so that a million do not swamp the scheduler.

    count: called with every result as it comes. known_as: the group of tasks that take about as long, and the name
    of these. then: what follows each result.
    """

    def __init__(
        self,
        client: Any,
        sent: Submission,
        items: list[Item],
        count: Callable[[Result], Result],
        known_as: tuple[str, str],
        then: FollowUp | None,
    ) -> None:
        self.client, self.sent, self.items, self.count, self.then = client, sent, items, count, then
        self.group, self.name = known_as
        self.size = max(16, IN_FLIGHT * sum(client.nthreads().values()))
        self.waiting, self.call = deque(range(len(items))), uuid4().hex
        self.results: dict[int, Result] = {}
        self.places: dict[Any, int] = {}
        self.lost = list[int]()  # each of which took one worker after another with it
        self.running = distributed.as_completed(loop=client.loop, with_results=True, raise_errors=False)
        self.following = submission_to(client, then.engine, then.function, then.gpus) if then else None
        self.followers, self.followed = count_up(), set[Any]()

    def results_of_all(self) -> list[Result]:
        """Return the results in the order of the items, when all are there.

        Raises what the first failing item raised, and LostWorkers, when all others are finished, where an item took
        one worker after another with it; at once where more than MOST_LOST items did.
        """
        self.refill()
        self.take_all()
        if len(self.lost) > 1:  # those that died beside another, too: now each is alone
            for i in self.take_lost():
                self.submit(i, "alone")
                self.take_all()
        if self.lost:
            raise LostWorkers(self.sentence())
        return [self.results[i] for i in range(len(self.items))]

    def take_all(self) -> None:
        for future, result in self.running:
            if future.status == "error":
                self.take_failure(future.key, result[1])
            elif future.key in self.followed:
                self.followed.discard(future.key)
            else:
                self.results[self.places.pop(future.key)] = self.count(result)
                self.follow(result)
            self.refill()

    def take_failure(self, key: Any, error: BaseException) -> None:
        if key not in self.places or not isinstance(error, distributed.scheduler.KilledWorker):
            raise error
        self.lost.append(self.places.pop(key))
        if len(self.lost) > MOST_LOST:
            raise LostWorkers(self.sentence()) from error

    def take_lost(self) -> list[int]:
        lost, self.lost = self.lost, []
        return lost

    def sentence(self) -> str:
        named = ", ".join(name_of(self.items[i]) for i in sorted(self.lost))
        rest = "" if len(self.lost) > MOST_LOST else "; all others are finished"
        return (
            f"{self.name}: {FEW} workers died one after another on {named}{rest}. The usual cause is "
            "memory: make shard_mib smaller in the recipe, or start fewer workers, and build again"
        )

    def refill(self) -> None:
        while self.waiting and len(self.places) < self.size and len(self.followed) < self.size:
            self.submit(self.waiting.popleft())

    def submit(self, i: int, how: str = "") -> None:
        # The first part is the group of the task: Dask moves tasks from a busy worker to an idle one only
        # where it knows from others of their group how long they take. The last part is of this call alone:
        # of two tasks with one key Dask would run the first only.
        key = (self.group, f"{self.name}-{i}{how}-{self.call}")
        future = self.client.submit(self.sent.function, self.items[i], pure=False, key=key, **self.sent.where)
        self.places[future.key] = i
        self.running.add(future)

    def follow(self, result: Result) -> None:
        if self.then and self.following:
            for item in self.then.items(result):
                key = (f"{self.group} on a GPU", f"{self.name}-{next(self.followers)}-{self.call}")
                function, where = self.following
                future = self.client.submit(function, item, pure=False, key=key, **where)
                self.followed.add(future.key)
                self.running.add(future)


def name_of(item: Any) -> str:
    """Name an item in an error: the file that it reads, and what it is called in its stage."""
    file, name = getattr(getattr(item, "file", None), "url", None), getattr(item, "name", None)
    return " of ".join(str(part) for part in (name, file) if part is not None) or str(item)
