"""Losses: a build in which a source would lose more than its recipe lets it stops before it publishes."""

from collections.abc import Iterator
from fractions import Fraction

from zyda_flows.tasks.errors import TooMuchLost
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import rounds_of
from zyda_flows.tasks.stage.groups import ReceiptsByStage, trails_of
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.verdicts import Trail

NOT_LIMITED = {"deny"}  # what somebody asked to have removed is removed, however much it is
SPOKEN = {"rules": "the rules", "dedup": "deduplication", "filter": "the filter"}


@task(task_run_name="losses", **ONCE_A_BUILD)
def check_losses(recipe: Recipe, groups: list[ReceiptsByStage]) -> None:
    """Compare what each stage lets go of each source with its `max_loss`. Raises TooMuchLost.

    groups: the trails of their sources so far.
    """
    faults = [fault for trail in trails_of(groups) for fault in faults_of(recipe, trail)]
    if faults:
        raise TooMuchLost("; ".join(faults) + "; nothing new is published, and what was published stays")


def faults_of(recipe: Recipe, trail: Trail) -> Iterator[str]:
    """Yield a sentence on each that lets go more of a source's tokens than it may."""
    for by, (entering, lost) in losses_of(recipe, trail).items():
        if by in NOT_LIMITED:
            continue
        most = recipe.max_loss_of(trail.source, by)
        # As it is written: 0.57 of 100 tokens are 57, and not a little less.
        if most is not None and lost > Fraction(str(most)) * entering:
            yield (
                f"source {trail.source}: {SPOKEN.get(by, by)} would let {lost:,} of its {entering:,} tokens go "
                f"({lost / entering:.1%}), and max_loss is {most:g}"
            )


def losses_of(recipe: Recipe, trail: Trail) -> dict[str, tuple[int, int]]:
    """Return the tokens that came to the rules, to deduplication, to the filter, and those that each let go."""
    rounds = {of_round.name_of(name) for of_round in rounds_of(recipe) for name in ("against", "removals")}
    losses = dict[str, tuple[int, int]]()
    for receipt in trail.receipts:
        by = "dedup" if receipt.stage in rounds else receipt.stage
        entering, lost = losses.get(by, (receipt.entering.tokens, 0))
        losses[by] = (entering, lost + receipt.removed.tokens)
    return losses
