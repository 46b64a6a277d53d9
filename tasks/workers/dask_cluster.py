"""Start the Dask cluster of a build on this machine, with a worker for each core and each GPU."""

import logging
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import dask
import dask.system
import distributed
from distributed.system import MEMORY_LIMIT

from zyda_flows.tasks.errors import LostWorkers
from zyda_flows.tasks.workers.engine import ENGINE, LIBRARIES, Engine, requested_engine
from zyda_flows.tasks.workers.ports import LOOPBACK, free_port
from zyda_flows.tasks.workers.private_files import private_folder
from zyda_flows.tasks.workers.process import begin_imports, check_main_guard, worker_start_method
from zyda_flows.tasks.workers.scheduler_address import configured_scheduler

ALLOWED_DEATHS = 10  # workers that may die on the same shard before the build fails
# Dask configures the allocator of its workers to return every freed page to the system at once. The pages must then
# be requested again for the next array. That costs a build a fifth of its time, and a model on the CPU half of it
# (python -m benchmarks.end_to_end, benchmarks.classifier).
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 512 << 20, "MALLOC_MMAP_MAX_": 0}
# Only the dashboard's own pages may open its websockets. Dask's default accepts pages of any origin.
WEBSOCKETS = "distributed.scheduler.dashboard.bokeh-application.allow_websocket_origin"
PRELOAD, OWN_SCHEDULER = "distributed.scheduler.preload", "zyda_flows.tasks.workers.own_scheduler"
SCHEDULER_PRELOAD = "DASK_DISTRIBUTED__SCHEDULER__PRELOAD"
OWN_PAGES = "DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__BOKEH_APPLICATION__ALLOW_WEBSOCKET_ORIGIN"
ENVIRON, NO_WORKERS = "distributed.nanny.pre-spawn-environ", "distributed.scheduler.no-workers-timeout"
PATIENCE = "300s"
# Dask restarts a worker that has sent no heartbeat for this time, because its process is stopped or its machine is
# overloaded. Dask's default is five minutes.
TTL, WORKER_TTL = "distributed.scheduler.worker-ttl", "120s"
# Dask closes a nanny permanently if its worker is missing this long after it was lost (15 seconds by default). If
# the worker has just died again at that time, it is not restarted, and a cluster with one worker has none left.
# Nannies restart their workers without this timeout.
LOST, NEVER = "distributed.deploy.lost-worker-timeout", "365 days"
# Schedulers, workers and clients keep their last messages, which contain whole tasks, for developers of Dask. The
# dashboard keeps the durations of the last tasks. Dask's defaults are 1,000 messages and 100,000 tasks.
MESSAGES_KEPT, TASKS_KEPT = 10, 1000
SHORT_LOGS = {
    "distributed.admin.low-level-log-length": MESSAGES_KEPT,
    "distributed.scheduler.dashboard.tasks.task-stream-length": TASKS_KEPT,
}
CLOSE_SECONDS = 30
WORKER_PROCESS = "zyda_flows.tasks.workers.process"
SILENT = 50  # log level for Dask's own log, which every worker writes
# Resources that workers offer: GPU workers offer GPU=1 (dask cuda worker --resources GPU=1). In the same cluster,
# the other workers offer CPU=1 per thread (dask worker --resources CPU=2), so that CPU work does not occupy a
# GPU.
GPU, CPU = "GPU", "CPU"
VISIBLE, NONE_VISIBLE = "CUDA_VISIBLE_DEVICES", ("", "-1", "NoDevFiles")  # how CUDA hides GPUs from a process
# A core needs longer to read a shard and to write its keys than a GPU needs for the computation in between. So
# several tasks share a GPU, each on a thread of its worker. The threads use the device in turn.
GPU_THREADS = 4
SHARE = 1 / GPU_THREADS
# RMM allocates GPU memory from the driver's pool, which cuDF, cuGraph and CuPy share; PyTorch has its own pool.
KEPT_BY_RMM = 0.5  # fraction of a GPU's memory that stays reserved when unused
GPU_FLAGS = (
    f"--resources {GPU}=1 --nthreads {GPU_THREADS} --rmm-async --rmm-release-threshold {KEPT_BY_RMM} "
    "--set-rmm-allocator-for-libs cupy"
).split()
GPU_OPTIONS = {
    "resources": {GPU: 1}, "threads_per_worker": GPU_THREADS,
    "rmm_async": True, "rmm_release_threshold": KEPT_BY_RMM, "rmm_allocator_external_lib_list": ["cupy"],
}  # fmt: skip


def expect_cluster(modules: Sequence[str] = ()) -> None:
    """Begin to import the modules of workers in the background, if a build will start workers on this machine.

    Call it with the environment that the workers should have. modules: modules of the recipe's models.
    """
    if not configured_scheduler() and not gpu_count():
        os.environ.update({name: str(value) for name, value in worker_environ().items()})
        begin_imports(modules)


def worker_environ() -> dict[str, Any]:
    """Return the environment variables that Dask sets before it starts workers."""
    return dask.config.get(ENVIRON) | ALLOCATOR


@contextmanager
def local_cluster(threads: int = 1, close_seconds: float = CLOSE_SECONDS) -> Iterator[Any]:
    """Yield a cluster on this machine, and close it at the end of the block."""
    check_main_guard()
    levels = [(handler, handler.level) for handler in logging.root.handlers]
    with worker_start_method(gpus=gpu_count()):
        cluster = open_cluster(threads)
        try:
            yield cluster
        finally:
            close_cluster(cluster, close_seconds)
            for handler, level in levels:  # a cluster that is not closed in time leaves them silenced
                handler.setLevel(level)


def close_cluster(cluster: Any, seconds: float) -> None:
    """Close a cluster, and kill its processes if they do not end in time.

    Dask waits forever for a worker that died while it started.
    """
    try:
        cluster.close(timeout=seconds)
    except TimeoutError:
        for process in multiprocessing.active_children():
            process.kill()


def open_cluster(threads: int = 1) -> Any:
    """Start a cluster on this machine with a worker for each core; for each GPU, one of the workers uses it.

    A client of the cluster can run code as this user. So the cluster accepts no foreign connections: scheduler,
    workers and clients authenticate with a temporary certificate that exists for this cluster only.
    """
    dask.config.set({LOST: NEVER, **SHORT_LOGS})  # Dask also reads these settings after the start
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
            ENVIRON: worker_environ(),
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
                f"{ENGINE}=gpu needs a GPU that NVIDIA's driver shows on this machine, and the libraries "
                f"dask_cuda, {', '.join(LIBRARIES)}: see docs/gpu.md"
            )
        return distributed.LocalCluster(
            n_workers=cores, threads_per_worker=threads, memory_limit="auto",
            preload_nanny=[WORKER_PROCESS], env=dict(os.environ) | gpus_hidden_from(engine), **common,
        )  # fmt: skip


def scheduler_preloads() -> list[str]:
    """Return the preloads of a scheduler on this machine: the configured preloads, and OWN_SCHEDULER."""
    return [*dask.config.get(PRELOAD), OWN_SCHEDULER]


def dashboard_origins(port: int) -> list[str]:
    """Return the origins that may open websockets of a dashboard on this machine: its own pages."""
    return [f"{LOOPBACK}:{port}", f"localhost:{port}"]


def cores() -> int:
    """Return the number of cores that this process may use."""
    return int(dask.system.CPU_COUNT)


def memory_of_machine() -> int:
    """Return the bytes of memory that the workers of this machine share."""
    return int(MEMORY_LIMIT)


def no_workers_timeout() -> str:
    """Return how long a build waits while the cluster has no worker, as a duration of Dask such as "300s".

    The setting DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT takes precedence over PATIENCE.
    """
    return str(dask.config.get(NO_WORKERS) or PATIENCE)


def gpu_count() -> int:
    """Return the number of GPUs that a build may use; 0 if libraries are missing or the build must use CPUs."""
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
    """Return the environment that hides GPUs from workers if the engine is CPU: PyTorch uses every visible GPU."""
    return {VISIBLE: ""} if engine is Engine.CPU else {}


def memory_limits(gpus: int, other_workers: int, threads: int) -> dict[str, int]:
    """Divide this machine's memory among GPU workers and CPU workers by threads; return the bytes per worker."""
    bytes_per_thread = int(MEMORY_LIMIT) // (GPU_THREADS * gpus + threads * max(0, other_workers))
    return {GPU: GPU_THREADS * bytes_per_thread, CPU: threads * bytes_per_thread}


def add_cpu_workers(cluster: Any, count: int, threads: int = 1, memory: int | str = "auto") -> Any:
    """Add workers without a GPU to a cluster on this machine, for CPU work."""
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

    # `scale` calls this for each missing worker; LocalCUDACluster's method raises beyond its number of GPUs.
    cluster.new_worker_spec = new_worker_spec
    cluster.scale(len(cluster.worker_spec) + max(0, count))
    return cluster
