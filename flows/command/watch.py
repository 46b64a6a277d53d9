"""`zyda watch`: corpora that are built again when their sources have changed."""

from typing import Annotated

import typer

from zyda_flows.flows.command.arguments import Sample, SomeRecipePath, Storage
from zyda_flows.flows.command.terminal import say

EXAMPLES = ("zyda watch recipe.yaml --every 1h", "zyda watch --list", "zyda watch recipe.yaml --stop")


def watch(
    recipe_path: SomeRecipePath = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="How often to look: 30s, 15m, 1h or 1d.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop watching this corpus.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Print what is watched.")] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Look at a recipe's sources again and again, and build the corpus when they have changed.

    The watching is done by what `zyda up` started. Any number of corpora can be watched; saying it
    again of the same one changes how often.
    """
    from zyda_flows.deployments.schedules import run_watch_command  # late

    for line in run_watch_command(recipe_path, every, stop, show, storage, sample):
        say(line)
