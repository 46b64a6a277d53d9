"""Run parts of a command on the workers of a cluster, with a progress bar and without a flow run."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from zyda_flows.flows.command.build import hide_prefect_log, use_running_stack
from zyda_flows.flows.command.terminal import console
from zyda_flows.flows.server.signals import end_on_signal

if TYPE_CHECKING:
    from zyda_flows.tasks.recipe.fields import Recipe

KEPT = "finished parts are kept; start the command again to continue"


@contextmanager
def over_cluster(
    recipe: "Recipe", stage: str
) -> "Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]]":
    """Yield a function that calls a function on every item on workers, and shows the progress.

    The workers are those of `zyda up` or of the configured cluster; without both, of a cluster on this machine.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # late

    hide_prefect_log()
    err = console(stderr=True, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with end_on_signal(KEPT), ExitStack() as stack:
        use_running_stack(err)
        with err.status("starting the workers"):
            connect(stack, recipe)
        bars = stack.enter_context(Progress(*columns, console=err, disable=not err.is_terminal))

        def spread(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            from zyda_flows.tasks.spent import calling_on_result  # late
            from zyda_flows.tasks.stage.fan_out import fan_out  # late

            bar = bars.add_task(stage, total=len(items))
            with calling_on_result(lambda *_: bars.advance(bar)):
                results = fan_out(function, items, stage=stage, source=None)
            bars.remove_task(bar)
            return results

        yield spread


def connect(stack: ExitStack, recipe: "Recipe") -> None:
    """Connect this process to workers until the stack is closed."""
    from zyda_flows.tasks.stage.runner import threads_for  # late
    from zyda_flows.tasks.workers.dask_cluster import expect_cluster  # late
    from zyda_flows.tasks.workers.direct_calls import connected_to_cluster  # late
    from zyda_flows.tasks.workers.trouble import cluster_explained  # late

    expect_cluster()
    for name in ("distributed", "distributed.client"):  # Dask sets the level of each
        logging.getLogger(name).setLevel(logging.CRITICAL)
    stack.enter_context(cluster_explained())
    stack.enter_context(connected_to_cluster(threads_for(recipe)))
