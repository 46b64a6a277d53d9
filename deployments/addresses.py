"""What a person, or a shell, is told of the stack: what runs where, and how to use it."""

import shlex

from zyda_flows.deployments.local import POOL
from zyda_flows.deployments.stack import Stack, api_of, environment
from zyda_flows.flows.server.local_server import NoServer, home

PARTS = ("server", "scheduler", "dask-workers", "worker")
NOTHING = "nothing runs here; start it with: zyda up"
HOW_TO_USE = (
    '`zyda build` and `zyda watch` find it by themselves. For other programs:  eval "$(zyda up --env)"'
)


def describe(stack: Stack) -> list[str]:
    """Say what runs where, and how other programs find it."""
    return [*addresses(stack), "", HOW_TO_USE]


def addresses(stack: Stack) -> list[str]:
    """Say what runs where, and what of it does not, if anything does."""
    lines = []
    if stack.runs("server"):
        api = api_of(stack)
        lines += [f"dashboard        {api.link}", f"Prefect API      {api.url}"]
    if stack.runs("scheduler"):
        scheduler = stack.parts["scheduler"]
        lines += [
            f"Dask             {scheduler.address}, for who can read {home()}",
            f"Dask's dashboard {scheduler.dashboard}",
        ]
    if stack.runs("worker"):
        lines.append(f"work pool        {POOL}, worker `local` on this machine")
    if not lines:
        return []
    lines.append(f"logs             {home()}/*.log")
    missing = [name for name in (*PARTS, *stack.parts) if not stack.runs(name)]
    return [*lines, *(f"{name:16} does not run; zyda up starts it" for name in dict.fromkeys(missing))]


def exports(stack: Stack | None) -> list[str]:
    """Write the environment of the running stack as a shell reads it. Raises NoServer where none runs."""
    if stack is None:
        raise NoServer(NOTHING)
    return [f"export {name}={shlex.quote(value)}" for name, value in environment(stack).items()]
