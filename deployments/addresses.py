"""Describe the stack to a person or a shell: its running parts, their addresses, and how to use them."""

import shlex

from zyda_flows.deployments.registration import POOL
from zyda_flows.deployments.stack import Stack, api_of, environment
from zyda_flows.flows.server.local_server import NoServer, home

PARTS = ("server", "scheduler", "dask-workers", "worker")
NOTHING = "nothing runs here; start it with: zyda up"
HOW_TO_USE = (
    '`zyda build` and `zyda watch` use it automatically. For other programs:  eval "$(zyda up --env)"'
)


def describe(stack: Stack) -> list[str]:
    """Return lines that describe the running parts, and how other programs use them."""
    return [*addresses(stack), "", HOW_TO_USE]


def addresses(stack: Stack) -> list[str]:
    """Return a line for each running part and each missing part; none if no part runs."""
    lines = []
    if stack.runs("server"):
        api = api_of(stack)
        lines += [f"dashboard        {api.link}", f"Prefect API      {api.url}"]
    if stack.runs("scheduler"):
        scheduler = stack.parts["scheduler"]
        lines += [
            f"Dask             {scheduler.address}, for users who can read {home()}",
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
    """Return the environment of the running stack as commands for a shell. Raises NoServer if it does not run."""
    if stack is None:
        raise NoServer(NOTHING)
    return [f"export {name}={shlex.quote(value)}" for name, value in environment(stack).items()]
