"""Measure Dask's scheduler with jobs that sleep: seconds of its process for each task and for each job.

The scheduler is a process of its own, as on a cluster, and so is each worker, with THREADS threads, which count as
many workers of one core. The same jobs are sent in three ways: each in a message and a task of its own, as
`client.submit` does; each in a task of its own, many tasks in a message; and as `fan_out` does, several in a task.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from unittest import mock

import distributed
import psutil
import typer
from distributed.cli import dask_scheduler, dask_worker

from benchmarks.harness import REPOSITORY, Row, Size, Table, benchmark
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.workers import batches, window
from zyda_flows.tasks.workers.submission import WAITING, WaitingTask

AHEAD = 8  # jobs that are submitted ahead for each thread, if each has a message of its own


class Cluster(NamedTuple):
    """A client of a scheduler, and the scheduler's process."""

    client: Any
    scheduler: psutil.Process

    def tasks(self) -> int:
        """Return the number of tasks that have ended."""
        return int(self.client.run_on_scheduler(ended_tasks))

    def seconds(self) -> float:
        times = self.scheduler.cpu_times()
        return float(times.user + times.system)


def ended_tasks(dask_scheduler: Any) -> int:
    return sum(prefix.state_counts["memory"] for prefix in dask_scheduler.task_prefixes.values())


@contextmanager
def separate_cluster(workers: int, threads: int) -> Iterator[Cluster]:
    """Start a scheduler and workers as processes, and connect to them."""
    with tempfile.TemporaryDirectory() as folder:
        address = ["--scheduler-file", str(Path(folder, "scheduler.json"))]
        quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL, "cwd": REPOSITORY}
        scheduler = subprocess.Popen(
            [sys.executable, "-m", dask_scheduler.__name__, *address, "--host", "127.0.0.1", "--port", "0",
             "--no-dashboard"], **quiet,
        )  # fmt: skip
        command = [sys.executable, "-m", dask_worker.__name__, *address, "--no-nanny", "--no-dashboard",
                   "--nthreads", str(threads), "--memory-limit", "0", "--local-directory", folder]  # fmt: skip
        processes = [scheduler, *(subprocess.Popen(command, **quiet) for _ in range(workers))]
        try:
            while not Path(address[1]).exists():
                time.sleep(0.1)
            with distributed.Client(scheduler_file=address[1], timeout=60) as client:
                client.wait_for_workers(workers)
                yield Cluster(client, psutil.Process(scheduler.pid))
        finally:
            for process in processes:
                process.kill()
                process.wait()


def submitted_singly(client: Any, jobs: list[float]) -> None:
    """Submit each job by itself, a limited number ahead."""
    waiting, threads = iter(jobs), sum(client.nthreads().values())
    first = [client.submit(time.sleep, job, pure=False) for job in islice(waiting, AHEAD * threads)]
    running = distributed.as_completed(first)
    for done in running:
        done.result()
        if (job := next(waiting, None)) is not None:
            running.add(client.submit(time.sleep, job, pure=False))


def fanned_out(_: Any, jobs: list[float]) -> None:
    fan_out(time.sleep, jobs, stage="sleep", source=None)


def measure_jobs(
    name: str, run: Callable[[Any, list[float]], None], jobs: list[float], cluster: Cluster
) -> Row:
    tasks, used, began = cluster.tasks(), cluster.seconds(), time.monotonic()
    run(cluster.client, jobs)
    seconds, used, tasks = time.monotonic() - began, cluster.seconds() - used, cluster.tasks() - tasks
    return {
        "sent as": name, "jobs": len(jobs), "tasks": tasks, "seconds": seconds,
        "scheduler, ms a task": 1000 * used / tasks, "scheduler, ms a job": 1000 * used / len(jobs),
    }  # fmt: skip


@benchmark("scheduler", as_worker=False)
def measure(
    jobs: Size = 20_000,
    seconds: Annotated[float, typer.Option(help="Seconds that a job sleeps.")] = 0.1,
    workers: Annotated[int, typer.Option(help="Worker processes.")] = 4,
    threads: Annotated[int, typer.Option(help="Threads of each worker.")] = 50,
) -> Iterator[Table]:
    naps = [seconds] * int(jobs)
    with separate_cluster(workers, threads) as cluster:
        token = WAITING.set(WaitingTask(cluster.client))
        try:
            fanned_out(cluster.client, [0.01] * 100)  # imports
            rows = [measure_jobs("a message for each job", submitted_singly, naps, cluster)]
            with mock.patch.object(window, "batch_size", return_value=1):
                rows.append(measure_jobs("a task for each job", fanned_out, naps, cluster))
            rows.append(measure_jobs("several jobs in a task", fanned_out, naps, cluster))
        finally:
            WAITING.reset(token)
    planned = batches.expected_tasks(len(naps), seconds, workers * threads)
    yield Table(f"jobs of {seconds:g} s on {workers * threads} threads; planned: {planned:,} tasks", rows)


if __name__ == "__main__":
    measure.main()
