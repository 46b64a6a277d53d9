"""`zyda watch`: build corpora again when their sources change."""

from typing import Annotated

import typer

from zyda_flows.flows.command.arguments import Sample, SomeRecipePath, Storage
from zyda_flows.flows.command.terminal import say

EXAMPLES = ("zyda watch recipe.yaml --every 1h", "zyda watch --list", "zyda watch recipe.yaml --stop")


def watch(
    recipe_path: SomeRecipePath = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time between checks, such as 30s, 15m, 1h or 1d; at least 10s."),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop watching the corpus of RECIPE.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List watched corpora.")] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Check the sources of a recipe regularly, and build the corpus when they have changed.

    Use RECIPE with --every or --stop, or --list alone. The checks run in the stack of `zyda up`, so this command
    ends at once. Any number of corpora can be watched. To change the time between checks, start the command again
    with the same recipe.
    """
    from zyda_flows.deployments.schedules import run_watch_command  # late

    for line in run_watch_command(recipe_path, every, stop, show, storage, sample):
        say(line)
