"""`zyda ablate --removed`: compare what a recipe removed with what it kept, and print the differences."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from zyda_flows.flows.command.terminal import console, say, table_of
from zyda_flows.tasks.errors import BadRequest

RunJobs = Callable[[Sequence[Any], int], list[Any]]


def print_removed(
    path: str,
    tokens: str,
    parameters: str | None,
    storage: str | None,
    runs: AbstractContextManager[RunJobs],
    show: Callable[[str], object],
) -> None:
    """Train the missing runs, and print a row for each stage and reason. Raises BadRequest for the options."""
    from zyda_flows.tasks.ablation.removed import RESULT, RemovedOptions, compare_removed  # late
    from zyda_flows.tasks.recipe.loading import load_recipe  # late

    options = RemovedOptions(
        parameters=None if parameters is None else number_of("--parameters", parameters, 5e4, 1.5e8),
        tokens=number_of("--tokens", tokens, 1e4, 1e11),
        storage=storage,
    )
    with runs as run_jobs:
        result = compare_removed(load_recipe(path), path, options, run_jobs, show)
    names = ("stage", "reason", "documents", "compared", "bits per byte", "interval", "removed documents are")
    table = table_of(*names, words=("stage", "reason", "removed documents are"))
    for group in result.groups:
        difference, interval = "", ""
        if group.cells:
            difference, interval = f"{group.difference:+.3f}", f"{group.low:+.3f} to {group.high:+.3f}"
        counts = (f"{group.documents:,}", f"{group.compared:,}")
        table.add_row(group.stage, group.reason, *counts, difference, interval, group.verdict)
    console().print(table)
    left_out = sum(group.left_out for group in result.groups)
    say(
        f"{result.runs} runs of {result.parameters:,} parameters, {result.tokens:,} tokens, "
        f"{result.seconds:,.0f} s ({result.device}); {left_out} cells of a source and a length have too few "
        "documents. More bits mean that a text is less like the kept texts."
    )
    say(f"results: {result.url}/{RESULT}")


def number_of(option: str, text: str, least: float, most: float) -> float:
    """Return a number such as 5M. Raises BadRequest."""
    from zyda_flows.tasks.mixing.mixture import amount  # late

    try:
        value = float(str(amount(text)))
    except ValueError:
        value = 0.0
    if not least <= value <= most:
        raise BadRequest(f"{option} {text}: expected a number from {least:,.0f} to {most:,.0f}, such as 5M")
    return value
