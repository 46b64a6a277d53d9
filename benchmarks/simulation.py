"""A build whose stages do nothing: what is left is orchestration.

The flow's own wiring (`flows.build.made`), on tasks that have the options of the real ones, with their keys,
manifests, receipts and the page of the build in the dashboard. Each spreads as many items over the cluster as a
source has files, and every item returns at once.

It reads and writes no documents, looks at no sources, checks no losses and publishes nothing; nor has it what
`flows.build.build` puts around the wiring: locks, leases, the bars of the terminal. `prepare` has an item for each
file of all sources, a stage about all sources as many as one source. A real build has fewer in most stages, for its
shards hold many files each.
"""

from functools import partial
from typing import Any

from prefect import flow

from flows.build import made, on_prefect
from flows.dashboard.live_artifact import live_page
from flows.dashboard.state import BuildState
from tasks import pipeline
from tasks.intake.plan import IngestParameters, SourcePlan
from tasks.recipe.fields import Recipe
from tasks.recipe.loading import load_recipe
from tasks.stage.remembered import results_beside_manifests
from tasks.stage.runner import task_runner
from tasks.stage.spread import fan_out
from tasks.stage.task import BY_MANIFEST, ONCE_A_BUILD, STAGE, as_it_is, leaves_manifest, task
from tasks.storage.artifacts import Manifest, stage_key


def simulate(path: str, sources: int, files: int) -> None:
    """Run the flow's own wiring on stages that do nothing."""
    one = load_recipe(path)
    of_many = tuple(one.sources[0].model_copy(update={"name": f"s{i}"}) for i in range(sources))
    plan = one.model_copy(update={"sources": of_many})
    stages = stages_that_do_nothing(sources, files)

    def build() -> None:
        state = BuildState(plan)
        on = on_prefect(state)

        def submit(stage: Any, *inputs: Any, **options: Any) -> Any:
            return on.submit(stages[pipeline.name_of(stage)], *inputs, **options)

        with live_page(plan, state):
            results_beside_manifests(plan)
            made(plan, on._replace(submit=submit))

    flow(build, name="simulation", task_runner=task_runner(1), persist_result=False)()


def stages_that_do_nothing(sources: int, files: int) -> dict[str, Any]:
    """Return a task for each of the flow's, by its name, with its options and without its work."""
    of_all = {pipeline.name_of(stage): getattr(stage.fn, "of_all", None) for stage in pipeline.stages()}
    done: dict[str, Any] = {
        "prepare": partial(plans_of, sources, files), "check_losses": nothing, "publish_corpus": nothing,
        "note_built": nothing,
    }  # fmt: skip
    return {
        name: task(cache_policy=BY_MANIFEST, **STAGE)(stage_of_nothing(name, files, about_all))
        for name, about_all in of_all.items()
        if about_all is not None
    } | {name: task(**ONCE_A_BUILD)(called(name, call)) for name, call in done.items()}


def called(name: str, call: Any) -> Any:
    """Return a function of a name, as a stage has one."""

    def stage(recipe: Recipe, *inputs: Any, **options: Any) -> Any:
        return call(recipe, *inputs, **options)

    stage.__name__ = name
    return stage


def stage_of_nothing(name: str, files: int, of_all: bool) -> Any:
    """Return a stage that spreads its items, and leaves a manifest of nothing."""

    def key(recipe: Recipe, *inputs: Any) -> str:
        return stage_key(recipe.called(name), 1, files, "" if of_all else inputs[0].source)

    def stage(recipe: Recipe, *inputs: Any) -> Manifest:
        source = None if of_all else inputs[0].source
        fan_out(nothing, range(files), stage=name, source=source)
        return Manifest(stage=name, source=source)

    return leaves_manifest(name, key, of_all=as_it_is if of_all else None)(stage)


def plans_of(sources: int, files: int, *_: Any, **__: Any) -> list[Any]:
    """Plan the sources of a simulation as `prepare` does, with an item for each file."""
    fan_out(nothing, range(sources * files), stage="prepare", source=None)
    parameters = IngestParameters(
        text="text", classified=False, set_aside=False, shard_bytes=1, tokenizer="", sample_rows=1
    )
    return [SourcePlan(source=f"s{i}", number=i, listing="", parameters=parameters) for i in range(sources)]


def nothing(*_: Any, **__: Any) -> None:
    """Return at once."""
