"""The window of a distribution of items: a limited number of tasks in flight, for back-pressure."""

import math
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count as count_up
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from distributed.protocol import pickle

from zyda_flows.tasks.errors import PoisonShards
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.workers.attempts import CallOutcome, PoisonItem
from zyda_flows.tasks.workers.batches import (
    LEAST_IN_FLIGHT,
    MOST_ITEMS_IN_FLIGHT,
    RECENT,
    batch_size,
    expected_seconds,
    first_in_flight,
    in_messages,
)
from zyda_flows.tasks.workers.engine import FollowUp
from zyda_flows.tasks.workers.item_calls import BatchTask, ItemCall, RemoteFunction, has_a_thread_idle
from zyda_flows.tasks.workers.submission import Submission, WaitingTask

IN_FLIGHT = 8  # tasks submitted ahead per thread of the cluster
DEATHS = 3  # workers that may die during an item while other items run
DEATHS_IN_ALL = 5  # total, including the second attempt after all other items
# An item is slow if it runs longer than both SLOW_SECONDS and SLOW_TIMES the median of the finished items.
SLOW_SECONDS, SLOW_TIMES = 30.0, 3.0
LOOK_SECONDS = 1.0


class Window:
    """Keep a limited number of tasks in flight, each of which runs one or more items.

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
        self.threads = max(1, sum(self.client.nthreads().values()))
        self.numbers, self.token = count_up(), uuid4().hex
        self.done = SimpleQueue[Any]()  # finished futures
        self.waiting = deque[ItemCall]()
        self.tasks = dict[Any, BatchTask]()  # pending, by the keys of their futures
        self.in_flight = Counter[RemoteFunction]()  # pending tasks
        self.submissions = dict[RemoteFunction, Submission]()
        self.made = dict[int, Any]()
        self.seconds = list[float]()  # of finished items
        self.poison_items = list[tuple[ItemCall, PoisonItem]]()

    def results(self, items: Iterable[Any]) -> list[Any]:
        """Return results in the order of the items. Raises the error of the first failing item, or PoisonShards."""
        try:
            self.run(
                (ItemCall(self.work, item, i) for i, item in enumerate(items)),
                DEATHS,
                max(LEAST_IN_FLIGHT, IN_FLIGHT * self.threads),
                in_batches=not self.follow_up,  # follow-up work begins after the first result
            )
            if suspects := self.poison_items:
                self.poison_items = []
                for _, poison_item in suspects:
                    warn(f"{self.name}: {poison_item}; it is tried again on a worker that runs nothing else")
                calls = [call for call, _ in suspects]
                self.run(calls, DEATHS_IN_ALL, max(1, len(self.client.nthreads())), in_batches=False)
        finally:
            if self.tasks:  # an item failed
                self.client.cancel([task.future for task in self.tasks.values()])
        if self.poison_items:
            raise PoisonShards(
                *(
                    f"{self.name}: {poison_item}; all others are done; the usual cause is memory: start fewer "
                    "workers, or, in a stage of a source, make shard_mib smaller in the recipe"
                    for _, poison_item in self.poison_items
                )
            )
        return [self.made[i] for i in range(len(self.made))]

    def run(self, calls: Iterable[ItemCall], deaths: int, most: int, *, in_batches: bool) -> None:
        """Run calls and their follow-up calls, with at most `most` tasks of each in flight."""
        self.waiting.extend(calls)
        idle_since = 0.0
        self.submissions = {
            work: work.submission(self.client, deaths, self.threads)
            for work in (self.work, self.following)
            if work and self.waiting
        }
        while self.waiting or self.tasks:
            self.refill(most, in_batches=in_batches)
            idle_since = 0.0 if self.waiting else idle_since or time.monotonic()
            if done := self.next_done():
                for future, outcomes in zip(done, self.client.gather(done), strict=True):
                    self.take(future.key, outcomes)
            elif idle_since and time.monotonic() - idle_since > self.slow_seconds():
                self.try_twice()

    def refill(self, most: int, *, in_batches: bool) -> None:
        """Submit waiting items when a quarter of the tasks in flight has ended: many tasks in each message.

        Fewer tasks are in flight before results show how long an item takes.
        """
        if not self.waiting:
            return
        seconds = expected_seconds(self.seconds[-RECENT:]) if in_batches and self.seconds else math.inf
        bytes_of_item = len(pickle.dumps(self.waiting[0].item))

        def size() -> int:
            return min(len(self.waiting), batch_size(len(self.waiting), seconds, self.threads, bytes_of_item))

        most = min(
            most,
            first_in_flight(self.threads) + len(self.seconds),
            MOST_ITEMS_IN_FLIGHT * self.threads // size(),
        )
        room = most - max(self.in_flight.values(), default=0)
        if room < most / 4:
            return
        batches = list[list[ItemCall]]()
        while self.waiting and len(batches) < room:
            batches.append([self.waiting.popleft() for _ in range(size())])
        self.submit(self.work, batches)

    def submit(self, work: RemoteFunction, batches: Sequence[list[ItemCall]]) -> None:
        """Submit a task for each batch. The scheduler has a fifth of the work for a task of a message of many."""
        # The first part of a key is the group of the task: Dask moves a task from a busy worker to an idle worker
        # only if it knows the durations of other tasks of the group. The last part is unique to this window: of two
        # tasks with equal keys Dask would run only the first.
        keys = [(work.group, f"{self.name}-{next(self.numbers)}-{self.token}") for _ in batches]
        # The scheduler would unpickle items; it keeps bytes as they are.
        pickled = [pickle.dumps([call.item for call in calls]) for calls in batches]
        function, where = self.submissions[work]
        futures = [
            future
            for some in in_messages(pickled)
            for future in self.client.map(function, pickled[some], key=keys[some], pure=False, **where)
        ]
        self.in_flight[work] += len(batches)
        for future, calls in zip(futures, batches, strict=True):
            self.tasks[future.key] = BatchTask(future, calls)
            for call in calls:
                call.tries += (future.key,)
            future.add_done_callback(self.done.put)

    def next_done(self) -> list[Any]:
        """Wait at most LOOK_SECONDS for a finished future; return all futures that are finished by then."""
        done = list[Any]()
        with suppress(Empty):
            done.append(self.done.get(timeout=LOOK_SECONDS))
            while True:
                done.append(self.done.get_nowait())
        # skip futures of items whose other try has finished before
        return [future for future in done if future.key in self.tasks]

    def take(self, key: Any, outcomes: Sequence[CallOutcome]) -> None:
        """Process the outcomes of a task. Items that it has not begun wait again, unless they have another try."""
        if (task := self.tasks.pop(key, None)) is None:  # other tries of its items have already finished
            return
        self.in_flight[task.calls[0].work] -= 1
        for call in task.calls:
            call.tries = tuple(other for other in call.tries if other != key)
        for call, outcome in zip(task.calls, outcomes, strict=False):
            if not (call.is_done or (isinstance(outcome.result, PoisonItem) and call.tries)):
                self.take_item(call, outcome)
        self.waiting.extendleft(
            call for call in task.calls[len(outcomes) :] if not (call.is_done or call.tries)
        )

    def take_item(self, call: ItemCall, outcome: CallOutcome) -> None:
        """Process the outcome of an item, and cancel other tasks that have only finished items."""
        call.is_done = True
        for key in call.tries:
            self.task.leaves_work = True  # Dask cannot stop running work
            task = self.tasks[key]
            if all(other.is_done for other in task.calls):
                del self.tasks[key]
                self.in_flight[call.work] -= 1
                self.client.cancel([task.future])
        call.tries = ()
        if isinstance(outcome.result, PoisonItem):
            call.is_done = False
            self.poison_items.append((call, outcome.result))
            return
        self.seconds.append(outcome.seconds)
        if call.place is not None:
            self.made[call.place] = self.count(outcome.result, outcome.spent)
            if self.follow_up and self.following:
                following = [ItemCall(self.following, item) for item in self.follow_up.items(outcome.result)]
                self.submit(self.following, [[call] for call in following])

    def slow_seconds(self) -> float:
        """Return the seconds after which a running item is slow."""
        return max(SLOW_SECONDS, SLOW_TIMES * statistics.median(self.seconds or [0.0]))

    def try_twice(self) -> None:
        """Submit slow items of the last tasks again to idle workers, one item for each idle worker."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        idle = sum(has_a_thread_idle(worker) for worker in workers)
        pending = dict.fromkeys(call for task in self.tasks.values() for call in task.calls)
        slow = [call for call in pending if len(call.tries) == 1 and not call.is_done]
        tasks = {call.tries for call in slow}  # of several items each: those behind a slow item wait for it
        for call in slow[:idle] if len(tasks) <= len(workers) else ():
            self.submit(call.work, [[call]])
