"""Make several calls that wait for the cluster in parallel threads of one task."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import TypeVar

from zyda_flows.tasks.errors import all_but_poison
from zyda_flows.tasks.workers.submission import WAITING, waiting_task

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 8  # items of one task that wait for the cluster in parallel


def side_by_side(function: Callable[[Item], Result], items: list[Item], context: Context) -> list[Result]:
    """Call a function that waits for the cluster on items, AT_ONCE at a time; return results in order.

    context: copied for each call. Raises the error of the first failing item, after all calls have ended.
    """

    def call(item: Item) -> Result:
        call_context = context.copy()
        call_context.run(WAITING.set, task)
        return call_context.run(function, item)

    with waiting_task() as task, ThreadPoolExecutor(AT_ONCE) as threads:
        calls = [threads.submit(call, item) for item in items]
    return all_but_poison([called.result for called in calls])
