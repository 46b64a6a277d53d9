"""How a stage spreads the work on its shards over the workers, and how their log reaches the flow's."""

import logging
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import TypeVar
from uuid import uuid4

from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging import get_run_logger

from zyda_flows.tasks.log import LOG
from zyda_flows.tasks.spent import METER, TELL, Spent
from zyda_flows.tasks.stage.progress import TOPIC, Progress
from zyda_flows.tasks.workers.engine import Engine, FollowUp
from zyda_flows.tasks.workers.events import RUN, BoundToRun, is_on_worker, log_event
from zyda_flows.tasks.workers.submission import is_sent_to_gpu, waits_for_cluster
from zyda_flows.tasks.workers.window import over_workers, side_by_side

Item = TypeVar("Item")
Result = TypeVar("Result")

WARNINGS = "zyda-warnings"  # the topic by which a worker's warnings reach the flow


def fan_out(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    stage: str,
    source: str | None,
    engine: Engine = Engine.CPU,
    gpus: float = 1,
    then: FollowUp | None = None,
) -> list[Result]:
    """Call a function on every item, over the cluster, and return the results in order.

    engine: on which workers; a CPU's may be any, where none says that it is for those. gpus: how much of one GPU a
    call takes, where it is sent to one. then: what is done on GPUs with what comes of each result.

    Progress goes to the dashboard and to whoever follows the build. Without a cluster, as in a
    test of one stage, the items are done here, one after another. Raises what the first failing
    item raised, and PoisonShards where some took one worker after another with them, when all others are done.
    """
    todo = list(items)
    run = current_run()
    progress = Progress(run, stage, source, len(todo))
    if not (waits_for_cluster() or is_on_worker()):
        report_spent(stage)  # what came before is the work of none of them
        return [progress.count(function(item), METER.take()) for item in todo]
    here = copy_context()

    def count(result: Result, spent: Spent) -> Result:
        # The dashboard is told from the context that still has Prefect's task run in it.
        return here.run(progress.count, result, spent)

    return context_without_prefect().run(
        over_workers, BoundToRun(function, run), todo, count,
        group=f"{stage} shard", name=progress.name, engine=engine, gpus=gpus,
        then=then and then._replace(function=BoundToRun(then.function, run)),
    )  # fmt: skip


def report_spent(stage: str) -> None:
    """Tell whoever follows the build what this process has spent for a stage beside the calls that it spread."""
    METER.begin()
    spent = METER.take()
    if tell := TELL.get():
        tell(stage, None, None, spent)
    log_event(TOPIC, current_run(), {"number": uuid4().hex, "stage": stage, "spent": {**vars(spent)}})


def has_gpus(engine: Engine) -> bool:
    """Say whether what a stage sends out for an engine reaches GPUs.

    Raises LostWorkers where it must, and there is none.
    """
    if not (waits_for_cluster() or is_on_worker()):
        return False
    return context_without_prefect().run(is_sent_to_gpu, engine)


def current_run() -> str:
    """Return the flow run that this is a part of: its id, or nothing outside of one."""
    if (of_task := TaskRunContext.get()) is not None:
        return str(of_task.task_run.flow_run_id or "")
    of_flow = FlowRunContext.get()
    return str(of_flow.flow_run.id) if of_flow is not None and of_flow.flow_run else RUN.get()


def over_sources(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """Call a function that fans out on each of the sources of a group, some at a time; return results in order."""
    if len(items) > 1 and is_on_worker():
        return context_without_prefect().run(side_by_side, function, items, copy_context())
    return [function(item) for item in items]


def context_without_prefect() -> Context:
    """Copy this context without what Prefect keeps in it.

    What a worker starts next inherits the context of the thread that gives it room. A Prefect task
    that finds another's transaction there leaves the saving of its result to that one, which is over.
    """
    clean = Context()
    for variable, value in copy_context().items():
        if not type(value).__module__.startswith("prefect."):
            clean.run(variable.set, value)
    return clean


class ToTheRun(logging.Handler):
    """Leads our log to that of the run that is here.

    A shard's work on a worker has none of its own; what it says goes to the flow, as an event of Dask's.
    """

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if TaskRunContext.get() or FlowRunContext.get():
            get_run_logger().log(record.levelno, "%s", text)
        elif is_on_worker():
            log_event(WARNINGS, RUN.get(), text)
            if until := getattr(record, "until", None):
                log_event(TOPIC, RUN.get(), {"host": getattr(record, "host", ""), "until": until})
        elif logging.lastResort and not logging.root.handlers:
            logging.lastResort.handle(record)


for log in (LOG, logging.getLogger("textkernels")):
    log.handlers = [ToTheRun()]
