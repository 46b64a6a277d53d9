"""Run many items on the workers of a cluster, with a limited number in flight (a window, for back-pressure)."""

import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count as count_up
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import distributed

from zyda_flows.tasks.errors import LostWorkers, PoisonShards
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.workers.attempts import Attempt, CallOutcome, PoisonItem
from zyda_flows.tasks.workers.dask_cluster import ALLOWED_DEATHS, GPU
from zyda_flows.tasks.workers.engine import ENGINE, Engine, FollowUp
from zyda_flows.tasks.workers.submission import Submission, WaitingTask, submission_to, waiting_task

Item = TypeVar("Item")
Result = TypeVar("Result")

IN_FLIGHT = 8  # items submitted ahead per thread of the cluster
DEATHS = 3  # workers that may die during an item while other items run
DEATHS_IN_ALL = 5  # total, including the second attempt after all other items
# An item is slow if it runs longer than both SLOW_SECONDS and SLOW_TIMES the median of the finished items.
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


class RemoteFunction(NamedTuple):
    """A function, and where to call it. group: name for tasks of about equal duration, for Dask's estimates."""

    function: Callable[[Any], Any]
    engine: Engine
    gpus: float
    group: str

    def submission(self, client: Any, deaths: int) -> Submission:
        """Return the submission for items during which `deaths` workers may die."""
        return submission_to(client, self.engine, Attempt(self.function, deaths), self.gpus)


@dataclass(eq=False, slots=True)
class ItemCall:
    """One item of some work. place: index of its result, or None if the item follows from another result.

    tries: the pending futures of the item, by key.
    """

    work: RemoteFunction
    item: Any
    place: int | None = None
    tries: dict[Any, Any] = field(default_factory=dict)


class Window:
    """Keep a limited number of items and follow-up items in flight.

    Without a limit, a million shards would overload the scheduler.

    An item during which workers died is set apart and tried again after all other items. If the last items are
    slow, they are also tried on idle workers: the result does not depend on the worker.
    """

    def __init__(
        self,
        task: WaitingTask,
        work: RemoteFunction,
        follow_up: FollowUp | None,
        count: Callable[[Any, Spent], Any],
        name: str,
    ) -> None:
        self.task, self.client = task, task.client
        self.work, self.follow_up, self.count, self.name = work, follow_up, count, name
        self.following = (
            RemoteFunction(follow_up.function, follow_up.engine, follow_up.gpus, f"{work.group} on a GPU")
            if follow_up
            else None
        )
        self.numbers, self.token = count_up(), uuid4().hex
        self.done = SimpleQueue[Any]()  # finished futures
        self.calls = dict[Any, ItemCall]()  # by the keys of their futures
        self.in_flight = Counter[RemoteFunction]()
        self.submissions = dict[RemoteFunction, Submission]()
        self.made = dict[int, Any]()
        self.seconds = list[float]()
        self.poison_items = list[tuple[ItemCall, PoisonItem]]()

    def results(self, items: Iterable[Any]) -> list[Any]:
        """Return results in the order of the items. Raises the error of the first failing item, or PoisonShards."""
        try:
            self.run(
                (ItemCall(self.work, item, i) for i, item in enumerate(items)),
                DEATHS,
                max(16, IN_FLIGHT * sum(self.client.nthreads().values())),
            )
            if suspects := self.poison_items:
                self.poison_items = []
                for _, poison_item in suspects:
                    warn(f"{self.name}: {poison_item}; it is tried again on a worker that runs nothing else")
                calls = [call for call, _ in suspects]
                self.run(calls, DEATHS_IN_ALL, max(1, len(self.client.nthreads())))
        finally:
            if self.calls:  # an item failed
                self.client.cancel([future for call in self.calls.values() for future in call.tries.values()])
        if self.poison_items:
            raise PoisonShards(
                *(
                    f"{self.name}: {poison_item}; all others are done; the usual cause is memory: start fewer "
                    "workers, or, in a stage of a source, make shard_mib smaller in the recipe"
                    for _, poison_item in self.poison_items
                )
            )
        return [self.made[i] for i in range(len(self.made))]

    def run(self, calls: Iterable[ItemCall], deaths: int, most: int) -> None:
        """Run calls and their follow-up calls, with at most `most` of each in flight."""
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
        # The first part of the key is the group of the task: Dask moves a task from a busy worker to an idle worker
        # only if it knows the durations of other tasks of the group. The last part is unique to this window: of two
        # tasks with equal keys Dask would run only the first.
        key = (call.work.group, f"{self.name}-{next(self.numbers)}-{self.token}")
        function, where = self.submissions[call.work]
        self.in_flight[call.work] += not call.tries
        self.calls[key] = call
        call.tries[key] = future = self.client.submit(function, call.item, pure=False, key=key, **where)
        future.add_done_callback(self.done.put)

    def next_done(self) -> list[Any]:
        """Wait at most LOOK_SECONDS for a finished future; return all futures that are finished by then."""
        done = list[Any]()
        with suppress(Empty):
            done.append(self.done.get(timeout=LOOK_SECONDS))
            while True:
                done.append(self.done.get_nowait())
        # skip futures of a call whose other try has finished before
        return [future for future in done if future.key in self.calls]

    def take(self, key: Any, outcome: CallOutcome) -> None:
        """Process the outcome of a try."""
        call = self.calls.pop(key, None)
        if call is None:  # the call's other try has already finished
            return
        del call.tries[key]
        if isinstance(outcome.result, PoisonItem) and call.tries:
            return
        if call.tries:
            self.task.leaves_work = True  # Dask cannot stop running work
            self.client.cancel([*call.tries.values()])
            for key in call.tries:
                del self.calls[key]
            call.tries = {}
        self.in_flight[call.work] -= 1
        if isinstance(outcome.result, PoisonItem):
            self.poison_items.append((call, outcome.result))
            return
        self.seconds.append(outcome.seconds)
        if call.place is not None:
            self.made[call.place] = self.count(outcome.result, outcome.spent)
            if self.follow_up and self.following:
                for item in self.follow_up.items(outcome.result):
                    self.submit(ItemCall(self.following, item))

    def slow_seconds(self) -> float:
        """Return the seconds after which a running item is slow."""
        return max(SLOW_SECONDS, SLOW_TIMES * statistics.median(self.seconds or [0.0]))

    def try_twice(self) -> None:
        """Submit slow items again to idle workers, one item for each idle worker."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        idle = sum(has_a_thread_idle(worker) for worker in workers)
        slow = [call for call in dict.fromkeys(self.calls.values()) if len(call.tries) == 1]
        for call in slow[:idle] if len(slow) <= len(workers) else ():
            self.submit(call)


def has_a_thread_idle(worker: Mapping[str, Any]) -> bool:
    """Return whether a worker has an idle thread, according to the scheduler's metrics."""
    tasks = worker["metrics"].get("task_counts")
    return tasks is not None and tasks.get("executing", 0) + tasks.get("ready", 0) < worker["nthreads"]
