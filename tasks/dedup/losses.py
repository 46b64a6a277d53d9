"""Losses: a build in which a source would lose more than its recipe lets it stops before it publishes."""

from fractions import Fraction

from tasks.errors import TooMuchLost
from tasks.recipe.fields import Recipe
from tasks.stage.groups import OfGroup, trails_of
from tasks.stage.task import ONCE_A_BUILD, task
from tasks.stage.verdicts import trail_of


@task(task_run_name="losses", **ONCE_A_BUILD)
def check_losses(recipe: Recipe, groups: list[OfGroup]) -> None:
    """Compare what deduplication lets go of each source with its `max_loss`. Raises TooMuchLost.

    groups: the trails of their sources, up to the last round.
    """
    rounds = {of_round.called(name) for of_round in recipe.each_round() for name in ("against", "removals")}
    faults = list[str]()
    for trail in map(trail_of, trails_of(groups)):
        of_rounds = [receipt for receipt in trail.receipts if receipt.stage in rounds]
        entering, lost = of_rounds[0].entering.tokens, sum(receipt.removed.tokens for receipt in of_rounds)
        most = recipe.max_loss_of(recipe.source(trail.source))
        # As it is written: 0.57 of 100 tokens are 57, and not a little less.
        if most is not None and lost > Fraction(str(most)) * entering:
            faults.append(
                f"source {trail.source}: deduplication would let {lost:,} of its {entering:,} tokens go "
                f"({lost / entering:.1%}), and max_loss is {most:g}"
            )
    if faults:
        raise TooMuchLost("; ".join(faults) + "; nothing is published")
