"""The stack on one machine: a Prefect server, a Dask cluster, a worker that runs deployments.

Its state (process ids, addresses) lies in Prefect's home, so that `up` finds what runs already and
`down` what to stop. Everything listens on the loopback address.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from pydantic import BaseModel

from flows.local_server import HOST, NoServer, free_port, start_server, wait_until_healthy
from tasks.cluster import ALLOCATOR, GPU, gpu_count

POOL = "zyda"
PREFERRED_PORT = 4200
STOP_SECONDS = 20


class Part(BaseModel):
    """A process of the stack. `started` tells it from a later process with the same number."""

    name: str
    pid: int
    started: float
    address: str = ""

    @property
    def runs(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.started) < 1
            return bool(is_same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False


class Stack(BaseModel):
    """What runs where."""

    parts: dict[str, Part] = {}


def home() -> Path:
    from prefect.settings import PREFECT_HOME

    return Path(PREFECT_HOME.value()) / "zyda"


def load() -> Stack:
    path = home() / "stack.json"
    return Stack.model_validate_json(path.read_text()) if path.exists() else Stack()


def save(stack: Stack) -> None:
    home().mkdir(parents=True, exist_ok=True)
    (home() / "stack.json").write_text(stack.model_dump_json(indent=1))


def part(name: str, process: subprocess.Popen[bytes], address: str = "") -> Part:
    return Part(
        name=name, pid=process.pid, started=psutil.Process(process.pid).create_time(), address=address
    )


def start(name: str, command: list[str], environment: dict[str, str], address: str = "") -> Part:
    """Start a process that outlives this one, with its output in a log of its own."""
    with (home() / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", *command],
            env={**os.environ, **environment}, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True, cwd="/",
        )  # fmt: skip
    return part(name, process, address)


def up(say: Callable[[str], None], workers: int | None = None) -> Stack:
    """Start what does not run yet, and register the deployments."""
    stack = load()
    home().mkdir(parents=True, exist_ok=True)
    for name, begin in (("server", begin_server), ("scheduler", begin_scheduler)):
        if name not in stack.parts or not stack.parts[name].runs:
            say(f"starting the {name}")
            stack.parts[name] = begin()
            save(stack)
    environment = {
        "PREFECT_API_URL": stack.parts["server"].address,
        "DASK_SCHEDULER_ADDRESS": stack.parts["scheduler"].address,
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10",
        **{name: str(value) for name, value in ALLOCATOR.items()},
    }
    for name, (command, more) in worker_commands(stack, workers, gpu_count()).items():
        if name not in stack.parts or not stack.parts[name].runs:
            say(f"starting the {name}")
            if name == "worker":
                register(environment)
            stack.parts[name] = start(name, command, {**environment, **more})
            save(stack)
    return stack


def begin_server() -> Part:
    port = PREFERRED_PORT if is_free(PREFERRED_PORT) else free_port()
    log = home() / "server.log"
    process, url = start_server(port, log)
    wait_until_healthy(process, url, log)
    return part("server", process, url)


def is_free(port: int) -> bool:
    return not any(c.laddr and c.laddr.port == port for c in psutil.net_connections("tcp"))


def begin_scheduler() -> Part:
    port, dashboard = free_port(), 8787 if is_free(8787) else free_port()
    flags = ["--host", HOST, "--port", str(port), "--dashboard-address", f"{HOST}:{dashboard}"]
    address = f"tcp://{HOST}:{port}"
    return start(
        "scheduler", ["distributed.cli.dask_scheduler", *flags],
        {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10"}, address,
    )  # fmt: skip


def worker_commands(
    stack: Stack, workers: int | None, gpus: int
) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the commands of the workers of both kinds, each with what its environment has besides."""
    scheduler = stack.parts["scheduler"].address
    count = workers or max(1, len(os.sched_getaffinity(0)) - gpus)
    flags = ["--nthreads", "1", "--host", HOST, "--dashboard-address", f"{HOST}:0"]
    cpu = ["distributed.cli.dask_worker", scheduler, "--nworkers", str(count), *flags]
    gpu = ["dask", "cuda", "worker", scheduler, "--resources", f"{GPU}=1", *flags]
    return {
        "dask-workers": (cpu, {"CUDA_VISIBLE_DEVICES": ""} if gpus else {}),
        **({"gpu-workers": (gpu, {})} if gpus else {}),
        "worker": (["prefect", "worker", "start", "--pool", POOL, "--name", "local"], {}),
    }


def prefect(*arguments: str, environment: dict[str, str]) -> None:
    """Run a command of Prefect's. Raises NoServer with what it said."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = subprocess.run(  # noqa: S603
        command, env={**os.environ, **environment}, capture_output=True, text=True, cwd="/", check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise NoServer(f"prefect {' '.join(arguments)} failed: {said[-2000:]}")


def register(environment: dict[str, str]) -> None:
    """Make the work pool and register the deployments; both may be there already."""
    prefect("work-pool", "create", POOL, "--type", "process", "--overwrite", environment=environment)
    definitions = str(files("deployments") / "prefect.yaml")
    prefect("deploy", "--all", "--prefect-file", definitions, environment=environment)


def down(say: Callable[[str], None]) -> None:
    """Stop everything, what depends on the others first; what they keep on disk stays."""
    stack = load()
    for name in ("worker", "gpu-workers", "dask-workers", "scheduler", "server"):
        found = stack.parts.pop(name, None)
        if found and found.runs:
            say(f"stopping the {name}")
            stop(found)
        save(stack)


def stop(found: Part) -> None:
    """End a process and its children: politely, then not."""
    try:
        process = psutil.Process(found.pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        quietly(member.terminate)
    _, alive = psutil.wait_procs(family, timeout=STOP_SECONDS)
    for member in alive:
        quietly(member.kill)
    psutil.wait_procs(alive, timeout=STOP_SECONDS)


def quietly(call: Callable[[], None]) -> None:
    try:
        call()
    except psutil.NoSuchProcess:
        return


def describe(stack: Stack) -> list[str]:
    """Say what runs where."""
    server, scheduler = stack.parts["server"].address, stack.parts["scheduler"].address
    return [
        f"dashboard    {server.removesuffix('/api')}",
        f"Prefect API  {server}",
        f"Dask         {scheduler}",
        f"work pool    {POOL}, worker `local` on this machine",
        f"logs         {home()}/*.log",
        "",
        f"To build on it from a terminal:  export PREFECT_API_URL={server} DASK_SCHEDULER_ADDRESS={scheduler}",
    ]
