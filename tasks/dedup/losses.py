"""Losses: stop a build before it publishes, if a source would lose more than its recipe allows."""

from collections.abc import Iterator
from fractions import Fraction

from zyda_flows.tasks.errors import TooMuchLost
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.recipe.rounds import rounds_of
from zyda_flows.tasks.stage.groups import ReceiptsByStage, trails_of
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.verdicts import Trail

NOT_LIMITED = {"deny"}  # documents that were requested to be removed are removed without a limit
NAMED = {"cuts": "passages", "keep_bucket": "filter"}  # stages with another name in a recipe
SPOKEN = {"rules": "the rules", "dedup": "deduplication", "filter": "the filter", "passages": "passages"}


@task(task_run_name="losses", **ONCE_A_BUILD)
def check_losses(recipe: Recipe, groups: list[ReceiptsByStage]) -> None:
    """Compare the tokens that each stage removes from each source with its `max_loss`. Raises TooMuchLost.

    groups: the trails of the sources so far.
    """
    faults = [fault for trail in trails_of(groups) for fault in faults_of(recipe, trail)]
    if faults:
        raise TooMuchLost(
            "; ".join(faults) + "; nothing new is published, and the published corpus is unchanged"
        )


def faults_of(recipe: Recipe, trail: Trail) -> Iterator[str]:
    """Yield a sentence for each step that removes more of a source's tokens than allowed."""
    for by, (entering, lost) in losses_of(recipe, trail).items():
        if by in NOT_LIMITED:
            continue
        most = recipe.max_loss_of(trail.source, by)
        # As the decimal in the recipe: 0.57 of 100 tokens is exactly 57.
        if most is not None and lost > Fraction(str(most)) * entering:
            yield (
                f"source {trail.source}: {SPOKEN.get(by, by)} would remove {lost:,} of its {entering:,} tokens "
                f"({lost / entering:.1%}), but max_loss is {most:g}"
            )


def losses_of(recipe: Recipe, trail: Trail) -> dict[str, tuple[int, int]]:
    """Return, for rules, deduplication and filter, the tokens that entered and the tokens that were removed."""
    rounds = {
        dedup_round.name_of(name) for dedup_round in rounds_of(recipe) for name in ("against", "removals")
    }
    judges = {Judged(recipe, judge.name).name_of("keep") for judge in recipe.all_judges}
    groups = NAMED | dict.fromkeys(rounds, "dedup") | dict.fromkeys(judges, "filter")
    losses = dict[str, tuple[int, int]]()
    for receipt in trail.receipts:
        by = groups.get(receipt.stage, receipt.stage)
        entering, lost = losses.get(by, (receipt.entering.tokens, 0))
        losses[by] = (entering, lost + receipt.removed.tokens + receipt.cut.tokens)
    return losses
