"""What makes a function a stage: Prefect's task around it, and the manifest by which it is finished.

    @task(cache_policy=BY_MANIFEST, **STAGE)
    @leaves_manifest("minhash", key)
    def minhash(recipe: Recipe, trail: Trail) -> Manifest:

A stage is a function from a recipe and the receipts of stages before it to a manifest. Its key is a hash of
all that can change the manifest. Where a manifest of this key is there, the stage is finished, on whichever
machine that was; Prefect's own cache has the same key, and what it remembers is a receipt with a seal.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.client.schemas.objects import State, TaskRun
from prefect.context import FlowRunContext, TaskRunContext
from prefect.filesystems import LocalFileSystem, RemoteFileSystem
from prefect.logging import get_run_logger
from prefect.runtime import task_run
from prefect.serializers import Serializer
from prefect.settings import get_current_settings
from prefect.tasks import exponential_backoff

from tasks.errors import Unavailable
from tasks.recipe.fields import Recipe
from tasks.stage.verdicts import trail_of
from tasks.storage.artifacts import RESULTS, Manifest, Receipt, finish_stage, finished_stage
from tasks.storage.records import digest_of, pack, seal, unseal

__all__ = [
    "BY_MANIFEST", "HERE", "ONCE_A_BUILD", "STAGE", "Runner", "leaves_manifest", "results_beside_manifests", "task",
]  # fmt: skip

RETRIES = 4
SECONDS_BEFORE_RETRY = 5  # then twice as long each time: 75 s in all

# What is published of every document that goes, and what is the same for all stages that let it go.
OF_EVERY_REMOVAL = ("doc_id", "source", "stage", "reason", "n_tokens")

Key = Callable[..., str]
ReasonsOf = Callable[[Recipe], dict[str, str]]
EvidenceOf = Callable[[Recipe], pa.Schema | None]


class ManifestKey(CachePolicy):
    """Prefect's cache key of a stage: that of its manifest, a hash of the stage's inputs and of nothing else."""

    def compute_key(self, task_ctx: Any, inputs: dict[str, Any], flow_parameters: Any, **_: Any) -> str:
        return str(task_ctx.task.fn.key(*inputs.values()))


BY_MANIFEST = ManifestKey()


class SealedReceipt(Serializer):  # of any type: Prefect cannot register one that is of Receipt
    """Writes receipts as sealed records, so that what Prefect remembers counts for nothing once it is changed."""

    type: Literal["zyda-receipt"] = "zyda-receipt"

    def dumps(self, obj: Receipt) -> bytes:
        return seal(obj)

    def loads(self, blob: bytes) -> Receipt:
        return unseal(blob, Receipt, "a receipt")


def leaves_manifest(
    name: str,
    key: Key,
    reasons: dict[str, str] | ReasonsOf | None = None,
    *,
    evidence: pa.Schema | EvidenceOf | None = None,
    of_all: bool = False,
) -> Callable[[Callable[..., Manifest]], Callable[..., Receipt]]:
    """Make a function that returns a manifest one that writes it and returns its receipt, once.

    Its first input after the recipe is the plan of a source, or the source's trail, which comes as a list of
    receipts: Prefect and Dask look for what is still to come in lists alone. of_all: the stage is about all
    sources, and its inputs are as they are.

    key: called with the same arguments. reasons: for which the stage lets documents go, each with a sentence
    that says it of a document. evidence: the columns of its verdicts that are published of those documents. Both
    may be functions that say of a recipe which they are.
    """
    if isinstance(evidence, pa.Schema):
        check_evidence(name, evidence)

    def evidence_for(recipe: Recipe) -> pa.Schema | None:
        return evidence(recipe) if callable(evidence) else evidence

    def reasons_of(recipe: Recipe) -> dict[str, str]:
        return reasons(recipe) if callable(reasons) else reasons or {}

    def decorate(make: Callable[..., Manifest]) -> Callable[..., Receipt]:
        def opened(inputs: Sequence[Any]) -> Sequence[Any]:
            return inputs if of_all else (as_given(inputs[0]), *inputs[1:])

        def its_key(recipe: Recipe, *inputs: Any) -> str:
            own, found = key(recipe, *opened(inputs)), evidence_for(recipe)
            return own if found is None else digest_of([own, pack(found)])

        @wraps(make)
        def stage(recipe: Recipe, *inputs: Any) -> Receipt:
            known_by = its_key(recipe, *inputs)
            source = None if of_all else opened(inputs)[0].source
            if receipt := finished_stage(recipe.folder, recipe.called(name), source, known_by):
                return receipt
            manifest = make(recipe, *opened(inputs))
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

        stage.__name__ = name
        vars(stage).update(key=its_key, reasons=reasons_of, of_all=of_all)
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


def as_given(first: Any) -> Any:
    return trail_of(first) if isinstance(first, list) else first


def run_name() -> str:
    """Name a task run as a person reads it: `minhash peps`."""
    context = TaskRunContext.get()
    if context is None:
        return str(task_run.task_name)
    recipe, *inputs = task_run.parameters.values()
    name = str(recipe.called(task_run.task_name))
    if vars(context.task.fn)["of_all"]:
        return name
    first, *_ = inputs
    first = first[0] if isinstance(first, list) else first
    if isinstance(first, State):
        first = first.result(raise_on_failure=False)
    return f"{name} {getattr(first, 'source', '')}".rstrip()


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
    "result_serializer": SealedReceipt(),
}
ONCE_A_BUILD: dict[str, Any] = {**RETRYING, "cache_policy": NO_CACHE}


class Runner(NamedTuple):
    """How the stages of a build are run: Prefect's way, or HERE.

    submit: takes a task and its arguments. result: of what `submit` returned. finished: receipts of what it
    returned for a stage of each source.
    """

    submit: Callable[..., Any]
    result: Callable[[Any], Any]
    finished: Callable[[Recipe, Sequence[Any]], list[Receipt]]


# One after another in this process, without Prefect and Dask: for tests and measurements.
HERE = Runner(
    submit=lambda stage, *inputs, **options: stage.fn(*inputs, **options),
    result=lambda done: done,
    finished=lambda _, receipts: list(receipts),
)


def results_beside_manifests(recipe: Recipe) -> None:
    """Have Prefect keep the results of this flow run's tasks in the corpus: a folder, or a saved block."""
    results = recipe.folder.folder(RESULTS)
    storage = LocalFileSystem(basepath=results.path("")) if results.is_local else saved_block(results.url)
    context = FlowRunContext.get()
    if context is not None:
        context.result_store = context.result_store.model_copy(update={"result_storage": storage})


def saved_block(url: str) -> RemoteFileSystem:
    """Return Prefect's own block of a place in a store; it holds no secrets."""
    block = RemoteFileSystem(basepath=url)
    block.save(f"zyda-{digest_of(url)}", overwrite=True)
    return block
