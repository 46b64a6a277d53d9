"""Many items over the workers of a cluster, some in flight at a time (a window, for back-pressure)."""

import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from itertools import count as count_up
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import distributed

from zyda_flows.tasks.errors import LostWorkers, PoisonShards, all_but_poison
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.workers.attempts import Attempt, Outcome, SetApart
from zyda_flows.tasks.workers.dask_cluster import ALLOWED_DEATHS, GPU
from zyda_flows.tasks.workers.engine import ENGINE, Engine, FollowUp
from zyda_flows.tasks.workers.submission import WAITING, Submission, WaitingTask, submission_to, waiting_task

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 8  # items of one task that wait for the cluster side by side
IN_FLIGHT = 8  # items submitted ahead, for each thread of the cluster
DEATHS = 3  # workers that an item may take with it beside others
DEATHS_IN_ALL = 5  # and then, when all others are done
# What is still running after so long, and so many times as long as half of the others took, is slow.
SLOW_SECONDS, SLOW_TIMES = 30.0, 3.0
LOOK_SECONDS = 1.0


def over_workers(
    function: Callable[[Item], Result],
    items: list[Item],
    count: Callable[[Result, Spent], Result],
    *,
    group: str,
    name: str,
    engine: Engine,
    gpus: float = 1,
    then: FollowUp | None = None,
) -> list[Result]:
    """Call a function on items over the cluster of which this thread is a worker's; return results in order.

    count: called with every result as it comes, and what it took, here. group: of tasks that take about as long,
    by which Dask knows them. name: of these items. engine: on which workers. gpus: how much of one GPU a call
    takes, where it is sent to one. then: what follows each result.

    The calling task gives its thread back while it waits, or a cluster whose every thread runs such a
    task would wait for itself. Raises PoisonShards, when all others are done, where an item took one worker after
    another with it, and LostWorkers where no worker offers the GPU that is asked for.
    """
    with waiting_task() as task:
        window = Window(task, Work(function, engine, gpus, group), then, count, name)
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
                + (f", or the build again, with {ENGINE}=cpu if none is to come" if wanted == GPU else "")
            ) from error


def side_by_side(function: Callable[[Item], Result], items: list[Item], context: Context) -> list[Result]:
    """Call a function that waits for the cluster on items, some at a time; return results in order.

    context: of each call. Raises what the first failing item raised, when none is under way any more.
    """

    def call(item: Item) -> Result:
        of_call = context.copy()
        of_call.run(WAITING.set, task)
        return of_call.run(function, item)

    with waiting_task() as task, ThreadPoolExecutor(AT_ONCE) as threads:
        calls = [threads.submit(call, item) for item in items]
    return all_but_poison([called.result for called in calls])


class Work(NamedTuple):
    """A function, and where it is called. group: of tasks that take about as long, by which Dask knows them."""

    function: Callable[[Any], Any]
    engine: Engine
    gpus: float
    group: str

    def submission(self, client: Any, deaths: int) -> Submission:
        """Return how it is sent, where each item may have taken so many workers with it."""
        return submission_to(client, self.engine, Attempt(self.function, deaths), self.gpus)


@dataclass(eq=False)
class ItemCall:
    """One item of some work. place: of its result among the others', or None where it follows one.

    tries: its futures that are under way, by their keys.
    """

    work: Work
    item: Any
    place: int | None = None
    tries: dict[Any, Any] = field(default_factory=dict)


class Window:
    """Keeps some items in flight, and some of what follows, so that a million shards do not swamp the scheduler.

    An item that takes workers with it is set apart, and tried again when all others are done. The last items are
    tried on an idle worker, too, where their own are slow: whoever makes it, the result is the same.
    """

    def __init__(
        self,
        task: WaitingTask,
        work: Work,
        then: FollowUp | None,
        count: Callable[[Any, Spent], Any],
        name: str,
    ) -> None:
        self.task, self.client = task, task.client
        self.work, self.then, self.count, self.name = work, then, count, name
        self.following = (
            Work(then.function, then.engine, then.gpus, f"{work.group} on a GPU") if then else None
        )
        self.numbers, self.of_this = count_up(), uuid4().hex
        self.done = SimpleQueue[Any]()  # futures that are
        self.calls = dict[Any, ItemCall]()  # by the keys of their futures
        self.in_flight = Counter[Work]()
        self.submissions = dict[Work, Submission]()
        self.made = dict[int, Any]()
        self.seconds = list[float]()
        self.apart = list[tuple[ItemCall, SetApart]]()

    def results(self, items: Iterable[Any]) -> list[Any]:
        """Return the results of items in order. Raises what the first failing item raised, or PoisonShards."""
        try:
            self.run(
                [ItemCall(self.work, item, i) for i, item in enumerate(items)],
                DEATHS,
                max(16, IN_FLIGHT * sum(self.client.nthreads().values())),
            )
            if suspects := self.apart:
                self.apart = []
                for _, found in suspects:
                    warn(f"{self.name}: {found}; it is tried again, with a worker to itself")
                calls = [call for call, _ in suspects]
                self.run(calls, DEATHS_IN_ALL, max(1, len(self.client.nthreads())))
        finally:
            if self.calls:  # an item failed
                self.client.cancel([future for call in self.calls.values() for future in call.tries.values()])
        if self.apart:
            raise PoisonShards(
                *(
                    f"{self.name}: {found}; all others are done; the usual cause is memory: start fewer workers, "
                    "or, in a stage of a source, make shard_mib smaller in the recipe"
                    for _, found in self.apart
                )
            )
        return [self.made[i] for i in range(len(self.made))]

    def run(self, calls: Iterable[ItemCall], deaths: int, most: int) -> None:
        """Make calls, so many at a time, and those that follow from what they return."""
        waiting, idle_since = deque(calls), 0.0
        self.submissions = {
            work: work.submission(self.client, deaths)
            for work in (self.work, self.following)
            if work and waiting
        }
        while waiting or self.calls:
            while waiting and max(self.in_flight.values(), default=0) < most:
                self.submit(waiting.popleft())
            if not waiting:
                idle_since = idle_since or time.monotonic()
            if done := self.next_done():
                for future, outcome in zip(done, self.client.gather(done), strict=True):
                    self.take(future.key, outcome)
            elif idle_since and time.monotonic() - idle_since > self.slow_seconds():
                self.try_twice()

    def submit(self, call: ItemCall) -> None:
        # The first part is the group of the task: Dask moves tasks from a busy worker to an idle one only where it
        # knows from others of their group how long they take. The last part is of this window alone: of two tasks
        # with one key Dask would run the first only.
        key = (call.work.group, f"{self.name}-{next(self.numbers)}-{self.of_this}")
        function, where = self.submissions[call.work]
        self.in_flight[call.work] += not call.tries
        self.calls[key] = call
        call.tries[key] = future = self.client.submit(function, call.item, pure=False, key=key, **where)
        future.add_done_callback(self.done.put)

    def next_done(self) -> list[Any]:
        """Wait for what is done next, a while, and return all that is by then."""
        done = list[Any]()
        with suppress(Empty):
            done.append(self.done.get(timeout=LOOK_SECONDS))
            while True:
                done.append(self.done.get_nowait())
        # without those whose other try was first
        return [future for future in done if future.key in self.calls]

    def take(self, key: Any, outcome: Outcome) -> None:
        """Take what came of a try."""
        call = self.calls.pop(key, None)
        if call is None:  # its other try is among those that are done by now
            return
        del call.tries[key]
        if isinstance(outcome.result, SetApart) and call.tries:
            return
        if call.tries:
            self.task.leaves_work = True  # Dask cannot stop what has begun
            self.client.cancel([*call.tries.values()])
            for key in call.tries:
                del self.calls[key]
            call.tries = {}
        self.in_flight[call.work] -= 1
        if isinstance(outcome.result, SetApart):
            self.apart.append((call, outcome.result))
            return
        self.seconds.append(outcome.seconds)
        if call.place is not None:
            self.made[call.place] = self.count(outcome.result, outcome.spent)
            if self.then and self.following:
                for item in self.then.items(outcome.result):
                    self.submit(ItemCall(self.following, item))

    def slow_seconds(self) -> float:
        """Return after how long what is left is slow."""
        return max(SLOW_SECONDS, SLOW_TIMES * statistics.median(self.seconds or [0.0]))

    def try_twice(self) -> None:
        """Try what is left on workers that have nothing to do, one item on each."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        idle = sum(has_a_thread_idle(worker) for worker in workers)
        slow = [call for call in dict.fromkeys(self.calls.values()) if len(call.tries) == 1]
        for call in slow[:idle] if len(slow) <= len(workers) else ():
            self.submit(call)


def has_a_thread_idle(worker: Mapping[str, Any]) -> bool:
    """Say whether a worker has nothing to do for one of its threads, by what its scheduler knows of it."""
    tasks = worker["metrics"].get("task_counts")
    return tasks is not None and tasks.get("executing", 0) + tasks.get("ready", 0) < worker["nthreads"]
