"""Distribute a stage's work on shards over the workers, and forward log records of workers to the flow run."""

import logging
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import TypeVar
from uuid import uuid4

from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging import get_run_logger

from zyda_flows.tasks.log import LOG
from zyda_flows.tasks.spent import METER, ON_RESULT, Spent
from zyda_flows.tasks.stage.progress import TOPIC, Progress
from zyda_flows.tasks.workers.engine import Engine, FollowUp
from zyda_flows.tasks.workers.events import RUN, CallInRun, is_on_worker, log_event
from zyda_flows.tasks.workers.over_workers import over_workers
from zyda_flows.tasks.workers.submission import is_sent_to_gpu, waits_for_cluster
from zyda_flows.tasks.workers.waiting_calls import side_by_side

Item = TypeVar("Item")
Result = TypeVar("Result")

WARNINGS = "zyda-warnings"  # topic of events with warnings from workers


def fan_out(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    stage: str,
    source: str | None,
    engine: Engine = Engine.CPU,
    gpus: float = 1,
    follow_up: FollowUp | None = None,
    kept: Callable[[Result], Result] | None = None,
    planned: int = 0,
) -> list[Result]:
    """Call a function on every item on the cluster, and return the results in the order of the items.

    Args:
        function: Called with each item.
        items: Arguments of the calls.
        stage: Name of the stage, for progress and messages.
        source: Name of the source, or None for the corpus.
        engine: Engine of the workers. If no worker offers CPUs explicitly, CPU work may run on any worker.
        gpus: Fraction of a GPU that a call uses if it is sent to a GPU.
        follow_up: Work on GPUs that follows each result.
        kept: Called in this process with each result when it arrives, in any order; returns the result to hold
            until the end. By default all of it.
        planned: Number of items of the whole stage, about, if it distributes several lists of items in sequence.

    Progress is sent to the dashboard and to the process that started the build. Without a cluster, for example in a
    test of a stage, this process computes the items in sequence.

    Raises the error of the first failing item. Raises PoisonShards after all other items are done if several
    workers died during an item.
    """
    todo = list(items)
    run = current_run()
    progress = Progress(run, stage, source, len(todo), planned)
    if not (waits_for_cluster() or is_on_worker()):
        report_spent(stage)  # resources used so far do not belong to the items
        results = (progress.count(function(item), METER.take()) for item in todo)
        return [kept(result) if kept else result for result in results]
    here = copy_context()

    def count(result: Result, spent: Spent) -> Result:
        # Progress is reported in this context, because it contains Prefect's task run.
        here.run(progress.count, result, spent)
        return kept(result) if kept else result

    return context_without_prefect().run(
        over_workers, CallInRun(function, run), todo, count,
        group=f"{stage} shard", name=progress.name, engine=engine, gpus=gpus,
        follow_up=follow_up and follow_up._replace(function=CallInRun(follow_up.function, run)),
    )  # fmt: skip


def report_spent(stage: str) -> None:
    """Report the resources that this process used for a stage, apart from the calls that the stage distributed."""
    METER.begin()
    spent = METER.take()
    if on_result := ON_RESULT.get():
        on_result(stage, None, None, spent)
    log_event(TOPIC, current_run(), {"report_id": uuid4().hex, "stage": stage, "spent": {**vars(spent)}})


def has_gpus(engine: Engine) -> bool:
    """Return whether work that a stage sends out for an engine reaches GPUs.

    Raises LostWorkers if a GPU is required and no worker offers a GPU.
    """
    if not (waits_for_cluster() or is_on_worker()):
        return False
    return context_without_prefect().run(is_sent_to_gpu, engine)


def current_run() -> str:
    """Return the id of the current flow run, or "" outside a flow run."""
    if (task_context := TaskRunContext.get()) is not None:
        return str(task_context.task_run.flow_run_id or "")
    flow_context = FlowRunContext.get()
    return str(flow_context.flow_run.id) if flow_context is not None and flow_context.flow_run else RUN.get()


def over_sources(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    """Call a function that fans out on each source of a group, several at a time; return results in order."""
    if len(items) > 1 and is_on_worker():
        return context_without_prefect().run(side_by_side, function, items, copy_context())
    return [function(item) for item in items]


def context_without_prefect() -> Context:
    """Copy this context without Prefect's variables.

    The next task of a worker inherits the context of the thread that started it. If a Prefect task inherits the
    transaction of another task, it leaves the saving of its result to that transaction, which has already ended.
    """
    clean = Context()
    for variable, value in copy_context().items():
        if not type(value).__module__.startswith("prefect."):
            clean.run(variable.set, value)
    return clean


class RunLogHandler(logging.Handler):
    """Forward log records of this project to the logger of the current run.

    Work on a shard has no run on its worker; its records are sent to the flow as events of Dask.
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
    log.handlers = [RunLogHandler()]
