"""The calls of a function on items, and the tasks of Dask that run them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from zyda_flows.tasks.workers.attempts import Attempt
from zyda_flows.tasks.workers.batches import LATE, seconds_of_batch
from zyda_flows.tasks.workers.engine import Engine
from zyda_flows.tasks.workers.submission import Submission, submission_to


class RemoteFunction(NamedTuple):
    """A function, and where to call it. group: name for tasks of about equal duration, for Dask's estimates."""

    function: Callable[[Any], Any]
    engine: Engine
    gpus: float
    group: str

    def submission(self, client: Any, deaths: int, threads: int) -> Submission:
        """Return the submission for items during which `deaths` workers may die. threads: of all workers."""
        attempt = Attempt(self.function, deaths, LATE * seconds_of_batch(threads))
        return submission_to(client, self.engine, attempt, self.gpus)


@dataclass(eq=False, slots=True)
class ItemCall:
    """One item of some work. place: index of its result, or None if the item follows from another result.

    tries: the keys of the pending tasks that contain the item. is_done: whether the item has a result.
    """

    work: RemoteFunction
    item: Any
    place: int | None = None
    tries: tuple[Any, ...] = ()
    is_done: bool = False


class BatchTask(NamedTuple):
    """A pending task of Dask, which makes calls of the same work one after another."""

    future: Any
    calls: list[ItemCall]


def has_a_thread_idle(worker: Mapping[str, Any]) -> bool:
    """Return whether a worker has an idle thread, according to the scheduler's metrics."""
    tasks = worker["metrics"].get("task_counts")
    return tasks is not None and tasks.get("executing", 0) + tasks.get("ready", 0) < worker["nthreads"]
