"""What every stage's Prefect task has in common: a key, a cache, a name, retries that can help.

A stage is a function from a recipe and what it needs of the stages before it (their receipts) to a
manifest. `stage_task` makes the Prefect task of it, which returns the receipt of the finished
stage. The task's cache key is the manifest's key and its result lies beside the manifests, so that
Prefect's cache and the artifacts say the same thing, whichever server or machine runs next.
"""

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from prefect import Task
from prefect.client.schemas.objects import State, TaskRun
from prefect.filesystems import RemoteFileSystem
from prefect.futures import PrefectFuture
from prefect.runtime import task_run
from prefect.serializers import JSONSerializer
from prefect.settings import get_current_settings
from prefect.tasks import exponential_backoff

from tasks.artifacts import WORK, Done, Manifest, corpus_folder, finish_stage, finished_stage
from tasks.errors import Unavailable
from tasks.log import run_log
from tasks.recipe import Recipe
from tasks.records import digest_of

RESULTS = f"{WORK}/prefect"
RETRIES = 4
SECONDS_BEFORE_RETRY = 5  # then twice as long each time: 75 s in all


def seconds_before_retry() -> int:
    """Return how long to wait before the first retry: Prefect's own setting of it, where there is one."""
    configured = get_current_settings().tasks.default_retry_delay_seconds
    return round(configured) if isinstance(configured, int | float) and configured else SECONDS_BEFORE_RETRY


def can_help(_: Any, __: TaskRun, state: State[Any]) -> bool:
    """Say whether what a task raised may not happen again."""
    return isinstance(state.result(raise_on_failure=False), Unavailable)


# Where trying again can help: at once is too soon for a store that is down, and all at the same moment
# is too much for one that comes back.
RETRYING: dict[str, Any] = {
    "retries": RETRIES,
    "retry_delay_seconds": exponential_backoff(seconds_before_retry()),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": can_help,
}


def stage_task(name: str, *, key: Callable[..., str]) -> Callable[[Callable[..., Manifest]], Task[Any, Any]]:
    """Make a function `(recipe, input, ...) -> Manifest` the Prefect task of a stage.

    key: called with the same arguments; hashes all that can change the manifest. An input with a
    `source` says which source the stage is about; a stage whose first input has none is global.
    """

    def decorate(make: Callable[..., Manifest]) -> Task[Any, Any]:
        @wraps(make)
        def run(recipe: Recipe, *inputs: Any) -> Done:
            folder, its_key = corpus_folder(recipe), key(recipe, *inputs)
            if done := finished_stage(folder, name, source_of(*inputs), its_key):
                return done
            done = finish_stage(folder, make(recipe, *inputs), its_key)
            run_log().info("%s", done.sentence())
            return done

        def cache_key(_: Any, parameters: dict[str, Any]) -> str:
            recipe, *inputs = parameters.values()
            its_key = key(recipe, *inputs)
            forget_stale_result(recipe, name, source_of(*inputs), its_key)
            return its_key

        return Task(
            run,
            name=name,
            task_run_name=run_name,
            cache_key_fn=cache_key,
            persist_result=True,
            result_serializer="json",
            **RETRYING,
        )

    return decorate


def source_of(first: Any, *_: Any) -> str | None:
    """Return the source that a stage is about, from its first input: a receipt or its state."""
    if isinstance(first, State):
        first = first.result(raise_on_failure=False)
    return getattr(first, "source", None)


def run_name() -> str:
    """Name a task run as a person reads it: `minhash peps`."""
    _, *inputs = task_run.parameters.values()
    source = source_of(*inputs)
    return f"{task_run.task_name} {source}" if source else str(task_run.task_name)


def forget_stale_result(recipe: Recipe, stage: str, source: str | None, key: str) -> None:
    """Delete Prefect's record of a stage where it does not say just what the manifest says."""
    folder = corpus_folder(recipe)
    done = finished_stage(folder, stage, source, key)
    content = folder.read_if_there(f"{RESULTS}/{key}")
    if content is not None and (done is None or not is_record_of(content, done)):
        folder.delete(f"{RESULTS}/{key}")


def is_record_of(content: bytes, done: Done) -> bool:
    """Say whether Prefect's record of a result is one of this receipt, and nothing has changed it."""
    try:
        record = json.loads(content)
        result, serializer = json.loads(record["result"]), record["metadata"]["serializer"]
    except (ValueError, TypeError, KeyError):
        return False
    expected = {"__class__": f"{Done.__module__}.{Done.__name__}", "data": done.model_dump(mode="json")}
    return bool(result == expected and serializer == JSONSerializer().model_dump(mode="json"))


def start(stage: Task[Any, Any], recipe: Recipe, *inputs: Any) -> PrefectFuture[Any]:
    """Submit a stage, with Prefect's record of its result on the recipe's storage."""
    return stage.with_options(result_storage=result_storage(recipe)).submit(recipe, *inputs)


def result_storage(recipe: Recipe) -> Any:
    """Return where Prefect keeps results: a folder, or the name of a saved block without secrets."""
    results = corpus_folder(recipe).folder(RESULTS)
    if results.is_local:
        return Path(results.path(""))
    block = f"zyda-{digest_of(results.url)}"
    RemoteFileSystem(basepath=results.url).save(block, overwrite=True)
    return f"remote-file-system/{block}"
