"""A Dask cluster on SLURM, for as long as this script runs.

pip install 'zyda-flows[slurm]'
python infra/slurm.py --jobs 8 --queue cpu --interface ib0 > dask.env &
source dask.env                            # its address and its key, once it is there
zyda build recipes/zyda2.yaml

The scheduler runs on this login node, where others are too: it takes work only from who has the key,
which lies in a folder that all nodes see and its owner alone may read.
"""

import argparse
import shlex
import time
from pathlib import Path

from dask_jobqueue import SLURMCluster

from deployments.certificates import make_certificate, security_of, tls_environment
from tasks.workers.dask_cluster import ALLOCATOR, LIVES


def main() -> None:
    parser = argparse.ArgumentParser(description="Start Dask workers as SLURM jobs.")
    parser.add_argument("--jobs", type=int, default=1, help="SLURM jobs to start")
    parser.add_argument("--queue", help="SLURM's partition")
    parser.add_argument("--cores", type=int, default=32, help="cores of a job, a worker for each")
    parser.add_argument("--memory", default="128GiB", help="memory of a job")
    parser.add_argument("--walltime", default="24:00:00", help="how long a job may run")
    parser.add_argument("--interface", help="network interface to listen on, ib0 say; all if not given")
    parser.add_argument(
        "--tls", type=Path, default=Path.home() / ".zyda-dask", help="folder of the key, which all nodes see"
    )
    arguments = parser.parse_args()
    arguments.tls.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_certificate(arguments.tls)
    settings = tls_environment(arguments.tls.absolute())
    cluster = SLURMCluster(
        queue=arguments.queue, cores=arguments.cores, processes=arguments.cores, memory=arguments.memory,
        walltime=arguments.walltime, interface=arguments.interface,
        security=security_of(arguments.tls.absolute()), protocol="tls://",
        scheduler_options={"allowed_failures": LIVES},  # and no end to waiting: jobs may be queued for hours
        job_script_prologue=[f"export {name}={value}" for name, value in {**ALLOCATOR, **settings}.items()],
    )  # fmt: skip
    cluster.scale(jobs=arguments.jobs)
    for name, value in {**settings, "DASK_SCHEDULER_ADDRESS": cluster.scheduler_address}.items():
        print(f"export {name}={shlex.quote(value)}", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
