"""What makes a function a stage: Prefect's task around it, and the manifest by which it is finished.

    @task(cache_policy=BY_MANIFEST, **STAGE)
    @leaves_manifest("minhash", key)
    def minhash(recipe: Recipe, trail: Trail) -> Manifest:

A stage is a function from a recipe and the receipts of stages before it to a manifest. Its key is a hash of
all that can change the manifest. Where a manifest of this key is there, the stage is finished, on whichever
machine that was; Prefect's own cache has the same key, and what it remembers is a receipt with a seal.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import TaskRunContext
from prefect.logging import get_run_logger
from prefect.runtime import task_run
from prefect.settings import get_current_settings
from prefect.tasks import exponential_backoff

from tasks.errors import Unavailable
from tasks.recipe.fields import Recipe
from tasks.stage.groups import receipts_of, trails_of
from tasks.stage.remembered import BY_MANIFEST, SealedReceipts
from tasks.stage.spread import over_sources
from tasks.stage.verdicts import trail_of
from tasks.storage.artifacts import Manifest, Receipt, finish_stage, finished_stage
from tasks.storage.records import digest_of, pack

__all__ = [
    "BY_MANIFEST", "HERE", "ONCE_A_BUILD", "STAGE", "Runner", "as_it_is", "leaves_manifest", "opened", "task",
]  # fmt: skip

RETRIES = 4
SECONDS_BEFORE_RETRY = 5  # then twice as long each time: 75 s in all

# What is published of every document that goes, and what is the same for all stages that let it go.
OF_EVERY_REMOVAL = ("doc_id", "source", "stage", "reason", "n_tokens")

Key = Callable[..., str]
Asked = Callable[[Recipe, str], bool]
Opened = Callable[[Any], Any]
ReasonsOf = Callable[[Recipe], dict[str, str]]
EvidenceOf = Callable[[Recipe], pa.Schema | None]


def always(_: Recipe, __: str) -> bool:
    """Say that every recipe asks for a stage, of every source."""
    return True


def as_it_is(given: Any) -> Any:
    return given


def leaves_manifest(
    name: str,
    key: Key,
    reasons: dict[str, str] | ReasonsOf | None = None,
    *,
    evidence: pa.Schema | EvidenceOf | None = None,
    asked: Asked = always,
    of_all: Opened | None = None,
) -> Callable[[Callable[..., Manifest]], Callable[..., Any]]:
    """Make a function that returns a manifest one that writes it and returns its receipt, once.

    Its first input after the recipe is the plan of a source, or the source's trail. For a group of sources, that
    input is the list of their plans, or of the receipts that each stage so far has of them (Prefect and Dask look
    for what is still to come in lists alone), and a list of receipts is returned. of_all: the stage is about all
    sources, and makes its first input from those of all groups by this.

    key: called with the same arguments. reasons: for which the stage lets documents go, each with a sentence
    that says it of a document. evidence: the columns of its verdicts that are published of those documents. Both
    may be functions that say of a recipe which they are. asked: whether a recipe asks for the stage of a source.
    """
    if isinstance(evidence, pa.Schema):
        check_evidence(name, evidence)

    def evidence_for(recipe: Recipe) -> pa.Schema | None:
        return evidence(recipe) if callable(evidence) else evidence

    def reasons_of(recipe: Recipe) -> dict[str, str]:
        return reasons(recipe) if callable(reasons) else reasons or {}

    def decorate(make: Callable[..., Manifest]) -> Callable[..., Any]:
        def key_of_one(recipe: Recipe, *inputs: Any) -> str:
            own, found = key(recipe, *inputs), evidence_for(recipe)
            return own if found is None else digest_of([own, pack(found)])

        def once(recipe: Recipe, *inputs: Any) -> Receipt:
            known_by = key_of_one(recipe, *inputs)
            source = None if of_all else inputs[0].source
            if receipt := finished_stage(recipe.folder, recipe.called(name), source, known_by):
                return receipt
            manifest = make(recipe, *inputs)
            check_manifest(manifest, (name, recipe.called(name)), source)
            manifest = manifest.model_copy(update={"stage": recipe.called(name)})
            if (found := evidence_for(recipe)) is not None:
                check_evidence(name, found)
                manifest = manifest.model_copy(update={"evidence": pack(found)})
            # The manifest is written after all that it lists: where it is, the stage is finished.
            receipt = finish_stage(recipe.folder, manifest, known_by)
            if TaskRunContext.get():
                get_run_logger().info("%s", receipt.sentence())
            return receipt

        def members(recipe: Recipe, group: list[Any]) -> list[Any]:
            return [one for one in each_of(group) if asked(recipe, one.source)]

        def its_key(recipe: Recipe, first: Any, *inputs: Any) -> str:
            if of_all:
                return key_of_one(recipe, of_all(first), *inputs)
            if not isinstance(first, list):
                return key_of_one(recipe, first, *inputs)
            keys = [key_of_one(recipe, one, *inputs) for one in members(recipe, first)]
            return keys[0] if len(keys) == 1 else digest_of(keys)

        @wraps(make)
        def stage(recipe: Recipe, first: Any, *inputs: Any) -> Receipt | list[Receipt]:
            if of_all:
                return once(recipe, of_all(first), *inputs)
            if not isinstance(first, list):
                return once(recipe, first, *inputs)
            return over_sources(lambda one: once(recipe, one, *inputs), members(recipe, first))

        stage.__name__ = name
        vars(stage).update(key=its_key, reasons=reasons_of, of_all=bool(of_all), asked=asked)
        return stage

    return decorate


def check_evidence(stage: str, evidence: pa.Schema) -> None:
    """Raise ValueError where a column of evidence has the name of one that stands there for every stage."""
    if clashing := [field.name for field in evidence if field.name in OF_EVERY_REMOVAL]:
        raise ValueError(
            f"stage {stage}: evidence cannot be called {clashing[0]}: removed/ has a column of that name already"
        )


def check_manifest(manifest: Any, names: tuple[str, str], source: str | None) -> None:
    """Raise TypeError where what a stage returned is not its own manifest. names: its own, and of its round."""
    if not isinstance(manifest, Manifest):
        raise TypeError(f"stage {names[0]} has to return a Manifest, not {type(manifest).__name__}")
    if manifest.stage not in names or manifest.source != source:
        raise TypeError(
            f"stage {names[0]} of source {source} returned the manifest of stage {manifest.stage} of source "
            f"{manifest.source}"
        )


def each_of(group: list[Any]) -> list[Any]:
    """Return the plans of a group's sources as they are, or a trail for each from the receipts of stages."""
    return [trail_of(receipts) for receipts in trails_of([group])] if isinstance(group[0], list) else group


def run_name() -> str:
    """Name a task run as a person reads it: `minhash peps`, `minhash arxiv to wiki (12 sources)`."""
    context = TaskRunContext.get()
    if context is None:
        return str(task_run.task_name)
    recipe, first, *_ = task_run.parameters.values()
    name = str(recipe.called(task_run.task_name))
    if vars(context.task.fn)["of_all"]:
        return name
    group: Any = first if isinstance(first, list) else [first]
    if isinstance(group[0], State):
        group = group[0].result(raise_on_failure=False)
    asked = vars(context.task.fn)["asked"]
    sources = [source for one in group if asked(recipe, source := str(getattr(one, "source", "")))]
    if len(sources) > 1:
        return f"{name} {sources[0]} to {sources[-1]} ({len(sources)} sources)"
    return " ".join([name, *sources])


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
STAGE: dict[str, Any] = {
    **RETRYING,
    "task_run_name": run_name,
    "persist_result": True,
    "result_serializer": SealedReceipts(),
}
ONCE_A_BUILD: dict[str, Any] = {**RETRYING, "cache_policy": NO_CACHE}


class Runner(NamedTuple):
    """How the stages of a build are run: Prefect's way, or HERE.

    submit: takes a task and its arguments. result: of what `submit` returned. finished: the receipts of what it
    returned for a stage of each group.
    """

    submit: Callable[..., Any]
    result: Callable[[Any], Any]
    finished: Callable[[Sequence[Any]], list[Receipt]]


def opened(results: Iterable[Receipt | list[Receipt]]) -> list[Receipt]:
    """Return the receipts of a stage, whether it is about all sources or of each group."""
    return receipts_of(one if isinstance(one, list) else [one] for one in results)


# One after another in this process, without Prefect and Dask: for tests and measurements.
HERE = Runner(
    submit=lambda stage, *inputs, **options: stage.fn(*inputs, **options),
    result=lambda done: done,
    finished=opened,
)
