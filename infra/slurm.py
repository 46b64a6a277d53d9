"""Start a Dask cluster on SLURM, which runs until this script ends.

pip install 'zyda-flows[slurm]'
python infra/slurm.py --jobs 8 --queue cpu --interface ib0 > dask.env &
source dask.env                            # its address and its key, once the file has them
zyda build recipes/zyda2.yaml

With `--gpu-jobs 4 --gpu-queue gpu --gpus 8`, four more jobs have a worker for each of their eight GPUs, for
signatures, edges, clusters and classifiers; meanwhile the cores of the other jobs read and count tokens.

The scheduler runs on this login node, which other users share. It accepts work only from clients with the key,
which is stored in a folder that all nodes can access and only its owner can read. UCX (`--ucx`), which chooses
among NVLink, InfiniBand and TCP, has no encryption and no key: any program that can connect to it can run code as
you.
"""

import argparse
import atexit
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import dask
import dask.utils
from dask_jobqueue import SLURMCluster

from zyda_flows.deployments.stack import short_logs
from zyda_flows.tasks.workers.dask_cluster import (
    ALLOCATOR,
    ALLOWED_DEATHS,
    CPU,
    GPU_FLAGS,
    GPU_THREADS,
    SHORT_LOGS,
    scheduler_preloads,
)
from zyda_flows.tasks.workers.tls import dask_key_pair


def count(text: str) -> int:
    if (number := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {number}")
    return number


def size(text: str) -> int:
    if (number := int(dask.utils.parse_bytes(text))) <= 0:
        raise argparse.ArgumentTypeError(f"expected more than 0 bytes, got {text}")
    return number


def at_least_one(text: str) -> int:
    if not (number := count(text)):
        raise argparse.ArgumentTypeError("expected 1 or more, got 0")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description="Start Dask workers as SLURM jobs.")
    parser.add_argument("--jobs", type=count, default=1, help="SLURM jobs to start")
    parser.add_argument("--queue", help="SLURM's partition")
    parser.add_argument("--cores", type=at_least_one, default=32, help="cores of a job, a worker for each")
    parser.add_argument("--memory", type=size, default="128GiB", help="memory of a job")
    parser.add_argument("--walltime", default="24:00:00", help="how long a job may run")
    parser.add_argument("--gpu-jobs", type=count, default=0, help="additional SLURM jobs with GPUs")
    parser.add_argument("--gpu-queue", help="partition of the jobs with GPUs; that of --queue by default")
    parser.add_argument("--gpus", type=at_least_one, default=8, help="GPUs of such a job, a worker for each")
    parser.add_argument(
        "--gpu-memory", type=size, default="256GiB", help="memory of such a job, without that of its GPUs"
    )
    parser.add_argument("--interface", help="network interface to listen on, such as ib0; all by default")
    parser.add_argument(
        "--tls", type=Path, default=Path.home() / ".zyda-dask", help="folder for the key, shared by all nodes"
    )
    parser.add_argument(
        "--ucx",
        action="store_true",
        help="use UCX to choose the network, without a key: only on nodes that no other user can reach",
    )
    arguments = parser.parse_args()
    dask.config.set(SHORT_LOGS)  # for the scheduler, which runs in this process
    settings, security = short_logs(), None
    if not arguments.ucx:
        arguments.tls.mkdir(mode=0o700, parents=True, exist_ok=True)
        key_pair = dask_key_pair(arguments.tls.absolute())
        key_pair.write()
        settings |= key_pair.dask_environment()
        security = key_pair.dask_security()
    cluster = SLURMCluster(
        queue=arguments.queue, cores=arguments.cores, processes=arguments.cores, memory=arguments.memory,
        walltime=arguments.walltime, interface=arguments.interface,
        security=security, protocol="ucx://" if arguments.ucx else "tls://",
        # no timeout for missing workers: jobs may be queued
        scheduler_options={"allowed_failures": ALLOWED_DEATHS, "preload": scheduler_preloads()},
        worker_extra_args=["--resources", f"{CPU}=1"] if arguments.gpu_jobs else [],
        job_script_prologue=[f"export {name}={value}" for name, value in {**ALLOCATOR, **settings}.items()],
    )  # fmt: skip
    cluster.scale(jobs=arguments.jobs)
    if arguments.gpu_jobs:
        start_gpu_jobs(arguments, cluster.scheduler_address, {**ALLOCATOR, **settings})
    for name, value in {**settings, "DASK_SCHEDULER_ADDRESS": cluster.scheduler_address}.items():
        print(f"export {name}={shlex.quote(value)}", flush=True)
    for ending in (signal.SIGTERM, signal.SIGHUP):  # exit by an exception, so that atexit functions run
        signal.signal(ending, lambda *_: sys.exit())
    while True:
        time.sleep(60)


def start_gpu_jobs(arguments: argparse.Namespace, scheduler: str, settings: Mapping[str, object]) -> None:
    """Submit jobs of workers with GPUs as a job array that ends with this script."""
    memory = arguments.gpu_memory
    limits = [
        "--memory-limit",
        str(memory // arguments.gpus),
        "--protocol",
        "ucx" if arguments.ucx else "tls",
    ]
    limits += ["--death-timeout", "300"]  # seconds without a scheduler
    command = [sys.executable, "-m", "dask", "cuda", "worker", scheduler, *GPU_FLAGS, *limits]
    if arguments.interface:
        command += ["--interface", arguments.interface]
    options = {
        "job-name": "zyda-gpu", "array": f"1-{arguments.gpu_jobs}", "gres": f"gpu:{arguments.gpus}",
        "partition": arguments.gpu_queue or arguments.queue, "cpus-per-task": GPU_THREADS * arguments.gpus,
        "time": arguments.walltime, "mem": f"{memory >> 20}M",
    }  # fmt: skip
    flags = [f"--{name}={value}" for name, value in options.items() if value]
    context = {"DASK_DISTRIBUTED_UCXX__CREATE_CUDA_CONTEXT": "true"} if arguments.ucx else {}
    exported = [f"export {name}={shlex.quote(str(value))}" for name, value in {**settings, **context}.items()]
    submission = subprocess.run(  # noqa: S603 (SLURM's own program, at the path where the cluster has it)
        ["sbatch", "--parsable", *flags],  # noqa: S607
        input="\n".join(["#!/bin/bash", *exported, shlex.join(command)]),
        text=True, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(subprocess.run, ["scancel", submission.stdout.strip().partition(";")[0]], check=False)


if __name__ == "__main__":
    main()
