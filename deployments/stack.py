"""The running parts of the stack and their addresses, stored in Prefect's home for other commands."""

from pydantic import BaseModel

from zyda_flows.deployments.processes import ServiceProcess
from zyda_flows.flows.server.local_server import NoServer, home
from zyda_flows.flows.server.login import Api, saved_api
from zyda_flows.tasks.workers.dask_cluster import (
    ALLOCATOR,
    ALLOWED_DEATHS,
    SHORT_LOGS,
    WORKER_TTL,
    no_workers_timeout,
)
from zyda_flows.tasks.workers.private_files import write_private
from zyda_flows.tasks.workers.tls import dask_key_pair

NO_WORKERS_TIMEOUT = "DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT"


class Stack(BaseModel):
    """The processes of the parts by name, and the last port of each part."""

    parts: dict[str, ServiceProcess] = {}
    ports: dict[str, int] = {}

    def runs(self, name: str) -> bool:
        return name in self.parts and self.parts[name].runs


def load_stack() -> Stack:
    """Read the stored stack. Raises NoServer if its file is damaged, because its content is stored nowhere else."""
    path = home() / "stack.json"
    try:
        return Stack.model_validate_json(path.read_text()) if path.exists() else Stack()
    except ValueError as error:
        raise NoServer(
            f"{path} is damaged: end the processes of `zyda up` by hand, delete this file, and start again"
        ) from error


def save(stack: Stack) -> None:
    write_private(home() / "stack.json", stack.model_dump_json(indent=1))


def api_of(stack: Stack) -> Api:
    """Return the API of the stack's server, with its login."""
    ours = saved_api(home())
    return ours or Api(url=stack.parts["server"].address)


def scheduling() -> dict[str, str]:
    """Return Dask's settings for waiting for workers, for deaths of workers during a task, and for short logs."""
    return {
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(ALLOWED_DEATHS),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": WORKER_TTL,
        NO_WORKERS_TIMEOUT: no_workers_timeout(),
        **short_logs(),
    }


def short_logs() -> dict[str, str]:
    """Return the settings that prevent Dask's processes from growing with each build."""
    variables = {name.upper().replace(".", "__").replace("-", "_"): n for name, n in SHORT_LOGS.items()}
    return {f"DASK_{name}": str(n) for name, n in variables.items()}


def environment(stack: Stack) -> dict[str, str]:
    """Return the environment in which a process uses the stack."""
    return {
        **api_of(stack).clients,
        "DASK_SCHEDULER_ADDRESS": stack.parts["scheduler"].address,
        **dask_key_pair(home()).dask_environment(),
        **scheduling(),
        **{name: str(value) for name, value in ALLOCATOR.items()},
    }


def running_stack() -> Stack | None:
    """Return the stack if its server, scheduler and workers run, otherwise None."""
    stack = load_stack()
    return stack if all(map(stack.runs, ("server", "scheduler", "dask-workers"))) else None


def stack_api() -> Api | None:
    """Return the API of the stack's Prefect server, if it runs."""
    stack = load_stack()
    return api_of(stack) if stack.runs("server") else None
