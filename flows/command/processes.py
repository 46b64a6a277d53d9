"""Run jobs of a command in processes."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

Job = TypeVar("Job", bound=Callable[[], Any])


@contextmanager
def own_processes(number: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that ignore Ctrl-C. Jobs that have not begun at the end of the block are cancelled.

    number: of processes, one per core by default.
    """
    from zyda_flows.tasks.workers.dask_cluster import cores  # late

    pool = ProcessPoolExecutor(number or cores(), get_context("spawn"), begin_process)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def begin_process() -> None:
    """Ignore Ctrl-C, and end this process when its parent ends, also by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=end_with_parent, daemon=True).start()


def done_by(pool: ProcessPoolExecutor, jobs: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
    """Yield jobs with their results, in the order of completion. Raises the error of the first failed job."""
    running = {pool.submit(job): job for job in jobs}
    for done in as_completed(running):
        yield running[done], done.result()
