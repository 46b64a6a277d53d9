"""The commands about what runs on this machine, and on the Prefect server: up, status, watch, down."""

from typing import Annotated

import typer

from flows.command.cli.arguments import Sample, SomeRecipePath, Storage, command_of

running = typer.Typer(rich_help_panel="Run it from Prefect")


@command_of(running, "zyda up", "zyda up --workers 8 --threads 2", 'eval "$(zyda up --env)"')
def up(
    workers: Annotated[
        int | None, typer.Option(min=1, help="Dask workers; one for each core if not given.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads of each; 2 suit sources in an object store.")
    ] = 1,
    env: Annotated[
        bool, typer.Option("--env", help="Print its settings for a shell; start nothing.")
    ] = False,
) -> None:
    """Start the stack on this machine: Prefect server, Dask cluster, worker, deployments.

    What runs already is left alone. Everything listens on the loopback address.
    """
    from deployments.addresses import describe, exports
    from deployments.local import up as start_stack
    from deployments.stack import running_stack
    from flows.command.terminal import say

    lines = exports(running_stack()) if env else describe(start_stack(say, workers, threads))
    for line in lines:
        say(line)


@command_of(running, "zyda status", "zyda status recipes/demo.yaml")
def status(recipe: SomeRecipePath = None, storage: Storage = None, sample: Sample = None) -> None:
    """Say what runs, what ran last and what is watched; of a recipe, what was built and has changed since.

    Changes nothing and starts nothing.
    """
    from flows.command.show_status import print_status

    print_status(recipe, storage, sample)


@command_of(
    running,
    "zyda watch recipe.yaml --every 1h",
    "zyda watch --list",
    "zyda watch recipe.yaml --stop",
)
def watch(
    recipe: SomeRecipePath = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="How often to look: 30s, 15m, 1h or 1d.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Look at this corpus no more.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Print what is watched.")] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Look at a recipe's sources again and again, and build the corpus when they have changed.

    The watching is done by what `zyda up` started. Any number of corpora can be watched; saying it
    again of the same one changes how often.
    """
    from deployments.schedules import change_or_show
    from flows.command.terminal import say

    for line in change_or_show(recipe, every, stop, show, storage, sample):
        say(line)


@command_of(running)
def down() -> None:
    """Stop what `zyda up` started; runs and settings are kept for the next time."""
    from deployments.local import down as stop_stack
    from flows.command.terminal import say

    stop_stack(say)
