"""Run jobs of a command in processes."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

Job = TypeVar("Job", bound=Callable[[], Any])


@contextmanager
def own_processes(number: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that ignore Ctrl-C. Jobs that have not begun at the end of the block are cancelled.

    number: of processes, one per core by default.
    """
    from zyda_flows.tasks.workers.dask_cluster import cores  # late

    pool = ProcessPoolExecutor(
        number or cores(), get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def done_by(pool: ProcessPoolExecutor, jobs: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
    """Yield jobs with their results, in the order of completion. Raises the error of the first failed job."""
    running = {pool.submit(job): job for job in jobs}
    for done in as_completed(running):
        yield running[done], done.result()
