"""Start and stop the stack on one machine: a Prefect server, a Dask cluster, and a worker that runs deployments.

The state of the stack (process ids, addresses, ports) is stored in Prefect's home, so that `up` recognises running
parts and `down` stops them. All parts listen on the loopback address.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from zyda_flows.deployments.processes import ServiceProcess, describe_process, start, stop
from zyda_flows.deployments.registration import POOL, register
from zyda_flows.deployments.stack import Stack, api_of, environment, load_stack, save, scheduling
from zyda_flows.flows.server.local_server import (
    home,
    make_home,
    start_server,
    wait_until_healthy,
)
from zyda_flows.flows.server.login import save_api, use_api
from zyda_flows.flows.server.signals import hold_back_signals
from zyda_flows.tasks.workers.dask_cluster import (
    CPU,
    GPU,
    GPU_FLAGS,
    OWN_PAGES,
    SCHEDULER_PRELOAD,
    WORKER_PROCESS,
    cores,
    dashboard_origins,
    gpu_count,
    gpus_hidden_from,
    memory_limits,
    scheduler_preloads,
)
from zyda_flows.tasks.workers.engine import Engine, requested_engine
from zyda_flows.tasks.workers.ports import LOOPBACK, free_port, is_free
from zyda_flows.tasks.workers.private_files import private_folder
from zyda_flows.tasks.workers.process import FORKED
from zyda_flows.tasks.workers.tls import dask_key_pair

DASK_FOLDER = "DASK_TEMPORARY_DIRECTORY"
PREFERRED_PORTS = {"server": 4200, "Prefect API": 4201, "scheduler": 8786, "dask dashboard": 8787}
# Parts to restart after a part was restarted, because they use its connections, its address or its login.
WORKERS = ("worker", "dask-workers", "gpu-workers")
DEPENDENTS = {"server": WORKERS, "scheduler": WORKERS}
WORKER_LOOKS, LOOK_SECONDS = (
    "PREFECT_WORKER_QUERY_SECONDS",
    "2",
)  # between checks for runs to start; Prefect's default is 10


def up(say: Callable[[str], None], workers: int | None = None, threads: int = 1) -> Stack:
    """Start the missing parts and the parts that depend on them, and register the deployments.

    Raises NoServer.
    """
    make_home()
    requested_engine()  # raises if the engine is unknown
    with stack_lock(say):
        return start_missing_parts(load_stack(), say, workers, threads)


@contextmanager
def stack_lock(say: Callable[[str], None]) -> Iterator[None]:
    """Prevent changes of the stack by another `zyda up` or `zyda down` within a block."""
    lock = FileLock(home() / "stack.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("another `zyda up` or `zyda down` is under way; waiting for its end")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def start_missing_parts(stack: Stack, say: Callable[[str], None], workers: int | None, threads: int) -> Stack:
    """Start the missing parts of a stack, and the parts that depend on them."""
    for name, begin in (("server", start_stack_server), ("scheduler", start_scheduler)):
        if not stack.runs(name):
            end_parts(stack, say, *DEPENDENTS[name], name)
            say(f"starting the {name}")
            with hold_back_signals():  # so that each started part is saved, and can be stopped
                stack.parts[name] = begin(stack, say)
                save(stack)
    wait_until_healthy(stack.parts["server"], api_of(stack), home() / "server.log")
    mark_crashed_runs(stack, say)
    for name, (command, more) in worker_commands(stack, workers, gpu_count(), threads).items():
        if not stack.runs(name):
            end_parts(stack, say, name)
            say(f"starting the {name}")
            if name == "worker":
                register(stack)
            with hold_back_signals():
                settings = {DASK_FOLDER: private_folder(), **environment(stack), **more}
                stack.parts[name] = describe_process(name, start(name, command, settings, home()))
                save(stack)
    return stack


def end_parts(stack: Stack, say: Callable[[str], None], *names: str) -> bool:
    """Stop parts, including remaining processes of dead parts. Returns whether any process was running."""
    was_running = False
    for name in names:
        if name in stack.parts:
            entry = stack.parts[name]
            if entry.runs:
                say(f"stopping the {name}")
                stop(entry)
                was_running = True
            elif stop(entry):
                say(f"stopped remaining processes of the {name}, which had died")
                was_running = True
            del stack.parts[name]
            save(stack)
    return was_running


def mark_crashed_runs(stack: Stack, say: Callable[[str], None]) -> None:
    """Mark the runs of dead processes as crashed, so that no run waits for them."""
    from zyda_flows.flows.server.liveness import mark_dead_runs

    with use_api(api_of(stack)):
        for run in mark_dead_runs(worker_is_new=not stack.runs("worker")):
            say(f"marked the run `{run.name}` as crashed: its process has ended")


def port_for(stack: Stack, name: str, say: Callable[[str], None]) -> int:
    """Return the port of a part: the last port if it is free, so that bookmarks and addresses remain valid."""
    wanted = [stack.ports.get(name) or PREFERRED_PORTS[name], PREFERRED_PORTS[name]]
    port = stack.ports[name] = next((port for port in wanted if is_free(port)), None) or free_port()
    if port != wanted[0]:
        say(f"port {wanted[0]} is taken by another program; the {name} listens on {port}")
    return port


def start_stack_server(stack: Stack, say: Callable[[str], None]) -> ServiceProcess:
    """Start the server with a new login, because another program may have received the old login on its port."""
    port, api_port = port_for(stack, "server", say), port_for(stack, "Prefect API", say)
    process, api = start_server(port, home() / "server.log", api_port=api_port)
    save_api(api, home())
    return describe_process("server", process, api.url)


def start_scheduler(stack: Stack, say: Callable[[str], None]) -> ServiceProcess:
    port, dashboard = port_for(stack, "scheduler", say), port_for(stack, "dask dashboard", say)
    flags = ["--protocol", "tls", "--host", LOOPBACK, "--port", str(port)]
    flags += ["--dashboard-address", f"{LOOPBACK}:{dashboard}"]
    key_pair = dask_key_pair(home())
    key_pair.write()
    environment = {
        DASK_FOLDER: private_folder(),
        **scheduling(),
        **key_pair.dask_environment(),
        OWN_PAGES: json.dumps(dashboard_origins(dashboard)),
        SCHEDULER_PRELOAD: json.dumps(scheduler_preloads()),
    }
    process = start("scheduler", ["distributed.cli.dask_scheduler", *flags], environment, home())
    return describe_process(
        "scheduler", process, f"tls://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{dashboard}/status"
    )


def worker_commands(
    stack: Stack, workers: int | None, gpus: int, threads: int = 1
) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the commands of all kinds of workers, each with additional environment variables."""
    scheduler = stack.parts["scheduler"].address
    count = workers or max(1, cores() - gpus)
    flags = [
        "--protocol",
        "tls",
        "--host",
        LOOPBACK,
        "--dashboard-address",
        f"{LOOPBACK}:0",
        "--no-dashboard",
    ]
    cpu = [
        "distributed.cli.dask_worker",
        scheduler,
        "--nworkers",
        str(count),
        "--nthreads",
        str(threads),
        *flags,
    ]
    cpu += ["--preload-nanny", WORKER_PROCESS]
    gpu = ["dask", "cuda", "worker", scheduler, *GPU_FLAGS, *flags]
    if gpus:
        limits = memory_limits(gpus, count, threads)
        cpu += ["--resources", f"{CPU}={threads}", "--memory-limit", str(limits[CPU])]
        gpu += ["--memory-limit", str(limits[GPU])]
    return {
        "dask-workers": (cpu, {**FORKED, **gpus_hidden_from(Engine.CPU if gpus else requested_engine())}),
        **({"gpu-workers": (gpu, {})} if gpus else {}),
        "worker": (
            ["prefect", "worker", "start", "--pool", POOL, "--name", "local"],
            {WORKER_LOOKS: os.environ.get(WORKER_LOOKS, LOOK_SECONDS)},
        ),
    }


def down(say: Callable[[str], None]) -> None:
    """Stop all parts, dependent parts first; their files are kept."""
    make_home()
    with stack_lock(say):
        if not end_parts(load_stack(), say, "worker", "gpu-workers", "dask-workers", "scheduler", "server"):
            say("nothing was running")
