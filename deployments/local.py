"""The stack on one machine: a Prefect server, a Dask cluster, a worker that runs deployments.

Its state (process ids, addresses, ports) lies in Prefect's home, so that `up` finds what runs already
and `down` what to stop. Everything listens on the loopback address.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files

from pydantic import BaseModel

from deployments.certificates import make_certificate, tls_environment
from deployments.processes import Part, part, start, stop
from flows.server.local_server import (
    HOST,
    NoServer,
    clients_of,
    free_port,
    home,
    is_free,
    made_home,
    start_server,
    wait_until_healthy,
)
from flows.server.signals import held_back
from tasks.workers.dask_cluster import (
    ALLOCATOR,
    CPU,
    GPU,
    GPU_FLAGS,
    LIVES,
    WORKER_PROCESS,
    cores,
    gpu_count,
    hidden_from,
    memory_limits,
    patience,
)
from tasks.workers.engine import Engine, engine_asked
from tasks.workers.process import FORKED

POOL = "zyda"
PREFERRED_PORTS = {"server": 4200, "scheduler": 8786, "dask dashboard": 8787}
# What is to be started again when a part was: it holds connections to that, or its address.
DEPENDENTS = {"server": ("worker",), "scheduler": ("worker", "dask-workers", "gpu-workers")}
WORKER_LOOKS, LOOK_SECONDS = (
    "PREFECT_WORKER_QUERY_SECONDS",
    "2",
)  # for runs to start; Prefect's own pause is 10
NO_WORKERS_TIMEOUT = "DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT"


class Stack(BaseModel):
    """What runs where, and which ports were taken the last time."""

    parts: dict[str, Part] = {}
    ports: dict[str, int] = {}

    def runs(self, name: str) -> bool:
        return name in self.parts and self.parts[name].runs


def load_stack() -> Stack:
    """Read what runs. Raises NoServer where the file of it is damaged, which nothing else knows."""
    path = home() / "stack.json"
    try:
        return Stack.model_validate_json(path.read_text()) if path.exists() else Stack()
    except ValueError as error:
        raise NoServer(
            f"{path} is damaged: end what `zyda up` started by hand, delete this file, and start again"
        ) from error


def save(stack: Stack) -> None:
    new = home() / "stack.json.new"
    new.write_text(stack.model_dump_json(indent=1))
    new.replace(home() / "stack.json")


def up(say: Callable[[str], None], workers: int | None = None, threads: int = 1) -> Stack:
    """Start what does not run yet and what depends on it, and register the deployments."""
    made_home()
    engine_asked()  # which may be none of the engines
    stack = load_stack()
    for name, begin in (("server", begin_server), ("scheduler", begin_scheduler)):
        if not stack.runs(name):
            end_parts(stack, say, *DEPENDENTS[name], name)
            say(f"starting the {name}")
            with held_back():  # what has been started is known, or nothing could end it
                stack.parts[name] = begin(stack)
                save(stack)
    server = stack.parts["server"]
    wait_until_healthy(server, server.address, home() / "server.log")
    bury(stack, say)
    for name, (command, more) in worker_commands(stack, workers, gpu_count(), threads).items():
        if not stack.runs(name):
            end_parts(stack, say, name)
            say(f"starting the {name}")
            if name == "worker":
                register(environment(stack))
            with held_back():
                stack.parts[name] = part(name, start(name, command, {**environment(stack), **more}, home()))
                save(stack)
    return stack


def end_parts(stack: Stack, say: Callable[[str], None], *names: str) -> bool:
    """Stop parts, and what is left of them where they died. Returns whether anything was running."""
    was_running = False
    for name in names:
        if name in stack.parts:
            entry = stack.parts[name]
            if entry.runs:
                say(f"stopping the {name}")
                stop(entry)
                was_running = True
            elif stop(entry):
                say(f"stopped what was left of the {name}, which had died")
                was_running = True
            del stack.parts[name]
            save(stack)
    return was_running


def bury(stack: Stack, say: Callable[[str], None]) -> None:
    """Mark the runs that died with their processes as crashed, so that nothing waits for them."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.server.liveness import mark_dead_runs

    with temporary_settings({PREFECT_API_URL: stack.parts["server"].address}):
        for run in mark_dead_runs(worker_is_new=not stack.runs("worker")):
            say(f"marked the run `{run.name}` as crashed: its process is gone")


def port_for(stack: Stack, name: str) -> int:
    """Return the port of a part: the one of the last time, so that bookmarks and addresses stay good."""
    wanted = [stack.ports.get(name), PREFERRED_PORTS[name]]
    stack.ports[name] = next((port for port in wanted if port and is_free(port)), None) or free_port()
    return stack.ports[name]


def begin_server(stack: Stack) -> Part:
    process, url = start_server(port_for(stack, "server"), home() / "server.log")
    return part("server", process, url)


def begin_scheduler(stack: Stack) -> Part:
    port, dashboard = port_for(stack, "scheduler"), port_for(stack, "dask dashboard")
    flags = ["--protocol", "tls", "--host", HOST, "--port", str(port)]
    flags += ["--dashboard-address", f"{HOST}:{dashboard}"]
    make_certificate(home())
    environment = {**scheduling(), **tls_environment(home())}
    process = start("scheduler", ["distributed.cli.dask_scheduler", *flags], environment, home())
    return part("scheduler", process, f"tls://{HOST}:{port}", f"http://{HOST}:{dashboard}/status")


def worker_commands(
    stack: Stack, workers: int | None, gpus: int, threads: int = 1
) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the commands of the workers of both kinds, each with what its environment has besides."""
    scheduler = stack.parts["scheduler"].address
    count = workers or max(1, cores() - gpus)
    flags = ["--protocol", "tls", "--host", HOST, "--dashboard-address", f"{HOST}:0"]
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
        "dask-workers": (cpu, {**FORKED, **hidden_from(Engine.CPU if gpus else engine_asked())}),
        **({"gpu-workers": (gpu, {})} if gpus else {}),
        "worker": (
            ["prefect", "worker", "start", "--pool", POOL, "--name", "local"],
            {WORKER_LOOKS: LOOK_SECONDS},
        ),
    }


def scheduling() -> dict[str, str]:
    """Return how long a build's work waits for workers, and how many may die of it."""
    return {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(LIVES), NO_WORKERS_TIMEOUT: patience()}


def environment(stack: Stack) -> dict[str, str]:
    """Return what a process needs in its environment to use the stack."""
    return {
        **clients_of(stack.parts["server"].address, home()),
        "DASK_SCHEDULER_ADDRESS": stack.parts["scheduler"].address,
        **tls_environment(home()),
        **scheduling(),
        **{name: str(value) for name, value in ALLOCATOR.items()},
    }


def running_stack() -> Stack | None:
    """Return the stack where both its server and its cluster run."""
    stack = load_stack()
    return stack if all(map(stack.runs, ("server", "scheduler", "dask-workers"))) else None


def stack_url() -> str | None:
    """Return the address of the stack's Prefect server, if it runs."""
    stack = load_stack()
    return stack.parts["server"].address if stack.runs("server") else None


def prefect(*arguments: str, environment: dict[str, str]) -> None:
    """Run a command of Prefect's. Raises NoServer with what it said."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    result = subprocess.run(  # noqa: S603
        command, env={**os.environ, **environment}, capture_output=True, text=True, cwd="/", check=False
    )
    if result.returncode:
        output = (result.stdout + result.stderr).strip()
        raise NoServer(f"prefect {' '.join(arguments)} failed: {output[-2000:]}")


def register(environment: dict[str, str]) -> None:
    """Make the work pool and register the deployments; both may be there already, and schedules stay."""
    prefect("work-pool", "create", POOL, "--type", "process", "--overwrite", environment=environment)
    definitions = str(files("deployments") / "prefect.yaml")
    prefect("deploy", "--all", "--prefect-file", definitions, environment=environment)


def down(say: Callable[[str], None]) -> None:
    """Stop everything, what depends on the others first; what they keep on disk stays."""
    if not end_parts(load_stack(), say, "worker", "gpu-workers", "dask-workers", "scheduler", "server"):
        say("nothing was running")
