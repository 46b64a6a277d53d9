"""The Dask cluster of a build: which is named, and how one is started on this machine."""

import logging
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import dask
import dask.system
import distributed
from distributed.comm import parse_address, parse_host_port
from distributed.system import MEMORY_LIMIT

from zyda_flows.tasks.errors import LostWorkers
from zyda_flows.tasks.workers.engine import ENGINE, LIBRARIES, Engine, requested_engine
from zyda_flows.tasks.workers.ports import LOOPBACK, free_port
from zyda_flows.tasks.workers.private_files import private_folder
from zyda_flows.tasks.workers.process import begin_imports, born_with_imports, expect_to_be_born

ALLOWED_DEATHS = 10  # workers that a shard may take with it before the build gives up on it
# Dask tells the allocator of its workers to give every freed page back at once, and to get it again for
# the next array: that costs a build a fifth of its time and a model on the CPU half of it
# (python -m benchmarks.end_to_end, benchmarks.classifier).
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 512 << 20, "MALLOC_MMAP_MAX_": 0}
# Dask's dashboard talks to its own pages alone; by default it does to every page that a browser shows.
WEBSOCKETS = "distributed.scheduler.dashboard.bokeh-application.allow_websocket_origin"
PRELOAD, OWN_SCHEDULER = "distributed.scheduler.preload", "zyda_flows.tasks.workers.own_scheduler"
SCHEDULER_PRELOAD = "DASK_DISTRIBUTED__SCHEDULER__PRELOAD"
OWN_PAGES = "DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__BOKEH_APPLICATION__ALLOW_WEBSOCKET_ORIGIN"
ENVIRON, NO_WORKERS = "distributed.nanny.pre-spawn-environ", "distributed.scheduler.no-workers-timeout"
PATIENCE = "300s"
# Dask starts a worker again that has not been heard of for so long: it is stopped, or its machine has no time for
# it. By default that is five minutes.
TTL, WORKER_TTL = "distributed.scheduler.worker-ttl", "120s"
# Dask closes a nanny for good so long after it lost its worker, by default after 15 seconds, if the worker is
# not there at that very moment. One that has died again by then is about to be started again, and never is: of a
# cluster with one worker, none is left. Nannies start their workers again by themselves.
LOST, NEVER = "distributed.deploy.lost-worker-timeout", "365 days"
# Schedulers, workers and clients keep the last messages that they have sent, each with whole tasks, for developers
# of Dask, and the dashboard what the last tasks took. By default 1,000 and 100,000.
MESSAGES_KEPT, TASKS_KEPT = 10, 1000
SHORT_LOGS = {
    "distributed.admin.low-level-log-length": MESSAGES_KEPT,
    "distributed.scheduler.dashboard.tasks.task-stream-length": TASKS_KEPT,
}
CLOSE_SECONDS = 30
WORKER_PROCESS = "zyda_flows.tasks.workers.process"
SILENT = 50  # Dask's own log, of which every worker writes one
# What workers offer: those with a GPU one (dask cuda worker --resources GPU=1); beside them, the others a CPU for
# each thread (dask worker --resources CPU=2), so that work for CPUs does not keep a GPU waiting.
GPU, CPU = "GPU", "CPU"
VISIBLE, NONE_VISIBLE = "CUDA_VISIBLE_DEVICES", ("", "-1", "NoDevFiles")  # how CUDA hides GPUs from a process
# A core takes longer to read a shard and to write its keys, or to read keys, than a GPU should take for what is
# between; so some share a GPU, each with a thread of its worker, which use the device one after another.
GPU_THREADS = 4
SHARE = 1 / GPU_THREADS
# RMM takes a GPU's memory from the driver's own pool, which cuDF, cuGraph and CuPy share; PyTorch has its own.
KEPT_BY_RMM = 0.5  # of a GPU's memory, of what nobody uses
GPU_FLAGS = (
    f"--resources {GPU}=1 --nthreads {GPU_THREADS} --rmm-async --rmm-release-threshold {KEPT_BY_RMM} "
    "--set-rmm-allocator-for-libs cupy"
).split()
GPU_OPTIONS = {
    "resources": {GPU: 1}, "threads_per_worker": GPU_THREADS,
    "rmm_async": True, "rmm_release_threshold": KEPT_BY_RMM, "rmm_allocator_external_lib_list": ["cupy"],
}  # fmt: skip


def configured_scheduler() -> str | None:
    """Return the address of the scheduler that Dask's own configuration names (DASK_SCHEDULER_ADDRESS)."""
    address = dask.config.get("scheduler-address", None)
    if address:
        check_address(address)
    return address or None


def read_settings_again() -> None:
    """Have Dask read its settings from the environment, which has changed."""
    dask.config.refresh()


def check_address(address: str) -> None:
    """Raise LostWorkers where the address of a scheduler is none."""
    try:
        parse_host_port(parse_address(address)[1])
    except ValueError as error:
        raise LostWorkers(
            f"DASK_SCHEDULER_ADDRESS: {address!r} is no address ({error}); expected tls://host:port"
        ) from error


def expect_cluster() -> None:
    """Begin to import what workers are born with, where a build will start some on this machine.

    Called with the environment that they are to have.
    """
    if not configured_scheduler() and not gpu_count():
        os.environ.update({name: str(value) for name, value in environ_of_workers().items()})
        begin_imports()


def environ_of_workers() -> dict[str, Any]:
    """Return what Dask sets in the environment before it starts workers."""
    return dask.config.get(ENVIRON) | ALLOCATOR


@contextmanager
def local_cluster(threads: int = 1, close_seconds: float = CLOSE_SECONDS) -> Iterator[Any]:
    """Give a cluster on this machine for as long as the block lasts."""
    expect_to_be_born()
    levels = [(handler, handler.level) for handler in logging.root.handlers]
    with born_with_imports(gpus=gpu_count()):
        cluster = open_cluster(threads)
        try:
            yield cluster
        finally:
            close_cluster(cluster, close_seconds)
            for handler, level in levels:  # which a cluster that is not closed in time leaves silent
                handler.setLevel(level)


def close_cluster(cluster: Any, seconds: float) -> None:
    """Close a cluster, and kill what has not ended in time: Dask waits for ever for a worker that died at birth."""
    try:
        cluster.close(timeout=seconds)
    except TimeoutError:
        for process in multiprocessing.active_children():
            process.kill()


def open_cluster(threads: int = 1) -> Any:
    """Start a cluster on this machine: a worker for each core, of which one for each GPU has that GPU.

    Whoever may send it work may run code as this user, so it takes nothing from others: its scheduler,
    workers and clients know each other by a certificate that is made for this cluster alone.
    """
    dask.config.set({LOST: NEVER, **SHORT_LOGS})  # they are looked up later, too
    dashboard = free_port()
    common = {
        "dashboard_address": f"{LOOPBACK}:{dashboard}",
        "host": LOOPBACK,
        "local_directory": private_folder(),
        "protocol": "tls://",
        "security": distributed.Security.temporary(),
        "silence_logs": SILENT,
        "scheduler_kwargs": {"allowed_failures": ALLOWED_DEATHS},
        "preload": [WORKER_PROCESS],
    }
    cores = dask.system.CPU_COUNT
    with dask.config.set(
        {
            NO_WORKERS: no_workers_timeout(),
            ENVIRON: environ_of_workers(),
            WEBSOCKETS: dashboard_origins(dashboard),
            PRELOAD: scheduler_preloads(),
            TTL: WORKER_TTL,
        }
    ):
        if gpus := gpu_count():
            from dask_cuda import LocalCUDACluster

            limits = memory_limits(gpus, cores - gpus, threads)
            cluster = LocalCUDACluster(memory_limit=limits[GPU], **GPU_OPTIONS, **common)
            return add_cpu_workers(cluster, cores - gpus, threads, limits[CPU])
        if (engine := requested_engine()) is Engine.GPU:
            raise LostWorkers(
                f"{ENGINE}=gpu, and this machine has no GPU that NVIDIA's driver shows, or lacks one of "
                f"dask_cuda, {', '.join(LIBRARIES)}: see docs/gpu.md"
            )
        return distributed.LocalCluster(
            n_workers=cores, threads_per_worker=threads, memory_limit="auto",
            preload_nanny=[WORKER_PROCESS], env=dict(os.environ) | gpus_hidden_from(engine), **common,
        )  # fmt: skip


def scheduler_preloads() -> list[str]:
    """Return what a scheduler on this machine loads first: what people have configured, and who may ask it."""
    return [*dask.config.get(PRELOAD), OWN_SCHEDULER]


def dashboard_origins(port: int) -> list[str]:
    """Return who may ask a dashboard on this machine for more: the pages that it has given itself."""
    return [f"{LOOPBACK}:{port}", f"localhost:{port}"]


def cores() -> int:
    """Return how many cores this process may use."""
    return int(dask.system.CPU_COUNT)


def memory_of_machine() -> int:
    """Return the bytes of memory that workers of this machine share."""
    return int(MEMORY_LIMIT)


def no_workers_timeout() -> str:
    """Return how long a build waits for a worker where there is none.

    It is Dask's own setting, DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT, where someone has set it.
    """
    return str(dask.config.get(NO_WORKERS) or PATIENCE)


def gpu_count() -> int:
    """Return how many GPUs of this machine a build may use: none without the libraries, or where none is wanted."""
    is_hidden = os.environ.get(VISIBLE, "0").strip() in NONE_VISIBLE
    if is_hidden or requested_engine() is Engine.CPU or any(find_spec(name) is None for name in LIBRARIES):
        return 0
    try:
        import pynvml
        from dask_cuda.utils import get_n_gpus

        pynvml.nvmlInit()
    except ImportError:
        return 0
    except pynvml.NVMLError:
        return 0
    return int(get_n_gpus())


def gpus_hidden_from(engine: Engine) -> dict[str, str]:
    """Return what hides GPUs from workers, where CPUs are asked for: PyTorch takes what it sees."""
    return {VISIBLE: ""} if engine is Engine.CPU else {}


def memory_limits(gpus: int, other_workers: int, threads: int) -> dict[str, int]:
    """Share the memory of this machine among workers with a GPU and others, by their threads: bytes of each."""
    of_thread = int(MEMORY_LIMIT) // (GPU_THREADS * gpus + threads * max(0, other_workers))
    return {GPU: GPU_THREADS * of_thread, CPU: threads * of_thread}


def add_cpu_workers(cluster: Any, count: int, threads: int = 1, memory: int | str = "auto") -> Any:
    """Add workers without a GPU to a cluster on this machine, for all that wants cores."""
    options = {
        "nthreads": threads,
        "resources": {CPU: threads},
        "memory_limit": memory,
        "dashboard": False,
        "host": LOOPBACK,
        "protocol": "tls://",
        "security": cluster.security,
        "preload": [WORKER_PROCESS],
        "silence_logs": SILENT,
        "env": {VISIBLE: ""},
    }

    def new_worker_spec() -> dict[str, Any]:
        return {f"cpu-{len(cluster.worker_spec)}": {"cls": distributed.Nanny, "options": options}}

    # `scale` asks this for each worker that is missing; LocalCUDACluster's own refuses any beyond its GPUs.
    cluster.new_worker_spec = new_worker_spec
    cluster.scale(len(cluster.worker_spec) + max(0, count))
    return cluster
