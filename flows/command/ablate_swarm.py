"""`zyda ablate --swarm`: train models on random mixtures, and print the proposed mixture."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from zyda_flows.flows.command.terminal import console, say, table_of

if TYPE_CHECKING:
    from zyda_flows.tasks.ablation.experiment import Experiment
    from zyda_flows.tasks.ablation.mixture_fit import Proposal

RunJobs = Callable[[Sequence[Any], int], list[Any]]


def proposal_of(
    experiment: "Experiment",
    count: int | None,
    tables: tuple[str, str] | None,
    runs: AbstractContextManager[RunJobs],
    show: Callable[[str], object],
) -> "Proposal":
    """Return the proposal of a new swarm of `count` random mixtures, or of the tables of a swarm."""
    from zyda_flows.tasks.ablation.libraries import expect_libraries  # late

    expect_libraries()
    from zyda_flows.tasks.ablation.swarm import natural_variant, proposed, train_swarm  # late: scipy
    from zyda_flows.tasks.ablation.swarm_tables import read_tables  # late

    if tables is None:
        with runs as run_jobs:
            return train_swarm(experiment, count or 0, run_jobs, show)
    table = read_tables(*tables)
    if table.left_out:
        console(stderr=True).print(f"{table.left_out} runs are in one of the tables only; they are left out")
    show("fitting the measures")
    return proposed(experiment, table, natural_variant(experiment))


def print_proposal(experiment: "Experiment", found: "Proposal") -> None:
    """Print the shares of a proposal, its predicted gain, and the path of its mixture file."""
    from zyda_flows.tasks.ablation.swarm import MIXTURE  # late

    table = table_of("part", "natural share", "proposed share", words=("part",))
    for part, share in found.shares.items():
        table.add_row(part, f"{found.natural[part]:.1%}", f"{share:.1%}")
    console().print(table)
    say(
        f"predicted gain: {found.gain:.4f} of the mean of {len(found.measures)} measures (interval "
        f"{found.low:.4f} to {found.high:.4f}), from {found.runs} runs; rank correlation of left-out runs and "
        f"predictions: {found.rank_correlation:.2f}"
    )
    if found.low <= 0:
        say("no better mixture seen: the interval contains 0")
    say(f"mixture: {experiment.folder.url}/{MIXTURE}")
