"""A Dask cluster on SLURM, for as long as this script runs.

pip install 'zyda-flows[slurm]'
python infra/slurm.py --jobs 8 --queue cpu &
export DASK_SCHEDULER_ADDRESS=...          # as it prints
zyda build recipes/zyda2.yaml
"""

import argparse
import time

import dask
from dask_jobqueue import SLURMCluster

from tasks.cluster import ALLOCATOR


def main() -> None:
    parser = argparse.ArgumentParser(description="Start Dask workers as SLURM jobs.")
    parser.add_argument("--jobs", type=int, default=1, help="SLURM jobs to start")
    parser.add_argument("--queue", help="SLURM's partition")
    parser.add_argument("--cores", type=int, default=32, help="cores of a job, a worker for each")
    parser.add_argument("--memory", default="128GiB", help="memory of a job")
    parser.add_argument("--walltime", default="24:00:00", help="how long a job may run")
    arguments = parser.parse_args()
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    cluster = SLURMCluster(
        queue=arguments.queue, cores=arguments.cores, processes=arguments.cores, memory=arguments.memory,
        walltime=arguments.walltime,
        job_script_prologue=[f"export {name}={value}" for name, value in ALLOCATOR.items()],
    )  # fmt: skip
    cluster.scale(jobs=arguments.jobs)
    print(f"export DASK_SCHEDULER_ADDRESS={cluster.scheduler_address}", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
