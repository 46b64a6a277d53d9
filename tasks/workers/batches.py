"""Choose how many items a task of Dask runs one after another.

The scheduler has a single thread, and each task takes TASK_SECONDS of it, however short the items are. So a task
runs about BATCH_SECONDS of work, in fewer items towards the end, so that all workers end at about the same time.
"""

from collections.abc import Iterator, Sequence
from math import ceil, log

# Of the scheduler's thread for each task: twice the measurement with few workers (python -m benchmarks.scheduler),
# because each worker has its own connection.
TASK_SECONDS = 0.001
BATCH_SECONDS, LEAST_SECONDS = 1.0, 0.1  # work of a task; even if fewer items would reach more workers
# A task begins no further item after this multiple of its intended seconds. The rest runs in other tasks, so that
# items that take longer than those before do not delay the end of a stage.
LATE = 2.0
# Items of a task, and items in flight for each thread of the cluster: the scheduler has them in memory.
MOST_ITEMS, MOST_ITEMS_IN_FLIGHT = 32, 64
BATCH_BYTES, MESSAGE_BYTES = 32 << 10, 2 << 20  # of pickled items, of a task and of a message with many tasks
RECENT = 64  # finished items whose seconds predict those of the next
LEAST_IN_FLIGHT = 16


def seconds_of_batch(threads: int) -> float:
    """Return the intended seconds of a task, with which all workers use at most half of the scheduler's thread."""
    return max(BATCH_SECONDS, 2 * threads * TASK_SECONDS)


def batch_size(waiting: int, seconds: float, threads: int, size: int = 1) -> int:
    """Return the number of items of the next task: at most an equal share of half of the waiting items.

    waiting: number of waiting items. seconds: expected seconds of an item. threads: of all workers. size: bytes of
    a pickled item. Equal shares of half of the rest are known as factoring (Hummel, Schonberg and Flynn,
    Communications of the ACM 35 (8), 1992).
    """
    share = ceil(waiting / (2 * threads))
    wanted = max(share, LEAST_SECONDS / max(seconds, 1e-6))
    most = min(MOST_ITEMS, BATCH_BYTES / size, seconds_of_batch(threads) / max(seconds, 1e-6))
    return max(1, int(min(wanted, most)))


def expected_seconds(recent: Sequence[float]) -> float:
    """Return the lower quartile of the seconds of recent items: the first items of a worker load libraries."""
    return sorted(recent)[len(recent) // 4]


def first_in_flight(threads: int) -> int:
    """Return the number of items that are sent one by one, before the seconds of an item are known."""
    return max(LEAST_IN_FLIGHT, 2 * threads)


def in_messages(pickled: Sequence[bytes]) -> Iterator[slice]:
    """Divide the items of tasks into messages of at most MESSAGE_BYTES, or of one task."""
    start = size = 0
    for end, content in enumerate(pickled):
        if size and size + len(content) > MESSAGE_BYTES:
            yield slice(start, end)
            start, size = end, 0
        size += len(content)
    yield slice(start, len(pickled))


def expected_tasks(items: int, seconds: float, threads: int) -> int:
    """Return the number of tasks in which items run, as `batch_size` determines their sizes.

    items: of one call of `fan_out`. seconds: of an item.
    """
    first = min(items, first_in_flight(threads))
    rest, tasks = items - first, float(first)
    most, least = (batch_size(waiting, seconds, threads) for waiting in (2 * threads * MOST_ITEMS, 1))
    if (large := rest - 2 * threads * most) > 0:
        tasks, rest = tasks + large / most, rest - large
    if rest > (small := 2 * threads * least):  # each task takes 1 / (2 threads) of the rest
        tasks, rest = tasks + 2 * threads * log(rest / small), small
    return ceil(tasks + rest / least)
