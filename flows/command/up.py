"""`zyda up`: start the stack on this machine."""

from typing import Annotated

import typer

from zyda_flows.flows.command.terminal import say

EXAMPLES = ("zyda up", "zyda up --workers 8 --threads 2", 'eval "$(zyda up --env)"')


def up(
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of Dask workers. If not given, one for each core."),
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Threads of each worker; use 2 for sources in an object store."
        ),
    ] = 1,
    env: Annotated[
        bool,
        typer.Option(
            "--env",
            help="Print the addresses and keys of the running stack as shell commands; start nothing.",
        ),
    ] = False,
) -> None:
    """Start the stack on this machine: a Prefect server, a Dask cluster, a worker and the deployments.

    Start the command again to restart parts that have ended, and the parts that depend on them; running parts keep
    their options. All servers listen only on the loopback address. `zyda down` stops the stack.
    """
    from zyda_flows.deployments.addresses import describe, exports  # late
    from zyda_flows.deployments.local import up as start_stack  # late
    from zyda_flows.deployments.stack import running_stack  # late

    lines = exports(running_stack()) if env else describe(start_stack(say, workers, threads))
    for line in lines:
        say(line)
