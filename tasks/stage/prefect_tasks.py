"""Configure Prefect's tasks: their retries, and tasks that run in every build."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import prefect
from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.settings import get_current_settings
from prefect.tasks import exponential_backoff

from zyda_flows.tasks.errors import Unavailable, without_causes
from zyda_flows.tasks.stage.fan_out import report_spent

__all__ = ["ONCE_A_BUILD", "RETRYING", "task"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

RETRIES = 4
SECONDS_BEFORE_RETRY = 5  # then twice as long each time: 75 s in all


def seconds_before_retry() -> int:
    """Return the seconds before the first retry: Prefect's setting if it is set, else SECONDS_BEFORE_RETRY."""
    configured = get_current_settings().tasks.default_retry_delay_seconds
    return round(configured) if isinstance(configured, int | float) and configured else SECONDS_BEFORE_RETRY


def may_be_retried(_: Any, __: TaskRun, state: State[Any]) -> bool:
    """Return whether a retry can help: the task raised Unavailable."""
    return isinstance(state.result(raise_on_failure=False), Unavailable)


# A delay gives an unavailable store time to recover; jitter prevents that all tasks retry at the same time.
RETRYING: dict[str, Any] = {
    "retries": RETRIES,
    "retry_delay_seconds": exponential_backoff(seconds_before_retry()),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": may_be_retried,
}
ONCE_A_BUILD: dict[str, Any] = {**RETRYING, "cache_policy": NO_CACHE}


def task(**options: Any) -> Callable[[Callable[Parameters, Result]], Task[Parameters, Result]]:
    """Make a function a Prefect task whose errors can be sent from any worker to the flow. options: Prefect's."""

    def decorate(function: Callable[Parameters, Result]) -> Task[Parameters, Result]:
        @wraps(function)  # not a decorator of contextlib: it cannot be pickled
        def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
            with without_causes():
                result = function(*arguments, **named)
            report_spent(str(options["task_run_name"]))
            return result

        return prefect.task(call, **options)

    return decorate
